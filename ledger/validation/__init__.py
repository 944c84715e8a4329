"""The verifier of logs reads the bytes of replicas. The verifier checks that each replica is undamaged, that the
replicas agree, and that the replicas have all acknowledged messages.

    sources/           opens the directories and URLs that a user names: replicas, segments, spans
    spans/             reads and checks the spans of one replica, and joins them to a log
    replay/            replays the state of one replica, and checks snapshots and the ends of indexes
    judging/           compares replicas with each other and with clients' histories; the engines that run the steps
    naming.py          sentences about topics whose names are known later
    report/            the report as values, text, page and Parquet file
    validate.py        `ledgermq validate`: judges all replicas of a cluster
    replica_check.py   `ledgermq log verify`: judges one replica, in one pass and with bounded memory
    difference.py      `ledgermq log diff`: finds where the logs of replicas diverge

`judging/windows.py` finds divergences for `validate` and for `log diff`. The facts of a span depend only on the bytes
of the span, so several machines can read spans at the same time (ledger/spark/validation).
"""
