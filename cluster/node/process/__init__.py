"""This package has the modules that serve the whole process of a node, and not only one shard.

This package contains, in reading order:

    ticker.py         the clock of all shards
    workers.py        runs blocking work beside the event loop
    vital.py          ends the process if an invariant is broken
    stop_signals.py   the signals that stop the process
    file_limit.py     the limit of open files
    logs.py           the output of log lines
"""
