"""The modules of this package measure other message systems in the same way as ledgermq. The command
bench/run_peers.py runs the comparison.

    runner ──> servers of one peer (3 processes or more) ──> rounds of load processes ──> rates ──> ratio ──> page
               ledgermq's own three nodes, just before and just after, under the same load processes

A peer is a message system that is compared with ledgermq. Each peer is one module with two classes, one for its
servers and one for its client, because the two classes run in different Python environments. The runner
(bench/run_peers.py) starts the servers, and a load process imports the class of the client. The environment of a load
process has the Python clients of all peers. A load process lacks other packages that ledgermq needs, so it can import
only the modules of ledgermq that use nothing but the standard library.

A load process uses a client only through the methods of `peer.PeerClient`, so all clients are measured in the same
way.
"""
