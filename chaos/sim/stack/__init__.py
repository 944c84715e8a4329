"""The stack world: production nodes and clients on simulated disks, RPCs and time.

stack_world.py      the world
node.py             a simulated node; node_part.py is its part in one shard, node_transport.py and node_worker.py
                    replace its transport and worker threads
workload.py         the clients; workload_history.py and deliveries.py check the results that clients received
cluster_operator.py changes members, adds shards and queues; roster.py knows the members of each shard
faults.py, power.py, damage.py          carry out faults of nodes, power cuts, and damage to files
record.py, promises.py, end.py          the committed entries, the promises of nodes, and the checks at the end
"""
