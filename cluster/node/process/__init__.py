"""This package has the modules that serve the whole process of a node, and not only one shard.

This package contains, in reading order:

    ticker.py         the clock of all shards
    waits.py          lets the regular looks of a node happen together, so that an idle node wakes rarely
    clock_watch.py    notices leaps of the wall clock, and wrong clocks of voters
    workers.py        runs blocking work beside the event loop
    vital.py          ends the process if an invariant is broken
    stop_signals.py   the signals that stop the process
    file_limit.py     the limit of open files
    sockets.py        the sockets of this process, also those that gRPC opened
    logs.py           the output of log lines
    recent_log.py     the newest log lines, in memory
"""
