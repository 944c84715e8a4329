"""Spark data sources that read topics and logs as tables and streams.

The format "ledgermq" reads from a cluster:

    default_source.py   the format, which Spark finds by the name DefaultSource
    options.py          checks the user's options
    schema.py           the columns
    planning.py         makes ranges of offsets from the options; its values are in positions.py and ranges.py
    batch_source.py     the reader of a table
    stream_source.py    the reader of a stream
    range_reader.py     reads one range in a task
    connection.py       the connection of a process to the cluster
    row_gatherer.py     makes record batches from batches of messages
    arrow_columns.py    makes Arrow arrays from the columns of a batch

The format "ledgermq-log" reads the files of logs: log_source.py, with log_options.py, log_span.py, log_span_reader.py
and topic_names.py.
"""
