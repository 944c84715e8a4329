"""This package has the commands that send and print messages.

This package contains, in reading order:

    produce.py             `ledgermq produce`
    line_reader.py, json_line.py, message_template.py    what `produce` sends: lines, JSON lines, or made messages
    flow.py, produce_report.py                           its rate, progress and account
    consume.py             `ledgermq consume`
    group_consumption.py   `ledgermq consume --group`
    timer.py               `ledgermq timer`: messages that wait for their delivery times
    transaction.py         `ledgermq transaction`: transactions that are open
    message.py             `ledgermq message`: one message by its offset, or messages by key
    message_writer.py, line_template.py                  how messages are printed
"""
