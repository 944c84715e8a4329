"""What users would pick instead, measured as ledgermq is. bench/run_peers.py runs it.

    runner ──> servers of one peer (3 processes or more) ──> rounds of load processes ──> rates ──> ratio ──> page
               ledgermq's own three nodes, just before and just after, under the same load processes

A peer is one module with two classes, since they run in two environments: its servers are started by the runner, and
its client is imported by load processes, which have the Python clients of all peers and nothing of ours.

A load process knows four calls (`peer.Client`) and neither whose client it has nor what comes of it, so all are
measured alike.
"""
