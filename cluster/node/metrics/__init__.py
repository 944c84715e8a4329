"""The Prometheus metrics of a node.

This package contains, in reading order:

    definition.py            what a metric is, and what bounds its series
    node_metrics.py          what is counted as it happens: messages, bytes, writes of the log, the disk
    raft_metrics.py          shards: Raft and the log
    request_metrics.py       requests of the gRPC methods
    readiness_metrics.py     what `/readyz` says
    consumption_metrics.py   consumer groups: lag, members, retries
    shared_metrics.py        shared groups
    placement_metrics.py     moves of replicas, and pinned leaders
    timed_metrics.py         messages that wait for their delivery times
    transaction_metrics.py   transactions
    slow_metrics.py          slow requests
    rocketmq_metrics.py      RocketMQ's clients
    catalogue.py             all of them
    document.py              writes docs/METRICS.md
    exposition.py            writes what a scrape gets
"""
