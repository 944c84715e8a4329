"""Copies topics from RocketMQ 5 servers to a cluster, as a consumer there and a producer here (docs/ROCKETMQ.md).

    the servers ── receive ──> SourceCopier ── send ──> the cluster
         ^                                                  │
         └── acknowledge ── SourceAcknowledger <── stored ──┘

A message is acknowledged at the servers only when the cluster has stored it. If the mirror or a server dies between,
the servers hand the message out again, and its message id prevents a second copy for some minutes. In reading order:

    source_settings.py      where the servers are, and how the mirror proves itself
    source_connection.py    a connection to one server: calls, settings and heartbeats
    source_routes.py        the servers that have the queues of a topic
    mirrored_message.py     a message of the servers becomes one of the cluster
    source_acknowledger.py  acknowledgements, several in one request
    source_copier.py        copies the messages of one topic on one server
    mirror.py               all parts, connected
    mirror_tally.py         what was copied so far
"""

from __future__ import annotations
