"""The full-stack world: production nodes and clients on simulated disks, calls and time.

stack_world.py      the world
node.py             a simulated node; node_part.py is its part in one shard, node_transport.py and node_worker.py
serve it workload.py         the clients; workload_history.py and deliveries.py check what they were told
cluster_operator.py changes members, adds shards and queues; roster.py knows the members of each shard
faults.py, power.py, damage.py          faults of nodes, power cuts, damaged files
record.py, promises.py, end.py          what was committed, what nodes promised, and the state at the end
"""
