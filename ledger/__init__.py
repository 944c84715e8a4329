"""The package `ledger` is the message queue on top of Raft: batches, replicated state, broker, clients, name servers,
validation and the Spark connector.

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
