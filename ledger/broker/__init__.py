"""The broker is the part of a node that serves clients.

This package contains, in reading order:

    broker.py           the parts of a broker; node_view.py says what clients learn about the node and the cluster
    broker_replica.py   a shard's replica as the broker uses it; applied_state.py is its state and indexes
    replica_news.py     tells in the log and in events what happens to a replica
    log_batches.py      reads a batch at the place that an index names
    replicas.py         finds the replica for a request
    up_to_date.py       whether a replica knows what its shard has decided until now
    rpc/                the gRPC services: they translate requests and call the modules below
    access/             who calls this node, and what the caller may do
    produce/            whether a batch is appended, and proposals that wait for their commit
    fetch/              committed messages by offset, key and time
    topics/             creating, placing, opening and deleting topics
    consumer_groups/    coordinators, assignments, claims and acknowledged offsets
    shared/             shared consumer groups: which member leases which message
    timed/              messages that wait for their delivery times
    transactions/       half batches, and how leaders end and settle transactions
    members/            members of a shard, and leadership
    placement/          which nodes have a replica of which shard, and moves of replicas
    feature_level.py    raises the feature level of a shard
    retention/          where the log begins, and holds that keep it
    turn_budget.py      limits the work of requests in one turn of the event loop
    quotas/             how much one client may send and fetch
    slow/               slow requests, with the parts of their time
    tracing/            finds what is known of the life of one message
    node_events.py      the recent events of the node: elections, votes, changes of members, damage
    meter.py            the interface through which a broker counts its work for the metrics
    label_names.py      bounds the names that stand as labels in the metrics
"""
