"""This package contains the programs that measure ledgermq and compare it, for example with a bare disk or with other
message systems. To measure a single running cluster, use the command `ledgermq bench` (cluster/bench).

    run.py            the suite: every target of docs/performance-notes.md, as one page (suite/)
    run_features.py   delivery times, transactions and shared groups: each figure and its target, as one table
    run_growing.py    connections, queues, shards and the log grow: costs and plots (growing/)
    run_peers.py      ledgermq and other message brokers on the same machine (peers/)
    rocketmq/         ledgermq and Apache RocketMQ under the same RocketMQ clients (rocketmq/run.py)
    store/            the store alone
    node/             single nodes
    clients/          consumer groups, rebalances, Spark
    judging/          validation and the checker of chaos runs
    local_cluster.py  a fresh local cluster, a filled topic and a cold page cache, for all of them
    tables.py         the printed tables
"""
