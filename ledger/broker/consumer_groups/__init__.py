"""The broker's side of consumer groups: members, assignments, claims, acknowledged offsets, delays and lag.

This package contains, in reading order:

    shard_consumption.py    the parts of a shard that serve consumer groups; which shard coordinates a consumer group
    coordinator.py          members, heartbeats and assignments of the consumer groups of one shard
    coordinator_places.py   which shard coordinates a consumer group
    assignment.py           the strategies; balance.py deals queues evenly with few moves
    assignment_waiters.py   members that wait for their next assignment
    claims.py               claims of queues, and moves of messages to retry topics and dead letters
    moved_batch.py          makes the copy of a message for a retry topic or the dead letters
    acknowledgements.py     acknowledged offsets, collected into few log entries
    consumed_offsets.py     checks where a consumer group may start
    delays.py               messages of retry topics that wait for their time
    lag.py                  how far a consumer group is behind in a queue
    summaries.py            the consumer groups of one shard, for operators
"""
