"""Members of a shard.

membership.py   the members that this node has applied, and its own standing
members.py      the leader changes members, one node and one step at a time
handover.py     the leader hands leadership to another voter
"""
