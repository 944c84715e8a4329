"""The public names of ledgermq: producers, consumers, the admin client, and the values that they return.

    from ledgermq import AsyncConsumer, AsyncProducer

    async with AsyncProducer("127.0.0.1:9871") as producer:
        await producer.send("orders", b"...", key="customer 7")

    async with AsyncConsumer("orders", bootstrap_servers="127.0.0.1:9871") as consumer:
        async for message in consumer:
            print(message.queue, message.offset, message.value)

`Producer`, `Consumer`, `GroupConsumer`, `PushConsumer`, `SharedConsumer`, `Requester`, `Responder` and `Admin` are the
synchronous clients; the names with `Async` are for asyncio. All errors are subclasses of `LedgerError`, and are in
`ledgermq.errors`. `ledgermq.types` has the types of arguments, for annotations. `ledgermq.validation` validates
replicas, and `ledgermq.spark` starts Spark sessions. `ledgermq.testing` has clusters for tests, and
`ledgermq.embedded` a node in your own process. All loggers of the clients are children of the logger `ledgermq`.

A public name is loaded when a program first uses it, so `import ledgermq` is quick. The packages `store`, `raft`,
`ledger`, `cluster` and `chaos` contain the implementation; any new version can change their names.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from ledgermq._neighbours import check_neighbours, is_command_line

# This must happen before the process loads gRPC. gRPC's fork handlers do not keep a client usable in a child process.
# If gRPC is busy during the fork, the handlers end a child that only wanted to execute another program, such as Java.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

if not is_command_line():  # `ledgermq.__main__` checks too, and prints the error without a traceback
    check_neighbours()

if TYPE_CHECKING:
    from ledger.access.rules import Rule, Verdict
    from ledger.batch import Batch
    from ledger.client.admin.admin import AsyncAdmin
    from ledger.client.admin.consumer_group_records import (
        ConsumerGroupDescription,
        ConsumerGroupMember,
        ConsumerGroupSummary,
        OffsetReset,
        QueueConsumption,
    )
    from ledger.client.admin.message_trace import MessageTrace
    from ledger.client.admin.users_admin import DelegatedTokenText, RocketmqSecret, UserSummary
    from ledger.client.consumer.consumer import AsyncConsumer
    from ledger.client.consumer.cursor import QueueBatch
    from ledger.client.group.group_batch import GroupBatch
    from ledger.client.group.group_consumer import AsyncGroupConsumer
    from ledger.client.group.push_consumer import AsyncPushConsumer, Outcome
    from ledger.client.placement_records import (
        Placement,
        PlacementMove,
        PlacementNode,
        PlacementReplica,
        PlacementShard,
    )
    from ledger.client.producer.outgoing import OutgoingMessage
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
        WaitingMessage,
    )
    from ledger.client.requests.requester import AsyncRequester
    from ledger.client.requests.responder import AsyncResponder
    from ledger.client.shared.shared_consumer import AsyncSharedConsumer
    from ledger.client.shared.shared_message import MessageLease, SharedMessage
    from ledger.client.signals import stop_on_signal
    from ledger.client.sync.admin import Admin
    from ledger.client.sync.clients import Consumer, Producer
    from ledger.client.sync.group_clients import GroupConsumer, PushConsumer
    from ledger.client.sync.request_clients import Requester, Responder
    from ledger.client.sync.shared_consumer import SharedConsumer
    from ledger.client.sync.transactions import Transaction
    from ledger.client.transactions.records import CheckedTransaction, PreparedMessage, TransactionDescription
    from ledger.client.transactions.transaction import AsyncTransaction, TransactionState
    from ledger.errors import LedgerError
    from ledger.slow_request import NodeSlowRequests, SlowRequest
    from ledgermq import errors

    __version__: str

# The module that defines each name.
_HOMES = {
    "Admin": "ledger.client.sync.admin",
    "AsyncAdmin": "ledger.client.admin.admin",
    "AsyncConsumer": "ledger.client.consumer.consumer",
    "AsyncGroupConsumer": "ledger.client.group.group_consumer",
    "AsyncProducer": "ledger.client.producer.producer",
    "AsyncPushConsumer": "ledger.client.group.push_consumer",
    "AsyncRequester": "ledger.client.requests.requester",
    "AsyncResponder": "ledger.client.requests.responder",
    "AsyncSharedConsumer": "ledger.client.shared.shared_consumer",
    "AsyncTransaction": "ledger.client.transactions.transaction",
    "Batch": "ledger.batch",
    "CheckedTransaction": "ledger.client.transactions.records",
    "Consumer": "ledger.client.sync.clients",
    "ConsumerGroupDescription": "ledger.client.admin.consumer_group_records",
    "ConsumerGroupMember": "ledger.client.admin.consumer_group_records",
    "ConsumerGroupSummary": "ledger.client.admin.consumer_group_records",
    "DelegatedTokenText": "ledger.client.admin.users_admin",
    "Doubt": "ledger.client.records",
    "GroupBatch": "ledger.client.group.group_batch",
    "GroupConsumer": "ledger.client.sync.group_clients",
    "LedgerError": "ledger.errors",
    "LogCut": "ledger.client.records",
    "LogHold": "ledger.client.records",
    "Member": "ledger.client.records",
    "Members": "ledger.client.records",
    "Message": "ledger.client.records",
    "MessageLease": "ledger.client.shared.shared_message",
    "MessageTrace": "ledger.client.admin.message_trace",
    "NodeSlowRequests": "ledger.slow_request",
    "NodeStatus": "ledger.client.records",
    "OffsetReset": "ledger.client.admin.consumer_group_records",
    "Outcome": "ledger.client.group.push_consumer",
    "OutgoingMessage": "ledger.client.producer.outgoing",
    "Placement": "ledger.client.placement_records",
    "PlacementMove": "ledger.client.placement_records",
    "PlacementNode": "ledger.client.placement_records",
    "PlacementReplica": "ledger.client.placement_records",
    "PlacementShard": "ledger.client.placement_records",
    "PreparedMessage": "ledger.client.transactions.records",
    "Producer": "ledger.client.sync.clients",
    "PushConsumer": "ledger.client.sync.group_clients",
    "QueueBatch": "ledger.client.consumer.cursor",
    "QueueConsumption": "ledger.client.admin.consumer_group_records",
    "QueueOffsets": "ledger.client.records",
    "RecordMetadata": "ledger.client.records",
    "RecordRange": "ledger.client.records",
    "Requester": "ledger.client.sync.request_clients",
    "Responder": "ledger.client.sync.request_clients",
    "RocketmqSecret": "ledger.client.admin.users_admin",
    "Rule": "ledger.access.rules",
    "ShardStatus": "ledger.client.records",
    "SharedConsumer": "ledger.client.sync.shared_consumer",
    "SharedMessage": "ledger.client.shared.shared_message",
    "SlowRequest": "ledger.slow_request",
    "TopicDescription": "ledger.client.records",
    "TopicQueue": "ledger.client.records",
    "Transaction": "ledger.client.sync.transactions",
    "TransactionDescription": "ledger.client.transactions.records",
    "TransactionState": "ledger.client.transactions.transaction",
    "UnplacedMessage": "ledger.client.producer.queue_selector",
    "UserSummary": "ledger.client.admin.users_admin",
    "Verdict": "ledger.access.rules",
    "WaitingMessage": "ledger.client.records",
    "stop_on_signal": "ledger.client.signals",
}

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncGroupConsumer",
    "AsyncProducer",
    "AsyncPushConsumer",
    "AsyncRequester",
    "AsyncResponder",
    "AsyncSharedConsumer",
    "AsyncTransaction",
    "Batch",
    "CheckedTransaction",
    "Consumer",
    "ConsumerGroupDescription",
    "ConsumerGroupMember",
    "ConsumerGroupSummary",
    "DelegatedTokenText",
    "Doubt",
    "GroupBatch",
    "GroupConsumer",
    "LedgerError",
    "LogCut",
    "LogHold",
    "Member",
    "Members",
    "Message",
    "MessageLease",
    "MessageTrace",
    "NodeSlowRequests",
    "NodeStatus",
    "OffsetReset",
    "Outcome",
    "OutgoingMessage",
    "Placement",
    "PlacementMove",
    "PlacementNode",
    "PlacementReplica",
    "PlacementShard",
    "PreparedMessage",
    "Producer",
    "PushConsumer",
    "QueueBatch",
    "QueueConsumption",
    "QueueOffsets",
    "RecordMetadata",
    "RecordRange",
    "Requester",
    "Responder",
    "RocketmqSecret",
    "Rule",
    "ShardStatus",
    "SharedConsumer",
    "SharedMessage",
    "SlowRequest",
    "TopicDescription",
    "TopicQueue",
    "Transaction",
    "TransactionDescription",
    "TransactionState",
    "UnplacedMessage",
    "UserSummary",
    "Verdict",
    "WaitingMessage",
    "__version__",
    "errors",
    "stop_on_signal",
]


def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("ledgermq.errors")
    if name == "__version__":
        return importlib.import_module("ledger.version").VERSION
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ledgermq' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
