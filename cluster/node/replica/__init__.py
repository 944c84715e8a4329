"""This node's replica of one shard: its files, its running objects and its regular work.

This package contains, in reading order:

    local_replica.py   the replica, from the opening of its files to its stop: read this first
    opening.py         opens the files, after a startup repair if the log is damaged
    shard_files.py     log, indexes and checkpoints of the shard; shard_log.py: the log among them
    builder.py         creates the running parts: Raft core, driver, disk threads, transport, the broker's side
    disk_threads.py    the helper threads for votes, flushes and new segments; flush_schedule.py: when the log is
                       flushed
    accepted_loss.py   lets a suspect replica count again, because an operator accepts a loss of entries
    upkeep.py          the regular work: checkpoints, retention, scrub
    checkpoints.py     writes checkpoints, from which the next start continues
    retention.py       watches the disk and removes old segments
    room_watch.py      whether the disk has room for new data of the shard
    health.py          whether clients should use the replica; stall.py: detects a slow disk
    removal.py         detects that this node was removed from the shard
    discarding.py      deletes the replicas of this node that were removed from their shards
"""
