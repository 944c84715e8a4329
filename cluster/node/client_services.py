"""The gRPC services of a node for clients, on its gRPC port and on its local socket."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grpc import aio
from prometheus_client import CollectorRegistry

from cluster.node.metrics.consumption_metrics import ConsumptionCollector
from cluster.node.metrics.node_metrics import Meters
from cluster.node.metrics.slow_metrics import SlowRequestCollector
from cluster.node.metrics.timed_metrics import TimedCollector
from cluster.node.metrics.transaction_metrics import TransactionCollector
from cluster.node.node_shards import NodeShards
from cluster.node.runtime import Runtime
from cluster.node.security.access import NodeAccess
from cluster.node.settings import NodeSettings
from ledger.broker.broker import Broker
from ledger.broker.node_view import NodeFacts
from ledger.broker.quotas.quota import Quota, QuotaRates
from ledger.broker.rpc.broker import BrokerService, add_broker
from ledger.broker.rpc.consumer_group_operations import ConsumerGroupOperations
from ledger.broker.rpc.consumer_groups import ConsumerGroupService
from ledger.broker.rpc.inspection import Inspected, InspectionService
from ledger.broker.rpc.operations import OperationsService
from ledger.broker.rpc.throttling import Quotas
from ledger.broker.rpc.topic_rights import TopicRights
from ledger.broker.rpc.trace_wire import MessageTraces
from ledger.broker.rpc.transactions import TransactionService
from ledger.broker.slow.slow_requests import SlowRequests
from ledger.v1 import (
    consumer_group_operations_pb2_grpc,
    consumer_group_pb2_grpc,
    inspection_pb2_grpc,
    operations_pb2_grpc,
    security_pb2_grpc,
    transaction_pb2_grpc,
)


class ClientServices:
    """Makes the services, and adds them to servers. All servers of a node share them."""

    def __init__(
        self,
        settings: NodeSettings,
        facts: NodeFacts,
        shards: NodeShards,
        runtime: Runtime,
        meters: Meters,
        access: NodeAccess,
        slow: SlowRequests,
        recent_lines: Callable[[], Sequence[str]],
    ) -> None:
        """`recent_lines()` returns the newest lines of the node's log output."""
        replicas, authorizer = shards.replicas, access.authorizer
        rights = TopicRights(replicas, authorizer)
        broker = Broker(facts, shards, retry_delays_s=settings.retry_delays_s)
        self._shards = shards
        self._meters = meters
        self._slow = slow
        self.response_budget = broker.queues.response_budget
        self.broker = BrokerService(broker, meters, quotas(settings), authorizer, slow)
        self.consumer_groups = ConsumerGroupService(broker.consumptions, broker.retry_topics, rights, self._given)
        self._group_operations = ConsumerGroupOperations(broker.consumptions, broker.retry_topics, rights)
        self._transactions = TransactionService(
            shards.local, replicas, broker.transaction_topics, shards.checkers, authorizer
        )
        self._operations = OperationsService(
            settings.node, settings.cluster, shards.local, replicas, shards.deletion, shards.placement
        )
        self._inspection = InspectionService(
            replicas,
            Inspected(
                runtime.chance.getrandbits(63),
                shards.events,
                access.audit,
                meters.traffic,
                meters.used_part_of_disk,
                slow,
                MessageTraces(replicas, rights, slow.senders),
                settings.told(),
                recent_lines,
            ),
        )
        self._security = access.service

    def register_metrics(self, registry: CollectorRegistry) -> None:
        registry.register(SlowRequestCollector(self._slow))
        registry.register(TimedCollector(self._shards.deliveries))
        registry.register(TransactionCollector(self._shards.transactions))
        registry.register(ConsumptionCollector(self.consumer_groups))

    def add_to(self, server: aio.Server) -> None:
        add_broker(self.broker, server)
        operations_pb2_grpc.add_OperationsServicer_to_server(self._operations, server)
        inspection_pb2_grpc.add_InspectionServicer_to_server(self._inspection, server)
        transaction_pb2_grpc.add_TransactionsServicer_to_server(self._transactions, server)
        consumer_group_pb2_grpc.add_ConsumerGroupsServicer_to_server(self.consumer_groups, server)
        consumer_group_operations_pb2_grpc.add_ConsumerGroupOperationsServicer_to_server(self._group_operations, server)
        security_pb2_grpc.add_SecurityServicer_to_server(self._security, server)

    def _given(self, topic_id: int, messages: int, size: int) -> None:
        """Count messages that a member of a shared group got."""
        if (topic := self._shards.replicas.topic(topic_id)) is not None:
            self._meters.fetched(topic.name, messages, size, 0)


def quotas(settings: NodeSettings) -> Quotas:
    """Return the quotas of each user or host, for sends and for fetches."""
    sends = QuotaRates(settings.produce_quota_bytes_per_s, settings.produce_quota_messages_per_s)
    fetches = QuotaRates(settings.fetch_quota_bytes_per_s, settings.fetch_quota_messages_per_s)
    return Quotas(Quota("sends", sends), Quota("fetches", fetches))
