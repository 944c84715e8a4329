"""The scale world: placement of replicas in a large cluster, for example 100 nodes with 1,000 shards.

    ledgermq sim --world scale [--nodes 100 --shards 1000 --topics 10000 --consumers 100000 --rooms 4]

This package contains, in reading order:

    options.py       the size of the cluster, and the scenarios
    timing.py        times and rates, from the defaults of the product's settings
    shard.py         one shard: a real Raft core for each replica, and a log of which only the terms are kept
    replica.py       what the product's placement and changes of members see of one replica
    nodes.py         the nodes, Raft's clock, messages between nodes, and the figures of the control plane
    placing.py       the real PlacementKeeper on each node, and its calls
    consumers.py     topics, queues and consumer groups, and the requests of their consumers
    least.py         the fewest bytes that a scenario can move
    watch.py         the invariants
    scenarios.py     rolling restart, more nodes, fewer nodes, loss of a room
    scale_run.py     one seed: all scenarios, one after another
    scale_report.py  the result as a table and as JSON

The product's code decides: `raft.core` elects leaders and replicates, `PlacementKeeper` and `plan` move replicas,
`MemberChanges` changes members, and `hand_over` empties a node before its restart. `place_shard`, `place_queues`,
`least_loaded` and `assign` place shards, queues, coordinators and consumers. Time, the network between nodes, and disks
are simulated.
"""
