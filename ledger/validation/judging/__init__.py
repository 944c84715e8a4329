"""Judges a shard, from the facts that the span readers found in its replicas.

This package contains, in reading order:

    engine.py         the interface of an engine, and the functions that engines run
    plain_engine.py   the engine of one process
    judging.py        compares the replicas of a shard, and finds what is committed
    windows.py        finds where replicas diverge
    acknowledged.py   compares the histories of clients with the log
    violation.py      a violation and its place
    bound.py          limits how many violations of a kind are kept
"""
