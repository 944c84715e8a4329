"""The Spark sources, the sink and the validation on Spark. No other package of ledgermq needs pyspark, pyarrow or
Java.

This package contains, in reading order:

    source/            topics and logs as tables and streams
    sink/              rows as messages
    validation/        the validation of replicas on Spark
    session.py         makes or finds a Spark session
    worker_daemon.py   Spark's daemon for the Python workers of a local session
"""
