"""Judges a shard, from the facts that the span readers found in its replicas.

This package contains, in reading order:

    engine.py         the interface of an engine, and the functions that engines run
    plain_engine.py   the engine of one process
    held_facts.py     the facts of all spans, in one process
    judging.py        compares the replicas of a shard, and finds what is committed
    log_cuts.py       leaves out cuts of a log whose end is damaged
    windows.py        finds where replicas diverge
    contents.py       which messages were in entries that a replica has lost
    acknowledged.py   compares the histories of clients with the log
    violation.py      a violation and its place
    bound.py          limits how many violations of a kind are kept
"""
