"""This node's replica of one shard: its files, its running parts and its regular work.

local_replica.py   the replica, from the opening of its files to its stop: read this first
opening.py         opens the files, after a startup repair if the log is damaged
shard_files.py     log, indexes and checkpoints of the shard; shard_log.py: the log among them
checkpoints.py     writes checkpoints, from which the next start continues
disk_threads.py    the helper threads for votes, flushes and new segments; flush_schedule.py: when the log is flushed
stall.py           detects a slow disk
retention.py       watches the disk and removes old segments
removal.py         detects that this node was removed from the shard
"""
