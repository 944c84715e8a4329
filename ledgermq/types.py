"""The types in the signatures of the clients, for annotations in your program.

    from ledgermq.types import Listener, RebalanceCallback

What the calls return, such as `RecordMetadata` and `Message`, is in `ledgermq` itself.
"""

from ledger.batch.columns import BinaryColumn, Columns, HeaderColumn, Headers, LookUpKeyColumn
from ledger.client.admin.consumer_groups_admin import ResetTarget
from ledger.client.admin.members_admin import OnProgress
from ledger.client.admin.message_trace import OnTraceProgress
from ledger.client.admin.offsets import QueueTimes
from ledger.client.admin.placement_admin import OnPlacement
from ledger.client.consumer.consumer import Start
from ledger.client.group.claiming import GroupStart
from ledger.client.group.push_consumer import Listener, OnError
from ledger.client.group.rebalance_callbacks import RebalanceCallback
from ledger.client.producer.arguments import GivenHeaders
from ledger.client.producer.fault_table import Steps
from ledger.client.producer.queue_selector import QueueSelector
from ledger.client.producer.table import Table
from ledger.client.requests.responder import Handler
from ledger.client.shared.shared_consumer import SharedListener, SharedMessages, SharedStart
from ledger.client.signals import Reading
from ledger.client.transactions.records import CheckResult, TransactionChecker
from ledger.message_trace import ReplicaTimes, TracedEntry, TracedPlace, TraceEvent
from ledger.slow_request import CallingClient, FollowerPart, RequestPart

__all__ = [
    "BinaryColumn",
    "CallingClient",
    "CheckResult",
    "Columns",
    "FollowerPart",
    "GivenHeaders",
    "GroupStart",
    "Handler",
    "HeaderColumn",
    "Headers",
    "Listener",
    "LookUpKeyColumn",
    "OnError",
    "OnPlacement",
    "OnProgress",
    "OnTraceProgress",
    "QueueSelector",
    "QueueTimes",
    "Reading",
    "RebalanceCallback",
    "ReplicaTimes",
    "RequestPart",
    "ResetTarget",
    "SharedListener",
    "SharedMessages",
    "SharedStart",
    "Start",
    "Steps",
    "Table",
    "TraceEvent",
    "TracedEntry",
    "TracedPlace",
    "TransactionChecker",
]
