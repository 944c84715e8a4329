"""Other message systems, measured in the same way as ledgermq. bench/run_peers.py runs the comparison.

    runner ──> servers of one peer (3 processes or more) ──> rounds of load processes ──> rates ──> ratio ──> page
               ledgermq's own three nodes, just before and just after, under the same load processes

A peer is one module with two classes, because they run in two environments. The runner starts the servers. The client
is imported by load processes, whose environment has the Python clients of all peers, and of our code only modules that
need nothing but the standard library.

A load process knows only the calls of `peer.PeerClient`, so all clients are measured alike.
"""
