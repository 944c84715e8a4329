"""Asks all nodes how they are while a browser looks, and keeps the newest picture.

    browsers of one user ──> one watch ──> every LOOK_S: GetStatus, GetEvents, GetTraffic of each node

Without browsers, a watch stops after `LINGER_S` and asks nothing. A watch calls with the login of its user, so each
node checks the right to `describe` the cluster.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import grpc.aio

from cluster.console.clients import ConsoleAdmin
from cluster.console.picture import Picture, SeenEvent, picture_of
from cluster.console.rates import Rates
from ledger.client.records import NodeStatus
from ledger.errors import LedgerError, UnavailableError
from ledger.v1 import inspection_pb2

log = logging.getLogger("ledgermq.node.console")

T = TypeVar("T")

LOOK_S = 0.5
# A node that has not answered after this time is shown as silent.
ANSWER_S = 1.0
LINGER_S = 10.0
# How many events of all nodes are kept.
MAX_EVENTS = 4_000
# Logins that look at the cluster at the same time.
MAX_WATCHES = 32


class ClusterWatch:
    """Watches the cluster for one login. `picture` and `rates` are the newest; `turn` counts the pictures."""

    def __init__(self, admin: Callable[[], Awaitable[ConsoleAdmin]], now_ms: Callable[[], int]) -> None:
        self.picture = Picture()
        self.rates = Rates()
        # Why there is no new picture; empty if there is one.
        self.error = ""
        self.turn = 0
        self._admin = admin
        self._now_ms = now_ms
        self._known: dict[int, NodeStatus] = {}
        self._disk_use: dict[int, float] = {}
        # By node: the run whose events were read, and the number of the last one.
        self._read: dict[int, tuple[int, int]] = {}
        self._events: deque[SeenEvent] = deque(maxlen=MAX_EVENTS)
        # The same, the newest first; None if there are new ones.
        self._newest: tuple[SeenEvent, ...] | None = None
        self._news = asyncio.Condition()
        self._watchers = 0
        self._unwatched_s = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        # What was made of the present picture, by name: all browsers of a user see the same.
        self._made: dict[str, Any] = {}
        self._made_in_turn = 0

    @property
    def is_idle(self) -> bool:
        return not self._watchers and time.monotonic() - self._unwatched_s > LINGER_S

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Keep the watch running."""
        self._watchers += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="watch of the console")
        try:
            yield
        finally:
            self._watchers -= 1
            self._unwatched_s = time.monotonic()

    def once_a_turn(self, name: str, make: Callable[[], T]) -> T:
        """Return what `make` makes of the present picture. It is made once, also if several browsers ask."""
        if self._made_in_turn != self.turn:
            self._made_in_turn = self.turn
            self._made.clear()
        if name not in self._made:
            self._made[name] = make()
        made: T = self._made[name]
        return made

    async def next(self, turn: int) -> int:
        """Return the number of the newest picture, when it is newer than `turn`."""
        async with self._news:
            await self._news.wait_for(lambda: self.turn > turn)
            return self.turn

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while not self.is_idle:
            began_s = time.monotonic()
            try:
                await self._look()
                self.error = ""
            except LedgerError as error:
                self.error = str(error)
            except Exception:
                log.exception("the console cannot look at the cluster, which is a defect of ledgermq; it tries again")
                self.error = "the console failed: the log of the node has the details"
            async with self._news:
                self.turn += 1
                self._news.notify_all()
            await asyncio.sleep(max(0.05, LOOK_S - (time.monotonic() - began_s)))

    async def _look(self) -> None:
        admin = await self._admin()
        nodes = await admin.cluster(timeout_ms=ANSWER_S * 1000)
        reachable = [node for node in nodes if node.reachable]
        await asyncio.gather(*(self._ask(admin, node) for node in reachable))
        self._known |= {node.node: node for node in reachable}
        self.rates.looked(time.monotonic())
        if self._newest is None:
            self._newest = tuple(sorted(self._events, key=lambda event: event.time_ms, reverse=True))
        self.picture = picture_of(self._now_ms(), nodes, self._known, admin.rooms, self._disk_use, self._newest)

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


class Watches:
    """The watches of all logins of one node."""

    def __init__(self, admin: Callable[[str], Awaitable[ConsoleAdmin]], now_ms: Callable[[], int]) -> None:
        self._admin = admin
        self._now_ms = now_ms
        self._watches: dict[str, ClusterWatch] = {}

    async def of(self, token: str) -> ClusterWatch:
        """Return the watch of a login. Raises UnavailableError if too many logins look at the cluster."""
        for other, watch in list(self._watches.items()):
            if watch.is_idle and other != token:
                self._watches.pop(other, None)  # another request may have removed it meanwhile
                await watch.stop()
        if token not in self._watches:
            if len(self._watches) >= MAX_WATCHES:
                raise UnavailableError(f"{MAX_WATCHES} logins use the console of this node already: try again shortly.")
            self._watches[token] = ClusterWatch(lambda: self._admin(token), self._now_ms)
        return self._watches[token]

    async def close(self) -> None:
        for watch in self._watches.values():
            await watch.stop()
        self._watches.clear()
