"""The broker: what a node does for clients.

broker_replica.py   a shard's replica as the broker uses it; replicas.py finds the replica for a request
rpc/                the gRPC services: they translate requests and call the modules below
produce/            whether a batch is appended, and proposals that wait for their commit
fetch/              committed messages by offset, key and time
topics/             creating, placing, opening and deleting topics
consumer_groups/    coordinators, assignments, claims and acknowledged offsets
members/            members of a shard, and leadership
retention/          which part of the log may go
quotas/             how much one client may send and fetch
"""
