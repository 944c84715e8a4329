"""This package implements a node: one server process, from its settings to its orderly stop. `node.py` creates and
connects all objects of a node (the composition root).

This package contains, in reading order:

    settings.py            the settings of an operator, checked in one place
    node.py                opens the data directory, starts the shards and connects them to the ports
    client_services.py     the gRPC services of a node for clients
    embedded.py            a node in the process and event loop of a user's program
    node_shards.py         the shards with a replica on this node; shard_calls.py: calls to leaders on other nodes
    transaction_calls.py   calls to the leaders of shards about transactions
    own_streams.py         streams from a client inside the node to the node itself, in memory
    replica/               this node's replica of one shard
    formation/             the first start of a cluster or shard
    repair/                scrub, startup repair and scrub repair
    runtime.py             clock, randomness, tasks and threads that a node is given; the simulator gives others
    resources.py           the resources of a node that all its replicas share
    method_guard.py        puts a guard before the methods of a gRPC server
    request_guard.py       guards all gRPC methods of a server: proof, size and form of requests, unexpected errors
    receiving.py           the turns in which a server receives requests
    guarded_context.py     the context of a call whose requests are counted
    delivered.py           counts what the methods got on each connection
    security/              TLS, the proof of nodes and users, their rights, and limits of connections
    process/               ticks, helper threads, signals, log output, open files
    registration.py        reports routes to name servers; nameserver.py: one name server
    rocketmq_ports.py      the ports for RocketMQ's clients
    metrics/, http/        the metrics of a node, and its HTTP port
    node_spans.py          the trace spans of what a node did with requests of producers
"""
