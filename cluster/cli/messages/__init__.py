"""Messages on the command line.

produce.py             `ledgermq produce`
consume.py             `ledgermq consume`; group_consumption.py: with --group
message.py             `ledgermq message`: one message by its place or its key
message_writer.py      how messages are printed
"""
