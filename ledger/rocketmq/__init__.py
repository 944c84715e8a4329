"""Serves the clients of RocketMQ 5 over gRPC (docs/ROCKETMQ.md).

A RocketMQ client talks to any node. The front of that node acts for it as a native client: it finds leaders, batches
sends, repeats requests after a failover, and decides nothing that a broker decides. In reading order:

    v2/                  the protocol, generated from proto/ledger/rocketmq/v2/
    service.py           the methods of the service MessagingService
    admin_service.py     those of the service Admin
    calls.py             who makes a call
    front.py             all parts, connected
    native_clients.py    the native clients of each caller
    refusals.py          the codes of refusals
    names.py             names of topics and groups
    topic_types.py       which messages a topic takes
    routing.py           the queues of a topic, and what a consumer receives from
    endpoints.py         the addresses of the nodes, in the form that each client reads
    outgoing_message.py  a message of a client becomes one of the cluster
    incoming_message.py  a message of the cluster becomes one for a client
    headers.py           what the cluster keeps of a message beside its key, tag and properties
    sending.py           sends, transactions and recalls
    gathering.py         lets requests of many clients begin together, so that they share entries of the log
    groups.py            consumer groups, which begin when a consumer names them
    filters.py           what a consumer wants of a topic
    members.py           the streams by which the front receives and changes leases
    polling.py           one receive that waits at several shards
    receiving.py         receives
    acknowledging.py     acknowledgements, changes of leases, and dead letters
    pulling.py           reads of one queue by offsets, and the offsets of groups
    administration.py    what Admin answers: types of topics, what groups have not consumed, resets
    leases.py            leases that the node extends for push consumers
    durations.py         durations that clients send
    handles.py           the texts that name a leased or waiting message
    sessions.py          the clients that use this node
    producers.py         the producers of each topic
    orphan_checks.py     asks producers how transactions ended
    telemetry.py         the stream of settings and commands
    client_settings.py   the settings that clients are given
    mirror/              the other side: a consumer of RocketMQ servers, which copies topics from them
"""

from __future__ import annotations
