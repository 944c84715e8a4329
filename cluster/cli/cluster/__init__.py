"""The command `ledgermq cluster`: its subcommands show and change a running cluster.

This package contains, in reading order:

    command.py     info, health, add-shard
    members.py     add-node, promote, remove-node, recover
    leadership.py  transfer-leader
    placement.py   placement, drain-node, rebalance, set-replicas
    log_start.py   trim, hold, release, holds: which messages are kept
"""
