"""This package has the modules for the process of a node as a whole, which all shards of the node share.

This package contains, in reading order:

    ticker.py         the clock of all shards
    workers.py        runs blocking work beside the event loop
    vital.py          ends the process if an invariant is broken
    stop_signals.py   the signals that stop the process
    file_limit.py     the limit of open files
    logs.py           the output of log lines
"""
