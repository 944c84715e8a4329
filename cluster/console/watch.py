"""Asks all nodes how they are while a browser looks, and keeps the newest picture.

    browsers of one user ──> one watch ──> every LOOK_S: GetStatus, GetEvents, GetTraffic of each node
                                           every PLACEMENT_S: GetPlacement of the leader of shard 0

Without browsers, a watch asks nothing (watched.py). A watch calls with the login of its user, so each node checks the
right to `describe` the cluster.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc.aio

from cluster.console.clients import ConsoleAdmin
from cluster.console.picture import Picture, SeenEvent, picture_of
from cluster.console.rates import Rates
from cluster.console.watched import Watched, WatchedByKey
from ledger.client.placement_records import Placement
from ledger.client.records import NodeStatus
from ledger.errors import LedgerError
from ledger.v1 import inspection_pb2

T = TypeVar("T")

LOOK_S = 0.5
# The leader of shard 0 asks the leaders of all shards for it.
PLACEMENT_S = 1.0
# A node that has not answered after this time is shown as silent.
ANSWER_S = 1.0
# How many events of all nodes are kept.
MAX_EVENTS = 4_000
# Logins that look at the cluster at the same time.
MAX_WATCHES = 32


class ClusterWatch(Watched):
    """Watches the cluster for one login. `picture` and `rates` are the newest."""

    def __init__(self, admin: Callable[[], Awaitable[ConsoleAdmin]], now_ms: Callable[[], int]) -> None:
        super().__init__()
        self.picture = Picture()
        self.rates = Rates()
        # The newest placement of replicas; None if the leader of shard 0 did not tell it.
        self.placement: Placement | None = None
        self._placement_at_s = float("-inf")
        self._admin = admin
        self._now_ms = now_ms
        self._known: dict[int, NodeStatus] = {}
        self._disk_use: dict[int, float] = {}
        # By node: the run whose events were read, and the number of the last one.
        self._read: dict[int, tuple[int, int]] = {}
        self._events: deque[SeenEvent] = deque(maxlen=MAX_EVENTS)
        # The same, the newest first; None if there are new ones.
        self._newest: tuple[SeenEvent, ...] | None = None
        # What was made of the present picture, by name: all browsers of a user see the same.
        self._made: dict[str, Any] = {}
        self._made_in_turn = 0

    def once_a_turn(self, name: str, make: Callable[[], T]) -> T:
        """Return what `make` makes of the present picture. It is made once, also if several browsers ask."""
        if self._made_in_turn != self.turn:
            self._made_in_turn = self.turn
            self._made.clear()
        if name not in self._made:
            self._made[name] = make()
        made: T = self._made[name]
        return made

    def pause_s(self, took_s: float) -> float:
        return max(0.05, LOOK_S - took_s)

    async def take_turn(self) -> None:
        admin = await self._admin()
        nodes = await admin.cluster(timeout_ms=ANSWER_S * 1000)
        reachable = [node for node in nodes if node.reachable]
        await asyncio.gather(self._ask_placement(admin), *(self._ask(admin, node) for node in reachable))
        self._known |= {node.node: node for node in reachable}
        self.rates.looked(time.monotonic())
        if self._newest is None:
            self._newest = tuple(sorted(self._events, key=lambda event: event.time_ms, reverse=True))
        self.picture = picture_of(self._now_ms(), nodes, self._known, admin.rooms, self._disk_use, self._newest)

    async def _ask_placement(self, admin: ConsoleAdmin) -> None:
        """Read where the replicas are and which of them move, unless that was done a moment ago."""
        if (now_s := time.monotonic()) - self._placement_at_s < PLACEMENT_S:
            return
        self._placement_at_s = now_s
        try:
            async with asyncio.timeout(ANSWER_S):
                self.placement = await admin.placement()
        except (TimeoutError, LedgerError):  # also if nodes are too old for it
            self.placement = None

    async def _ask(self, admin: ConsoleAdmin, node: NodeStatus) -> None:
        """Read the events and the counters of one node. A node that does not answer is asked again in the next turn."""
        stub = admin.stub(node.address)
        run, after = self._read.get(node.node, (0, 0))
        try:
            news, traffic = await asyncio.gather(
                stub.GetEvents(inspection_pb2.GetEventsRequest(after=after, run=run), timeout=ANSWER_S),
                stub.GetTraffic(inspection_pb2.GetTrafficRequest(), timeout=ANSWER_S),
            )
        except (grpc.aio.AioRpcError, LedgerError):
            return
        for event in news.events:
            self._events.append(
                SeenEvent(
                    node.node,
                    event.number,
                    event.time_ms,
                    event.shard,
                    event.kind,
                    event.text,
                    event.term,
                    event.subject,
                )
            )
        if news.events:
            self._newest = None
        last = news.events[-1].number if news.events else (after if run == news.run else 0)
        self._read[node.node] = (news.run, last)
        self._disk_use[node.node] = traffic.disk_use_ratio
        self.rates.count(node.node, news.run, traffic.topics)


class Watches(WatchedByKey[ClusterWatch]):
    """The watches of all logins of one node: at most `MAX_WATCHES`."""

    def __init__(self, admin: Callable[[str], Awaitable[ConsoleAdmin]], now_ms: Callable[[], int]) -> None:
        super().__init__(MAX_WATCHES, f"{MAX_WATCHES} logins use the console of this node already: try again shortly.")
        self._admin = admin
        self._now_ms = now_ms

    async def of(self, token: str) -> ClusterWatch:
        """Return the watch of a login. Raises UnavailableError if too many logins look at the cluster."""
        return await self.kept(token, lambda: ClusterWatch(lambda: self._admin(token), self._now_ms))
