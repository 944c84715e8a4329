"""This package has the commands that send and print messages.

This package contains, in reading order:

    produce.py              `ledgermq produce`
    line_reader.py, json_line.py, message_template.py    what `produce` sends: lines, JSON lines, or made messages
    flow.py, produce_report.py                           its rate, progress and account
    consume.py              `ledgermq consume`
    start.py                where reading starts: an offset, a time, an age, or the last messages
    group_consumption.py    `ledgermq consume --group`
    shared_consumption.py   the same for a shared group
    timer.py                `ledgermq timer`: messages that wait for their delivery times
    transaction.py          `ledgermq transaction`: open transactions, and how an operator ends them
    message.py              `ledgermq message`: one message by its offset, or messages by key
    trace.py                `ledgermq message trace`: the life of one message
    message_id.py           the id of a message on the command line
    message_writer.py, line_template.py                  how messages are printed
"""
