"""This package implements a node: one server process, from its settings to its orderly stop. `node.py` creates and
connects all objects of a node (the composition root).

This package contains, in reading order:

    settings.py       the settings of an operator, checked in one place
    node.py           opens the data directory, starts the shards and connects them to the ports
    embedded.py       a node in the process and event loop of a user's program
    node_shards.py    the shards with a replica on this node; shard_calls.py: calls to leaders on other nodes
    replica/          this node's replica of one shard
    formation/        the first start of a cluster or shard
    repair/           scrub, startup repair and scrub repair
    runtime.py        clock, randomness, tasks and threads that a node is given, so that the simulator can give others
    resources.py      the resources of a node that all its replicas share
    process/          ticks, helper threads, signals, log output, open files
    registration.py   reports routes to name servers; nameserver.py: one name server
    metrics/, http/   the metrics of a node, and its HTTP port
"""
