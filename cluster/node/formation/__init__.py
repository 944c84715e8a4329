"""Formation: the first start of a cluster or of a shard.

first_voters.py   the nodes that a shard begins on, and which of them leads it first
first_start.py    the first configuration entry is written once, by one node, when all of these nodes are empty
"""
