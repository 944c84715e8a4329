"""The Prometheus metrics of a node.

This package contains, in reading order:

    node_metrics.py          messages, bytes, disk, Raft
    shared_metrics.py        shared groups
    timed_metrics.py         messages that wait for their delivery times
    transaction_metrics.py   transactions
    consumption_metrics.py   consumer groups: lag, members, retries
"""
