"""One node process, from its settings to a stop in order. `node.py` is the composition root.

settings.py        what an operator sets, checked in one place
node.py            opens the directory, starts the shards and connects them to the ports
node_shards.py     which shards this node has, and what they share; shard_calls.py: calls to leaders on other nodes
local_replica.py   this node's replica of one shard, with its log, vote, core and driver
opening.py         opens a shard's files, after a repair if one is needed
shard_log.py, shard_files.py    these files
formation/         the first start of a cluster or shard
repair/            startup repair and scrub repair
checkpoints.py     what the next start need not read again; scrub.py reads the rest of the log while the node works
runtime.py         clock, randomness, tasks and threads that a node is given, so that the simulator can give others
ticker.py, workers.py, disk_threads.py, flush_schedule.py    ticks, helper threads, and when the log is flushed
retention.py, stall.py, file_limit.py                        disk space, slow disks, open files
registration.py, nameserver.py                               name servers
removal.py, vital.py, stop_signals.py, logs.py               a removed node, broken invariants, signals, log output
metrics/, http/    what a node reports, and its HTTP port
"""
