"""Replacing damaged bytes of a log with those of other replicas.

This package contains, in reading order:

    whole_prefix.py   the whole entries before the first flaw, which other replicas may read
    log_repair.py     startup repair: before the log opens
    repair_mark.py    a file that exists while a startup repair is in progress
    scrub_repair.py   scrub repair: while the log is open
"""
