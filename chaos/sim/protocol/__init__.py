"""The protocol world: the real Raft core, driver and replicated state, over a simulated log.

protocol_world.py   the world; node.py is one of its nodes
log.py, disk_threads.py, machine.py     the node's log, its disk threads and its state machine
client.py           producers, readers and consumers; protocol_clients.py is the workload and connects them to the nodes
node_faults.py      carries out faults of nodes and disks; membership.py transfers leadership and changes members
"""
