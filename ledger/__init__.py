"""The package `ledger` is the message queue on top of Raft: batches, replicated state, broker, clients, name servers,
the RocketMQ front, mirrors, backups, validation and the Spark connector.

This package contains, in reading order:

    topics.py            the rules for names, types and numbers of queues of topics
    consumer_groups.py   the rules for names and numbers of consumer groups and members
    retries.py           retry topics and dead letters: names, headers and delays
    shared.py            the limits of shared groups
    checked_text.py      texts with a checksum, which name one message or transaction
    timed.py             messages with delivery times: their topic, limits and handles
    calendar.py          the times that have a date, for messages whose timestamp has none
    transactions.py      transactions: their topic, limits and ids
    limits.py            the limits on headers and look-up keys
    holds.py             the rules for names and durations of holds
    cancellation.py      tells a cancellation of the running task from other errors
    errors.py            the errors that a client or a broker can raise, with their codes
    hashing.py           the hashes of keys, tags and message ids, which are stored on disk
    codec.py             compresses and decompresses the payload of a batch
    batch/               batches as bytes: how they are encoded, checked and decoded
    filters/             the conditions by which shared groups select messages
    state/               the replicated state of a shard
    access/              users, their rules, and the proof of a password
    broker/              the part of a node that serves clients
    client/              the clients: producer, consumers and admin client
    produce_wire.py      produce requests as bytes, with one copy of each batch
    wire_field.py        the head of a protobuf field of bytes
    private_file.py      writes files that only their owner can read
    local_socket.py      the Unix socket by which administrators on a node's machine call the node
    slow_request.py      the record of a slow request, which brokers make and clients read
    message_trace.py     the life of one message, which brokers find and clients read
    nameserver/          the name server, which tells clients where the nodes are
    rocketmq/            the RocketMQ front, and the mirror of RocketMQ servers
    mirror/              the mirror, which copies topics from another cluster
    backup/              backups of a cluster, and how they are restored
    history.py           the file of what clients did and were told
    history_fields.py    checks the values of one line of this file
    validation/          judges the replicas of shards, from the bytes of their logs
    spark/               the Spark sources, the sink and the validation on Spark
    report/              the pages and tables of reports
    words.py             words for numbers and entries in sentences
    version.py           the version of ledgermq

Programs import the clients from `ledgermq`. The names that version 0.1 exported from `ledger` still work and give a
DeprecationWarning.
"""

from __future__ import annotations

import importlib
import os
import warnings
from typing import Any

# This must happen before the process loads gRPC. gRPC's fork handlers do not keep a client usable in a child process.
# If gRPC is busy during the fork, the handlers end a child that only wanted to execute another program, such as Java.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# The names that version 0.1 exported from `ledger`, grouped by the modules that define them. Newer names are exported
# from `ledgermq` only.
_NAMES_OF_0_1 = {
    "ledger.batch": ("Batch",),
    "ledger.client.admin.admin": ("AsyncAdmin",),
    "ledger.client.admin.consumer_group_records": (
        "ConsumerGroupDescription",
        "ConsumerGroupMember",
        "ConsumerGroupSummary",
        "OffsetReset",
        "QueueConsumption",
    ),
    "ledger.client.consumer.consumer": ("AsyncConsumer",),
    "ledger.client.group.group_consumer": ("AsyncGroupConsumer",),
    "ledger.client.group.push_consumer": (
        "AsyncPushConsumer",
        "Outcome",
    ),
    "ledger.client.producer.producer": ("AsyncProducer",),
    "ledger.client.producer.queue_selector": ("UnplacedMessage",),
    "ledger.client.records": (
        "Doubt",
        "LogCut",
        "LogHold",
        "Member",
        "Members",
        "Message",
        "NodeStatus",
        "QueueOffsets",
        "RecordMetadata",
        "RecordRange",
        "ShardStatus",
        "TopicDescription",
        "TopicQueue",
    ),
    "ledger.client.sync.admin": ("Admin",),
    "ledger.client.sync.clients": (
        "Consumer",
        "Producer",
    ),
    "ledger.client.sync.group_clients": (
        "GroupConsumer",
        "PushConsumer",
    ),
    "ledger.errors": ("LedgerError",),
}


def __getattr__(name: str) -> Any:
    if name == "errors":  # in version 0.1, `import ledger` made `ledger.errors` available
        return importlib.import_module("ledger.errors")
    home = next((module for module, names in _NAMES_OF_0_1.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'ledger' has no attribute {name!r}")
    message = f"`from ledger import {name}` is deprecated: use `from ledgermq import {name}`."
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return getattr(importlib.import_module(home), name)
