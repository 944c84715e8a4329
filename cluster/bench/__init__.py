"""This package contains the measurements of `ledgermq bench`, which run against any cluster that clients can reach.
The package needs the extra `bench`.

    plan ──> producing / consuming / end_to_end / failover / idle ──> figures ──> one closing line, JSON or CSV
                 │ load and payloads come from cluster/load    │ latencies (from when a message was due)

A measurement uses the cluster like any other client. This package does not import the command line
(cluster/cli/bench/command.py) or the implementation of nodes.
"""
