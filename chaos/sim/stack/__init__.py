"""The stack world: production nodes and clients on simulated disks, RPCs and time.

Read the modules of this package in this order:

    stack_world.py        the world
    node.py               a simulated node
    node_part.py          the part of a node in one shard
    node_transport.py     replaces the transport of a node
    node_worker.py        replaces the worker threads of a node
    workload.py           the clients
    named_sends.py        messages with ids, which are sent again
    transaction_load.py   programs that send messages in transactions
    shared_load.py        members of a shared group
    shared_filter.py      the filter of this group
    workload_history.py   checks the results that clients received
    deliveries.py         checks the messages that consumers received
    timed_truth.py        what must become of messages with delivery times, from the log
    transaction_truth.py  what must become of transactions, from the log
    shared_truth.py       who has which message of the shared group, from the log
    window_truth.py       compares the windows of leases on all nodes with a simple copy
    lease_twin.py         this copy, with one record for each offset
    pin_truth.py          what must hold for pinned leaders, from the log
    mirror_truth.py       compares the copies of a mirror with their source
    cluster_operator.py   changes members, pins leaders, adds shards and queues
    simulated_backups.py  makes backups, and checks them
    roster.py             knows the members of each shard
    versions.py           older programs, and the feature level
    faults.py             carries out faults of nodes
    directed/             fault kinds with a file of their own
    power.py              carries out power cuts
    damage.py             damages files
    record.py             the committed entries
    held_entries.py       what each node acknowledged, and what its disk lost
    log_starts.py         where logs and queues begin
    promises.py           the promises of nodes
    end.py                the checks at the end of a run
"""
