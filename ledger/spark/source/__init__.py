"""Topics and logs as Spark tables and streams.

default_source.py   the format "ledgermq"; options.py checks what a user sets; schema.py has the columns
planning.py         options become ranges of offsets; positions.py and ranges.py are its values
batch_source.py, stream_source.py     what Spark asks of a table and of a stream
range_reader.py     one task reads one range; connection.py is its client, row_gatherer.py makes record batches,
                    arrow_columns.py maps a batch's columns to Arrow
log_source.py       the format "ledgermq-log": files instead of a cluster. It uses log_options.py, log_span.py,
                    log_span_reader.py and topic_names.py
"""
