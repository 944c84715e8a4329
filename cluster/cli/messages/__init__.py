"""This package has the commands that send and print messages.

This package contains, in reading order:

    produce.py             `ledgermq produce`
    consume.py             `ledgermq consume`
    group_consumption.py   `ledgermq consume --group`
    message.py             `ledgermq message`: one message by its offset, or messages by key
    message_writer.py      how messages are printed
"""
