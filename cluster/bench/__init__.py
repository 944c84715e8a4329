"""What `ledgermq bench` measures, against any cluster that clients reach. Needs the extra `bench`, and no node beside.

    plan ──> producing / consuming / end_to_end / failover / idle ──> figures ──> one closing line, JSON or CSV
                 │ payloads (which a reader can check)   │ latencies (from when a message was due)

A measurement is a client like any other, and what it says can be said again by whoever runs it. Nothing here knows
the command line (cluster/cli/bench/command.py), nor how nodes work.
"""
