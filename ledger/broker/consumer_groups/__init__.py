"""Consumer groups.

coordinator.py          members, heartbeats and assignments of the consumer groups of one shard
assignment.py           the strategies; balance.py deals queues evenly with few moves
assignment_waiters.py   members that wait for their next assignment
claims.py               the owner of a queue, and messages that the owner moves to a retry topic
acknowledgements.py     acknowledged offsets, gathered into few log entries
consumed_offsets.py     checks where a consumer group may start
delays.py               messages of retry topics that wait for their time
lag.py                  how far a consumer group is behind
"""
