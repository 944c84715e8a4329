"""Membership of a consumer group, as one client sees it.

The member sends a join request and then heartbeats (`_attend`) to the coordinator, and receives its assignment in the
responses to the heartbeats. Each new assignment replaces the previous assignment. If the coordinator does not answer,
the member keeps consuming its queues. If a queue is assigned to another member while the coordinator does not answer,
the queue's shard rejects the acknowledgements of the old owner. When a subscribed topic is created, deleted or gets
more queues, the member joins again. If the coordinator received no heartbeat for longer than the session timeout and
removed the member, the member joins again too. Before each join the member asks shard 0 which shard coordinates the
group, because an operator can move the coordinator.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import grpc.aio

from ledger.client.connection.channels import NodeStub
from ledger.client.connection.cluster_client import ClusterClient, no_topic
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.records import TopicQueue
from ledger.consumer_groups import BY_ROOM
from ledger.errors import (
    ClosedError,
    CoordinatedElsewhereError,
    LedgerError,
    UnknownMemberError,
    UnknownQueueError,
    UnknownTopicError,
)
from ledger.topics import TOPICS_SHARD, is_system_topic
from ledger.v1 import consumer_group_pb2

log = logging.getLogger("ledgermq.client.group_consumer")

# How often the member compares the machine rooms of its queues with those that it told the coordinator. Callbacks
# report changes of topics earlier.
REFRESH_S = 30.0
_LEAVE_MS = 3_000


@dataclass(frozen=True, slots=True)
class MemberSettings:
    consumer_group: str
    member: str
    client_id: str
    strategy: str
    room: str
    session_timeout_ms: int
    configured: tuple[TopicQueue, ...] = ()

    @property
    def wait_ms(self) -> int:
        """The maximum time in ms for which the coordinator can delay its response to a heartbeat. This time is at
        most a third of the session timeout, so that several heartbeats fit into a session timeout."""
        return min(3_000, self.session_timeout_ms // 3)


@dataclass(frozen=True, slots=True)
class Assignment:
    """The assignment of one queue to this member."""

    topic_id: int
    # 0 in a broadcast: the leader of the queue's shard then chooses the epoch.
    epoch: int
    # The queue is to move to another member: this member finishes its messages and releases the queue.
    is_leaving: bool


View = Mapping[TopicQueue, Assignment]


class AssignmentSource(Protocol):
    """An interface: an object that reports which queues a consumer owns. `GroupMember` and `AllQueues` implement
    `AssignmentSource`."""

    @property
    def trouble(self) -> LedgerError | None: ...
    async def join(self) -> None: ...
    async def run(self, on_view: Callable[[View], None], unacknowledged: Callable[[], int]) -> None: ...
    async def release(self, queues: Iterable[tuple[TopicQueue, Assignment]]) -> None: ...
    async def leave(self) -> None: ...


class GroupMember:
    """One member of a consumer group, which joins the group and receives its assignment. The client must have been
    started. Implements AssignmentSource."""

    def __init__(self, client: ClusterClient, settings: MemberSettings, topics: Sequence[str]) -> None:
        self._client = client
        self._settings = settings
        self._names = topics
        # The shard that coordinates the group, as shard 0 said when the member joined last.
        self._coordinator = TOPICS_SHARD
        # Whether the coordinator may have got a join request.
        self._has_asked = False
        # The topics of the last join.
        self._joined: list[RoutedTopic] = []
        # The machine rooms of shards at the last join.
        self._rooms: Mapping[int, str] = {}
        self._version = 0
        # Whether a topic may have changed since the last join.
        self._is_stale = False

    @property
    def trouble(self) -> LedgerError | None:
        """The error that reads raise if all subscribed topics were deleted, otherwise None. The retry topic of the
        group is not counted as a subscribed topic."""
        wanted = [name for name in self._names if not is_system_topic(name)] or self._names
        return None if any(topic.name in wanted for topic in self._joined) else no_topic(wanted[0])

    async def join(self) -> None:
        """Join the consumer group for the first time. If this fails, or the caller gives up, no member stays behind.
        Raises UnknownTopicError or another LedgerError."""
        topics = [await self._client.topic(name) for name in self._names]
        self._client.routes.on_topic_change.append(self._topic_changed)
        if self._settings.strategy in BY_ROOM:
            await self._client.routes.refresh_all()
        try:
            await self._join(topics)
        except (LedgerError, asyncio.CancelledError) as error:
            # The coordinator may have added the member, although its answer did not arrive.
            if self._has_asked and (not isinstance(error, LedgerError) or error.retriable):
                await self.leave()
            raise

    async def _join(self, topics: list[RoutedTopic]) -> None:
        """Join the consumer group, or join again with changed topics or machine rooms. Raises LedgerError."""
        settings, rooms = self._settings, self._known_rooms()
        self._coordinator = await self._find_coordinator()
        request = consumer_group_pb2.JoinRequest(
            shard=self._coordinator,
            consumer_group=settings.consumer_group,
            member=settings.member,
            client_id=settings.client_id,
            subscriptions=[
                consumer_group_pb2.Subscription(topic_id=topic.topic_id, queues=len(topic.shards)) for topic in topics
            ],
            strategy=settings.strategy,
            room=settings.room,
            session_timeout_ms=settings.session_timeout_ms,
            configured=self._configured(topics),
            rooms=[consumer_group_pb2.RoomOfShard(shard=shard, room=room) for shard, room in rooms.items()],
        )
        self._has_asked = True
        await self._client.call(self._coordinator, lambda stub, seconds: stub.Join(request, timeout=seconds))
        self._joined, self._rooms, self._version = topics, rooms, 0
        log.info(
            "consumer group %s: member %s joined, with the topics %s and a session timeout of %g s",
            settings.consumer_group,
            settings.member,
            ", ".join(topic.name for topic in topics if not is_system_topic(topic.name)) or "(none)",
            settings.session_timeout_ms / 1000,
        )

    async def _find_coordinator(self) -> int:
        """Ask shard 0 for the shard that coordinates the group. Clusters of older versions do not know the question:
        in them it is shard 0. Raises LedgerError."""
        request = consumer_group_pb2.FindCoordinatorRequest(consumer_group=self._group)

        async def asked(stub: NodeStub, seconds: float) -> consumer_group_pb2.FindCoordinatorResponse:
            try:
                found: consumer_group_pb2.FindCoordinatorResponse = await stub.FindCoordinator(request, timeout=seconds)
                return found
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                    raise
                return consumer_group_pb2.FindCoordinatorResponse(shard=TOPICS_SHARD)

        return (await self._client.call(TOPICS_SHARD, asked)).shard

    def _configured(self, topics: list[RoutedTopic]) -> list[consumer_group_pb2.QueueEpoch]:
        """Return the queues of the setting `configured`. Queues of topics that do not exist are left out.

        Raises UnknownTopicError if the topic of a configured queue is not subscribed, and UnknownQueueError if a topic
        does not have the configured queue.
        """
        known, found = {topic.name: topic for topic in topics}, []
        for name, queue in self._settings.configured:
            if name not in self._names:
                raise UnknownTopicError(
                    f'Queue {queue} of topic "{name}" is configured, but the topic is not subscribed: subscribe the '
                    "topic, or remove the queue from `configured`."
                )
            if (topic := known.get(name)) is None:
                continue
            if not 0 <= queue < len(topic.shards):
                last = len(topic.shards) - 1
                raise UnknownQueueError(f'Topic "{name}" has no queue {queue}: its queues are 0 to {last}.')
            found.append(consumer_group_pb2.QueueEpoch(topic_id=topic.topic_id, queue=queue))
        return found

    async def run(self, on_view: Callable[[View], None], unacknowledged: Callable[[], int]) -> None:
        """Send heartbeats until the task is cancelled or the client is closed.

        Call `on_view` with the whole assignment whenever it changes. `unacknowledged` returns how many messages may be
        delivered twice if this member loses its queues now.
        """
        loop = asyncio.get_running_loop()
        failures, refresh_at = 0, loop.time() + REFRESH_S
        # When the last heartbeat was sent that the coordinator accepted. Its answer may be read much later, if this
        # process is busy.
        heard_at, doubtful = loop.time(), 0
        while True:
            sent_at = loop.time()
            try:
                await self._attend(on_view)
                heard_at, doubtful = sent_at, 0
                if self._is_stale or loop.time() >= refresh_at:
                    await self._join_if_routes_changed()
                    refresh_at = loop.time() + REFRESH_S
                failures = 0
            except ClosedError:
                return
            except UnknownMemberError as error:
                silent_s, doubtful = loop.time() - heard_at, doubtful + unacknowledged()
                on_view({})
                if await self._join_again():
                    self._log_lapse(silent_s, doubtful, error)
            except LedgerError as error:
                log.warning(
                    "consumer group %s: the coordinator does not answer; the member keeps its queues and tries again: "
                    "%s",
                    self._group,
                    error,
                )
                failures += 1
                await asyncio.sleep(self._client.backoff.wait_ms(failures) / 1000)

    async def release(self, queues: Iterable[tuple[TopicQueue, Assignment]]) -> None:
        """Tell the coordinator that this member releases `queues`. Each queue is given with the assignment under
        which this member owned the queue. Raises LedgerError."""
        request = consumer_group_pb2.ReleaseRequest(
            shard=self._coordinator,
            consumer_group=self._group,
            member=self._settings.member,
            queues=[
                consumer_group_pb2.QueueEpoch(topic_id=owned.topic_id, queue=place.queue, epoch=owned.epoch)
                for place, owned in queues
            ],
        )
        await self._client.call(self._coordinator, lambda stub, seconds: stub.Release(request, timeout=seconds))

    async def leave(self) -> None:
        """Leave the consumer group, so that other members get the queues at once.

        If the coordinator cannot be reached, other members get the queues after the session timeout.
        """
        request = consumer_group_pb2.LeaveRequest(
            shard=self._coordinator, consumer_group=self._group, member=self._settings.member
        )
        try:
            await self._client.call(
                self._coordinator, lambda stub, seconds: stub.Leave(request, timeout=seconds), timeout_ms=_LEAVE_MS
            )
            log.info("consumer group %s: member %s left", self._group, self._settings.member)
        except LedgerError as error:
            log.warning(
                "consumer group %s: member %s could not tell the coordinator that it leaves; its queues go to other "
                "members after its session timeout: %s",
                self._group,
                self._settings.member,
                error,
            )

    @property
    def _group(self) -> str:
        return self._settings.consumer_group

    async def _attend(self, on_view: Callable[[View], None]) -> None:
        settings = self._settings
        request = consumer_group_pb2.AwaitAssignmentRequest(
            shard=self._coordinator,
            consumer_group=settings.consumer_group,
            member=settings.member,
            version=self._version,
            max_wait_ms=settings.wait_ms,
        )
        response = await self._client.call(
            self._coordinator, lambda stub, seconds: stub.AwaitAssignment(request, timeout=seconds)
        )
        if response.version != self._version:
            self._version = response.version
            names = {topic.topic_id: topic.name for topic in self._joined}
            on_view(
                {
                    TopicQueue(names[each.topic_id], each.queue): Assignment(each.topic_id, each.epoch, each.leaving)
                    for each in response.queues
                    if each.topic_id in names
                }
            )

    def _log_lapse(self, silent_s: float, doubtful: int, error: LedgerError) -> None:
        session_s = self._settings.session_timeout_ms / 1000
        because = (
            f"was silent for {silent_s:.1f} s, longer than its session timeout of {session_s:g} s, and lost its queues"
            if silent_s > session_s
            else "lost its queues, because another shard coordinates the group now"
            if isinstance(error, CoordinatedElsewhereError)
            else f"lost its queues ({error.message.rstrip('.')})"
        )
        log.warning(
            "consumer group %s: this consumer %s. It has rejoined the consumer group as %s and continues; up to %d "
            "messages may be delivered twice.",
            self._group,
            because,
            self._settings.member,
            doubtful,
        )

    async def _join_again(self) -> bool:
        """Join the consumer group again, and return True if this succeeded."""
        try:
            await self._join(self._topics_there())
            return True
        except LedgerError as error:
            log.warning(
                "consumer group %s: member %s cannot join, trying again: %s", self._group, self._settings.member, error
            )
            await asyncio.sleep(self._client.backoff.wait_ms(10) / 1000)
            return False

    def _topic_changed(self, name: str) -> None:
        self._is_stale = self._is_stale or name in self._names

    async def _join_if_routes_changed(self) -> None:
        topics = self._topics_there()
        if topics != self._joined or self._known_rooms() != self._rooms:
            await self._join(topics)
        self._is_stale = topics != self._topics_there()

    def _topics_there(self) -> list[RoutedTopic]:
        known = self._client.routes.table.topics
        return [known[name] for name in self._names if name in known]

    def _known_rooms(self) -> Mapping[int, str]:
        """Return, for each shard of the topics, the machine room of the shard's leader. If the strategy does not use
        rooms, return an empty mapping. For a shard without a known leader, return the room from the last join request.
        """
        if self._settings.strategy not in BY_ROOM:
            return {}
        table = self._client.routes.table
        shards = {shard for name in self._names if name in table.topics for shard in table.topics[name].shards}
        known = {shard: table.room(shard, self._rooms.get(shard)) for shard in sorted(shards)}
        return {shard: room for shard, room in known.items() if room is not None}
