"""The broker is the part of a node that serves clients.

This package contains, in reading order:

    broker.py           the parts of a broker; node_view.py says what clients learn about the node and the cluster
    broker_replica.py   a shard's replica as the broker uses it; applied_state.py is its state and indexes
    log_batches.py      reads a batch at the place that an index names
    replicas.py         finds the replica for a request
    rpc/                the gRPC services: they translate requests and call the modules below
    produce/            whether a batch is appended, and proposals that wait for their commit
    fetch/              committed messages by offset, key and time
    topics/             creating, placing, opening and deleting topics
    consumer_groups/    coordinators, assignments, claims and acknowledged offsets
    timed/              messages that wait for their delivery times
    members/            members of a shard, and leadership
    retention/          where the log begins, and holds that keep it
    turn_budget.py      limits the work of requests in one turn of the event loop
    quotas/             how much one client may send and fetch
"""
