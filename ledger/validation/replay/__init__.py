"""Replays the log of one replica, and compares the result with the other files of the replica.

This package contains, in reading order:

    replay.py        the replicated state, replayed from the steps of all spans
    snapshots.py     compares snapshots and checkpoints with the replayed state
    index_ends.py    checks where ConsumeQueues and key index end: entries too many, or missing
    small_files.py   checks the vote file and the clean mark
"""
