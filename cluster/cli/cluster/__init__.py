"""The command `ledgermq cluster`: its subcommands show and change a running cluster.

This package contains, in reading order:

    command.py         init, info, health, add-shard
    members.py         add-node, promote, remove-node, recover
    leadership.py      transfer-leader, with --pin and --unpin
    placement.py       placement, drain-node, rebalance, set-replicas
    drain_progress.py  how far a drain is, and how long it still takes
    log_start.py       trim, hold, release, holds: which messages are kept
"""
