"""This package implements formation, which is the first start of a cluster or of a shard.

This package contains, in reading order:

    first_voters.py      the nodes that a shard begins on, and which of them leads it first
    first_start.py       one node writes entry 1, when all first voters are empty
    shard_formation.py   the part of this node in the formation of one shard
    allowed_nodes.py     the addresses to which a node connects when a caller names them
"""
