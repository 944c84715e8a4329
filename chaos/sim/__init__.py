"""The simulator runs a whole cluster in one process. Time, network and disks are simulated. All random choices of a
run follow from one seed.

Read the parts of the simulator in this order:

    engine/         virtual time, the simulated network, disks, processes and RPCs; engine/faults.py defines every fault
                    kind: its name, duration, frequency and target; engine/network_faults.py, protocol/node_faults.py
                    and stack/faults.py carry out faults
    world.py        the interface of a world: its nodes, faults, workload and end
    invariants.py   Raft's invariants, checked after every event
    protocol/       the protocol world: Raft core, driver and replicated state over a simulated log. It is fast.
    stack/          the stack world: production nodes and clients, with several shards
    consumers/      consumer groups in the stack world
    requests/       requests and replies in the stack world
    access/         users and rights in the stack world
    scale/          the scale world: placement of replicas in a large cluster
    reach/          which places of the product the runs reach
    campaign/       what a seed draws, runs of one seed, campaigns of many seeds, and `ledgermq sim`
"""
