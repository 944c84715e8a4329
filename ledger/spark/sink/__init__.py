"""The Spark sink, which writes rows as messages.

This package contains, in reading order:

    sink.py              the writers that Spark calls
    outgoing_rows.py     sorts and cuts rows so that a repeated attempt makes the same batches
    numbered_sender.py   sends these batches under numbers that brokers recognise
"""
