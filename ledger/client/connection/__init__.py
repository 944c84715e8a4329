"""The parts that every client uses to reach the cluster: connections, routes, and calls to leaders.

In reading order:

    cluster_client.py  calls to a shard's leader, repeated until one answers
    routes.py          keeps the route table fresh
    route_table.py     the leaders, nodes and topics that nodes reported
    channels.py        gRPC channels to nodes, and gRPC failures as our errors
    backoff.py         the wait before the next attempt
    lifetime.py        start and stop of a client
    environment.py     connections, clocks and identity that a client is given
"""
