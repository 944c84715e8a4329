"""The protocol world: the real Raft core, driver and replicated state, over a simulated log.

Read the modules of this package in this order:

    protocol_world.py     the world
    node.py               one node of the world
    log.py                the log of a node
    disk_threads.py       the disk threads of a node
    machine.py            the state machine of a node
    client.py             producers, readers and consumers
    protocol_clients.py   the workload, which connects the clients to the nodes
    node_faults.py        carries out faults of nodes and disks
    faults/               fault kinds that have a promise of their own
    append_times.py       checks the append times of entries
    suspicions.py         an account of what nodes lost at power cuts, and of what leaders may count
    membership.py         transfers leadership and changes members
"""
