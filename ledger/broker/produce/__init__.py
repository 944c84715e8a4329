"""Decides on the leader whether a batch of a producer is appended.

This package contains, in reading order:

    produce_decisions.py      appends a batch, repeats an earlier result, or refuses the batch: read this first
    column_levels.py          whether the shard's feature level allows the columns of a batch
    type_admission.py         whether the type of the topic allows the messages
    id_admission.py           whether the message ids are new
    timed_limits.py           the limits of messages with delivery times
    timed_admission.py        whether messages may wait for their delivery times
    transaction_admission.py  whether a batch may wait for the end of a transaction
    proposals.py              the proposals that wait for their commit
"""
