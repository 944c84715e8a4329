"""Replays the log of one replica, and compares the result with the other files of the replica.

This package contains, in reading order:

    replay.py             the replicated state, replayed from the steps of all spans
    timed_record.py       whether the log delivers, cancels or settles each waiting message
    copied_messages.py    the waiting messages of which the log has only a copy
    lease_record.py       who leases each message of a shared group, by the log alone
    lease_rows.py         the messages of one group in one queue
    snapshots.py          compares snapshots and checkpoints with the replayed state
    index_ends.py         checks where ConsumeQueues and key index end: entries too many, or missing
    timed_index_check.py  compares the files of the timed index with the messages that wait
    small_files.py        checks the vote file, the boot record and the marks
"""
