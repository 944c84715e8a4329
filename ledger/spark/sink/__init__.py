"""Rows as messages: sink.py is what Spark calls.

outgoing_rows.py     sorts rows so that a repeated attempt makes the same batches
numbered_sender.py   sends these batches under numbers that brokers recognise
"""
