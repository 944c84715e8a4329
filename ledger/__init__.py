"""ledgermq: a message queue whose log is a Raft log. This package: what messages mean, and the clients.

    async with ledger.AsyncProducer("127.0.0.1:9871") as producer:
        await producer.send("orders", b"...", key="customer 7")

    async with ledger.AsyncConsumer("orders", bootstrap_servers="127.0.0.1:9871") as consumer:
        async for message in consumer:
            print(message.queue, message.offset, message.value)

`Producer`, `Consumer`, `GroupConsumer`, `PushConsumer` and `Admin` are the synchronous twins. All errors are
subclasses of `LedgerError` (`ledger.errors`).

The names below are loaded at first use, so that a node that needs only the batch format does not load the clients.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

# Unless the user has chosen, and before gRPC is loaded: its handlers around a fork do not save a client, and where gRPC
# is busy just then, they end a child that was only to start another program, such as Spark's Java.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

if TYPE_CHECKING:
    from ledger import errors
    from ledger.batch import Batch
    from ledger.client.admin.admin import AsyncAdmin
    from ledger.client.admin.consumer_group_records import (
        ConsumerGroupDescription,
        ConsumerGroupMember,
        ConsumerGroupSummary,
        OffsetReset,
        QueueConsumption,
    )
    from ledger.client.consumer.consumer import AsyncConsumer
    from ledger.client.group.group_consumer import AsyncGroupConsumer
    from ledger.client.group.push_consumer import AsyncPushConsumer, Outcome
    from ledger.client.producer.producer import AsyncProducer
    from ledger.client.producer.queue_selector import UnplacedMessage
    from ledger.client.records import (
        Doubt,
        LogCut,
        LogHold,
        Member,
        Members,
        Message,
        NodeStatus,
        QueueOffsets,
        RecordMetadata,
        RecordRange,
        ShardStatus,
        TopicDescription,
        TopicQueue,
    )
    from ledger.client.sync.clients import Admin, Consumer, Producer
    from ledger.client.sync.group_clients import GroupConsumer, PushConsumer
    from ledger.errors import LedgerError

_HOMES = {
    "Admin": "ledger.client.sync.clients",
    "AsyncAdmin": "ledger.client.admin.admin",
    "AsyncConsumer": "ledger.client.consumer.consumer",
    "AsyncGroupConsumer": "ledger.client.group.group_consumer",
    "AsyncProducer": "ledger.client.producer.producer",
    "AsyncPushConsumer": "ledger.client.group.push_consumer",
    "Batch": "ledger.batch",
    "Consumer": "ledger.client.sync.clients",
    "ConsumerGroupDescription": "ledger.client.admin.consumer_group_records",
    "ConsumerGroupMember": "ledger.client.admin.consumer_group_records",
    "ConsumerGroupSummary": "ledger.client.admin.consumer_group_records",
    "Doubt": "ledger.client.records",
    "GroupConsumer": "ledger.client.sync.group_clients",
    "ShardStatus": "ledger.client.records",
    "LedgerError": "ledger.errors",
    "LogCut": "ledger.client.records",
    "LogHold": "ledger.client.records",
    "Member": "ledger.client.records",
    "Members": "ledger.client.records",
    "Message": "ledger.client.records",
    "NodeStatus": "ledger.client.records",
    "OffsetReset": "ledger.client.admin.consumer_group_records",
    "Outcome": "ledger.client.group.push_consumer",
    "Producer": "ledger.client.sync.clients",
    "PushConsumer": "ledger.client.sync.group_clients",
    "QueueConsumption": "ledger.client.admin.consumer_group_records",
    "QueueOffsets": "ledger.client.records",
    "RecordMetadata": "ledger.client.records",
    "RecordRange": "ledger.client.records",
    "TopicDescription": "ledger.client.records",
    "TopicQueue": "ledger.client.records",
    "UnplacedMessage": "ledger.client.producer.queue_selector",
}

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncGroupConsumer",
    "AsyncProducer",
    "AsyncPushConsumer",
    "Batch",
    "Consumer",
    "ConsumerGroupDescription",
    "ConsumerGroupMember",
    "ConsumerGroupSummary",
    "Doubt",
    "GroupConsumer",
    "LedgerError",
    "LogCut",
    "LogHold",
    "Member",
    "Members",
    "Message",
    "NodeStatus",
    "OffsetReset",
    "Outcome",
    "Producer",
    "PushConsumer",
    "QueueConsumption",
    "QueueOffsets",
    "RecordMetadata",
    "RecordRange",
    "ShardStatus",
    "TopicDescription",
    "TopicQueue",
    "UnplacedMessage",
    "errors",
]


def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("ledger.errors")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ledger' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
