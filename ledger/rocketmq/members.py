"""The streams by which the front receives for consumers, and by which it changes leases.

A RocketMQ consumer is one member of its group in each topic that it receives from, with a stream to the leader of each
shard. Changes of leases go over streams of their own, one for each group, topic and shard: any node can change a lease,
and changes that arrive at about the same time share one request (gathering.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.shared.shard_link import Ask, ShardLink
from ledger.client.shared.shared_message import MessageLease
from ledger.consumer_groups import AT_THE_FIRST
from ledger.errors import LedgerError
from ledger.rocketmq.filters import FrontFilter
from ledger.rocketmq.gathering import Gathering
from ledger.rocketmq.sessions import FrontSession
from ledger.v1 import consumer_group_pb2

# Receives of one consumer at one shard at the same time. A stream takes 64 requests without an answer.
MAX_RECEIVES = 48
# How long the receives of a consumer that ends may take.
END_S = 2.0
# Requests with changes under way in one shard, and changes of one request.
MAX_REQUESTS = 4
MAX_CHANGES = 500
# Changes of one group in one topic and one shard that have no outcome yet.
MAX_CHANGES_UNDER_WAY = 20_000
# How long changes gather at most. A consumer that acknowledges one message after another waits for each.
GATHER_S = 0.005


class FrontMember:
    """A RocketMQ consumer in one group and one topic."""

    def __init__(
        self,
        cluster: ClusterClient,
        name: str,
        group: str,
        topic: RoutedTopic,
        wanted: FrontFilter,
        replaced: asyncio.Task[None] | None = None,
    ) -> None:
        """A leader knows the consumer by its `name`, also if the consumer comes by way of another node. `replaced` is
        the end of the member that this one replaces: all members of a group want the same messages, so a leader refuses
        the streams of this member until the others are closed."""
        self.cluster = cluster
        self.wanted = wanted
        self.topic = topic
        # The client, as it last received.
        self.session: FrontSession | None = None
        # When the consumer last received, by the clock of the caller.
        self.used_s = 0.0
        # Receives under way, by shard.
        self.receives: dict[int, int] = {}
        self.asks: dict[asyncio.Task[Any], Ask] = {}
        self._name = name
        self._group = group
        self._links: dict[int, ShardLink] = {}
        self._replaced = replaced
        # True: the member opens no more streams.
        self.is_closed = False

    async def may_begin(self) -> None:
        """Wait until the member may open streams."""
        if self._replaced is not None:
            await asyncio.wait([self._replaced])

    def link(self, shard: int) -> ShardLink:
        """Return the link to the leader of a shard."""
        link = self._links.get(shard)
        if link is None:
            link = self._links[shard] = ShardLink(self.cluster, shard, self._opening)
        return link

    async def end(self) -> None:
        """End the receives that wait: they are answered soon. Then close the streams."""
        self.is_closed = True
        for ask in self.asks.values():
            ask.cancel()
        if self.asks:
            await asyncio.wait([*self.asks], timeout=END_S)
        await self.close()

    async def close(self) -> None:
        self.is_closed = True
        await asyncio.gather(self.may_begin(), *(link.close() for link in self._links.values()))

    def _opening(self, shard: int) -> consumer_group_pb2.ShareOpening:
        wanted = consumer_group_pb2.SharedTopic(
            topic_id=self.topic.topic_id,
            tag_hashes=self.wanted.tag_hashes,
            start_offset=AT_THE_FIRST,
            filter=self.wanted.condition,
        )
        return consumer_group_pb2.ShareOpening(
            shard=shard, consumer_group=self._group, member=self._name, topics=[wanted]
        )


@dataclass(frozen=True, slots=True)
class WantedLeaseChange:
    """A change of one lease. `kind` and `in_time` are as in WantedChange."""

    kind: int
    lease: MessageLease
    duration_ms: int = 0
    in_time: bool = False


@dataclass(frozen=True, slots=True)
class LeaseOutcome:
    """Whether the change counted, and whether the message is consumed, by this change or before."""

    changed: bool
    settled: bool


class LeaseChanger:
    """Changes leases of one group in one topic and one shard."""

    def __init__(self, cluster: ClusterClient, name: str, group: str, topic_id: int, shard: int) -> None:
        # When it was last used, by the clock of the caller.
        self.used_s = 0.0
        self._name = name
        self._group = group
        self._topic_id = topic_id
        self._link = ShardLink(cluster, shard, self._opening)
        self._waiting: deque[tuple[WantedLeaseChange, asyncio.Future[LeaseOutcome]]] = deque()
        self._requests: set[asyncio.Task[None]] = set()
        self._is_due = False
        # True: no request begins any more.
        self._is_closed = False
        # Changes without an outcome.
        self._under_way: set[asyncio.Future[LeaseOutcome]] = set()
        self._gathering = Gathering(GATHER_S)

    @property
    def is_idle(self) -> bool:
        return not self._under_way

    @property
    def is_full(self) -> bool:
        return len(self._under_way) >= MAX_CHANGES_UNDER_WAY

    async def change(self, wanted: WantedLeaseChange) -> LeaseOutcome:
        """Raises LedgerError."""
        outcome: asyncio.Future[LeaseOutcome] = asyncio.get_running_loop().create_future()
        self._under_way.add(outcome)
        outcome.add_done_callback(self._under_way.discard)
        self._gathering.add(partial(self._add, wanted, outcome), len(self._under_way))
        return await outcome

    def _add(self, wanted: WantedLeaseChange, outcome: asyncio.Future[LeaseOutcome]) -> None:
        self._waiting.append((wanted, outcome))
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._send)

    async def close(self) -> None:
        """Cancel the changes that have no outcome yet, and close the stream."""
        self._is_closed = True
        for outcome in list(self._under_way):
            outcome.cancel()
        for task in self._requests:
            task.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)
        await self._link.close()

    def _send(self) -> None:
        self._is_due = False
        while not self._is_closed and self._waiting and len(self._requests) < MAX_REQUESTS:
            some = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_CHANGES))]
            task = asyncio.get_running_loop().create_task(self._request(some), name="changes of leases")
            self._requests.add(task)
            task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._requests.discard(task)
        self._send()

    async def _request(self, some: Sequence[tuple[WantedLeaseChange, asyncio.Future[LeaseOutcome]]]) -> None:
        changes = [
            consumer_group_pb2.WantedChange(
                kind=wanted.kind,
                topic_id=self._topic_id,
                queue=wanted.lease.queue,
                first=wanted.lease.offset,
                size=1,
                lease=wanted.lease.entry,
                resets=wanted.lease.resets,
                duration_ms=wanted.duration_ms,
                in_time=wanted.in_time,
            )
            for wanted, _ in some
        ]
        try:
            answer = await self._link.changed(changes)
        except LedgerError as error:
            for _, future in some:
                if not future.done():
                    future.set_exception(error)
            return
        except BaseException:
            for _, future in some:
                future.cancel()
            raise
        settled = answer.settled or answer.changed
        for (_, future), changed, is_settled in zip(some, answer.changed, settled, strict=True):
            if not future.done():
                future.set_result(LeaseOutcome(bool(changed), bool(is_settled)))

    def _opening(self, shard: int) -> consumer_group_pb2.ShareOpening:
        return consumer_group_pb2.ShareOpening(
            shard=shard,
            consumer_group=self._group,
            member=self._name,
            topics=[consumer_group_pb2.SharedTopic(topic_id=self._topic_id, start_offset=AT_THE_FIRST)],
            only_changes=True,
        )
