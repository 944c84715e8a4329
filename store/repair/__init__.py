"""Replacing damaged bytes of a log with those of other replicas.

whole_prefix.py   the good entries before the first flaw, which other replicas may read
log_repair.py     startup repair: before the log opens
repair_mark.py    what the node remembers while a startup repair is under way
scrub_repair.py   scrub repair: while the log is open
"""
