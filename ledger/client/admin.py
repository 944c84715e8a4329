"""The asyncio admin client: makes and describes topics, and asks nodes how they are.

The one idea: every answer about topics comes from the leader, so it is what is committed at that moment; every answer
about a node comes from that node. It must not know how messages are sent or read.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from types import TracebackType

import grpc.aio

from ledger.client.cluster_client import TOPICS_GROUP, ClusterClient
from ledger.client.connection import failure
from ledger.client.offsets import list_offsets
from ledger.client.outgoing import leaves_doubt
from ledger.client.records import GroupStatus, NodeStatus, TopicDescription
from ledger.client.route_table import Topic
from ledger.client.routes import topic_of
from ledger.errors import LedgerError, TopicExistsError, UnknownTopicError, from_wire
from ledger.topics import validate_queue_count, validate_topic_name
from ledger.v1 import broker_pb2
from ledger.v1.broker_pb2_grpc import BrokerStub

_STATUS_SECONDS = 2.0


class AsyncAdmin:
    """`request_timeout_ms`: how long to go on where there is no leader, or none that answers."""

    def __init__(
        self,
        bootstrap_servers: str | list[str] | tuple[str, ...],
        *,
        client_id: str | None = None,
        request_timeout_ms: int = 30_000,
        rng: random.Random | None = None,
    ) -> None:
        self._client = ClusterClient(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=20,
            rng=rng or random.Random(),
        )

    async def start(self) -> None:
        """Connect; raises UnavailableError where no node answers."""
        await self._client.start()

    async def stop(self) -> None:
        if self._client.started:
            await self._client.close()

    async def __aenter__(self) -> AsyncAdmin:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def create_topic(self, name: str, queues: int = 4) -> TopicDescription:
        """Make a topic; returns when it can be used. Raises TopicExistsError, InvalidTopicNameError, ..."""
        validate_topic_name(name)
        validate_queue_count(queues)
        was_there = await self._is_there(name)
        attempt = _Creation(broker_pb2.CreateTopicRequest(name=name, queues=queues))
        try:
            response = await self._client.call(TOPICS_GROUP, attempt)
        except TopicExistsError:
            if was_there or not attempt.doubtful:
                raise
            # Made since: by an earlier attempt whose answer was lost, unless its queues say that it was somebody else.
            topic = await self._client.topic(name)
            if len(topic.groups) != queues:
                raise
            return _description(topic)
        return _description(topic_of(response.topic))

    async def _is_there(self, name: str) -> bool:
        """Whether there is such a topic. Behind an attempt whose answer was lost it is too late to ask: a topic does
        not say who made it, and the time that it tells is of another clock."""
        try:
            await self._client.topic(name)
        except UnknownTopicError:
            return False
        return True

    async def list_topics(self) -> list[TopicDescription]:
        """All topics, by name, without their offsets."""
        request = broker_pb2.GetRouteRequest(linearizable=True)
        response = await self._client.call(TOPICS_GROUP, lambda stub, s: stub.GetRoute(request, timeout=s))
        return sorted((_description(topic_of(topic)) for topic in response.topics), key=lambda topic: topic.name)

    async def describe_topic(self, name: str) -> TopicDescription:
        """One topic with the offsets of its queues. Raises UnknownTopicError."""
        topic = await self._client.topic(name)
        offsets = await list_offsets(self._client, topic, range(len(topic.groups)))
        return replace(_description(topic), offsets=tuple(offsets[queue] for queue in sorted(offsets)))

    async def cluster(self) -> list[NodeStatus]:
        """Every node of the cluster as it describes itself, by id; those that do not answer are marked so."""
        self._client.check_open()
        nodes = sorted(self._client.routes.table.nodes.items())
        return list(await asyncio.gather(*(self._status(node, address) for node, address in nodes)))

    async def _status(self, node: int, address: str) -> NodeStatus:
        try:
            response = await self._client.connections.stub(address).GetStatus(
                broker_pb2.GetStatusRequest(), timeout=_STATUS_SECONDS
            )
        except grpc.aio.AioRpcError as error:
            failed: LedgerError = failure(address, error)
            return NodeStatus(node, address, reachable=False, error=failed.message)
        return NodeStatus(
            node=response.node,
            address=address,
            reachable=True,
            cluster=response.cluster,
            http_address=response.http_address,
            data_directory=response.data_directory,
            version=response.version,
            groups=tuple(_group_status(group) for group in response.groups),
        )


class _Creation:
    """An attempt to create a topic, and all that repeat it. `doubtful`: one that failed may have made the topic."""

    def __init__(self, request: broker_pb2.CreateTopicRequest) -> None:
        self.doubtful = False
        self._request = request

    async def __call__(self, stub: BrokerStub, seconds: float) -> broker_pb2.CreateTopicResponse:
        try:
            response: broker_pb2.CreateTopicResponse = await stub.CreateTopic(self._request, timeout=seconds)
        except grpc.aio.AioRpcError:
            self.doubtful = True
            raise
        if response.HasField("error"):
            error = from_wire(response.error)
            self.doubtful |= leaves_doubt(error) and not isinstance(error, TopicExistsError)
        return response


def _description(topic: Topic) -> TopicDescription:
    return TopicDescription(topic.name, topic.topic_id, topic.groups, topic.created_ms)


def _group_status(group: broker_pb2.GroupStatus) -> GroupStatus:
    return GroupStatus(
        group=group.group,
        role=group.role,
        term=group.term,
        leader=group.leader,
        last_index=group.last_index,
        commit=group.commit,
        applied=group.applied,
        end_position=group.end_position,
        chain=group.chain,
    )
