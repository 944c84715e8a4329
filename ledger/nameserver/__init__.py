"""The name server, which tells clients the addresses of the nodes, the leader of each shard, and the shards of each
topic.

This package contains, in reading order:

    registrations.py  stores the newest report of each node, and computes routes from all reports
    service.py        the gRPC services with which nodes report routes and clients get routes
"""
