"""What `ledgermq bench` measures, against any cluster that clients can reach. Needs the extra `bench`.

    plan ──> producing / consuming / end_to_end / failover / idle ──> figures ──> one closing line, JSON or CSV
                 │ load and payloads come from cluster/load    │ latencies (from when a message was due)

A measurement uses the cluster like any other client. This package does not know the command line
(cluster/cli/bench/command.py) or the inside of nodes.
"""
