"""Changes the members of a shard, records this node's standing in the shard, and hands over leadership.

This package contains, in reading order:

    membership.py   the members in the configuration that this node has applied, and the node's own standing
    members.py      adding, promoting, removing and recovering members
    handover.py     the leader hands leadership to another voter
    pins.py         pins the leader of a shard, and removes the pin
"""
