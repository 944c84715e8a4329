"""Looking at a node's data with the node down, or at a copy of it: what `ledgermq log` does.

verify.py       all that can be wrong with a shard's files, told one by one
queue_check.py  ConsumeQueue units against what the log gives
checkpoint_check.py   the checkpoint and its positions against the log
files_check.py  the small files: votes, bases, marks
difference.py   where replicas part

One idea: everything is read through `store.ReadOnlyDisk`, so nothing here can write or take a lock, whatever it finds.
It must not know terminals.
"""
