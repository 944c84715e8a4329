"""Copies topics until it is stopped: connects the parts of a mirror."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime

from ledger.client.background import spawn
from ledger.client.producer.buffer import Buffer
from ledger.client.producer.producer import AsyncProducer
from ledger.rocketmq.mirror.mirror_tally import MirrorTally
from ledger.rocketmq.mirror.source_connection import SourceConnection
from ledger.rocketmq.mirror.source_copier import CopyParts, SourceCopier
from ledger.rocketmq.mirror.source_routes import SourceBroker, SourceRoute, check_source_group, query_source_route
from ledger.rocketmq.mirror.source_settings import MirrorError, SourceAddress, SourceSettings

ROUTE_S = 30.0
_AGAIN_S = 2.0
_LOOK_S = 0.1
# How long `close` waits for messages that are on their way.
FINISH_S = 5.0


class Mirror:
    """Copies from topics of RocketMQ servers to those of a cluster. Call `open`, then `run`, and `close` at the end."""

    def __init__(
        self,
        settings: SourceSettings,
        topics: Mapping[str, str],
        producer: AsyncProducer[bytes],
        now: Callable[[], datetime],
        buffer_bytes: int,
    ) -> None:
        """`topics` maps topics of the servers to topics of the cluster. `producer` is started, and the caller stops it.
        `now()` returns the time in UTC. Messages that are received and not acknowledged have at most `buffer_bytes`,
        or are one message."""
        self.tally = MirrorTally()
        self._settings = settings
        self._topics = dict(topics)
        self._now = now
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parts = CopyParts(settings, producer, Buffer(buffer_bytes), self.tally, self._now_ms, self._fail)
        self._connections: dict[SourceAddress, tuple[SourceConnection, asyncio.Task[None]]] = {}
        # By topic and broker.
        self._copiers: dict[tuple[str, SourceBroker], tuple[SourceCopier, asyncio.Task[None]]] = {}
        self._followers: list[asyncio.Task[None]] = []
        self._unfinished = 0
        self._unfinished_s = float("-inf")

    async def open(self) -> dict[str, SourceRoute]:
        """Connect to the servers. Return the routes of the topics. Raises MirrorError."""
        routes = {topic: await self._route(topic) for topic in self._topics}
        first = next(iter(self._connections.values()))[0]
        await check_source_group(first, self._settings, next(iter(self._topics)))
        await first.ready()
        return routes

    def unordered(self, routes: Mapping[str, SourceRoute]) -> list[str]:
        """Return the topics whose messages have message groups, while the servers hand out the messages of a queue
        without order."""
        ordered = any(connection.is_ordered for connection, _ in self._connections.values())
        return [] if ordered else [topic for topic, route in routes.items() if route.only_groups]

    async def run(self, until_empty_s: float | None = None) -> None:
        """Copy until the task is cancelled, or until the servers had no message for `until_empty_s` s. Raises
        MirrorError or LedgerError if the mirror cannot go on."""
        self._followers = [spawn(self._follow(topic), f"mirror of {topic}", self._fail) for topic in self._topics]
        while until_empty_s is None or not self._is_empty_for(until_empty_s):
            await asyncio.wait([self._failure], timeout=_LOOK_S)
            if self._failure.done():
                await self._failure

    async def close(self) -> None:
        """Finish what is on its way, and leave the consumer group."""
        for task in self._followers:
            task.cancel()
        copiers = list(self._copiers.values())
        for _, task in copiers:
            task.cancel()
        await asyncio.gather(*self._followers, *(task for _, task in copiers), return_exceptions=True)
        await asyncio.gather(*(copier.finish(FINISH_S) for copier, _ in copiers))
        for connection, task in self._connections.values():
            await connection.close()
            task.cancel()
        await asyncio.gather(*(task for _, task in self._connections.values()), return_exceptions=True)
        if self._failure.done():
            self._failure.exception()
        else:
            self._failure.cancel()

    async def _follow(self, topic: str) -> None:
        """Copy from the brokers of a topic, also when these change, until the task is cancelled."""
        while True:
            try:
                route = await self._route(topic)
            except MirrorError as error:
                self.tally.trouble = str(error)
                await asyncio.sleep(_AGAIN_S)
                continue
            for gone in [key for key in self._copiers if key[0] == topic and key[1] not in route.brokers]:
                copier, task = self._copiers.pop(gone)
                task.cancel()
                await copier.finish(FINISH_S)
            for broker in route.brokers:
                if (topic, broker) not in self._copiers:
                    self._copiers[topic, broker] = self._started(topic, broker)
            await asyncio.sleep(ROUTE_S)

    def _started(self, topic: str, broker: SourceBroker) -> tuple[SourceCopier, asyncio.Task[None]]:
        def connection(turn: int) -> SourceConnection:
            return self._connection(broker.addresses[turn % len(broker.addresses)])

        copier = SourceCopier(topic, self._topics[topic], broker, self._parts, connection)
        task = asyncio.create_task(copier.run(), name=f"copies of {topic} from {broker.name}")
        task.add_done_callback(self._ended)
        return copier, task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error if isinstance(error, Exception) else RuntimeError(str(error)))

    async def _route(self, topic: str) -> SourceRoute:
        """Ask one access point after another for the route of a topic. Raises MirrorError if none answers."""
        for last, address in enumerate(self._settings.access_points, 1):
            try:
                return await query_source_route(self._connection(address), self._settings, topic)
            except MirrorError as error:
                if not error.is_unreachable or last == len(self._settings.access_points):
                    raise
        raise MirrorError("no access point was given")

    def _connection(self, address: SourceAddress) -> SourceConnection:
        found = self._connections.get(address)
        if found is None:
            connection = SourceConnection(address, self._settings, list(self._topics), self._now)
            task = spawn(connection.run(), f"connection to {address}", self._fail)
            found = self._connections[address] = (connection, task)
        return found[0]

    def _is_empty_for(self, time_s: float) -> bool:
        """Return whether no broker had a message for `time_s`. Messages that were received and not acknowledged come
        again, at the latest when they have become visible."""
        now_s = asyncio.get_running_loop().time()
        if self.tally.unfinished != self._unfinished:
            self._unfinished, self._unfinished_s = self.tally.unfinished, now_s
        if now_s - self._unfinished_s < self._settings.invisible_s + time_s:
            return False
        topics = {topic for topic, _ in self._copiers}
        return topics == set(self._topics) and all(
            copier.is_idle and copier.empty_since_s is not None and now_s - copier.empty_since_s >= time_s
            for copier, _ in self._copiers.values()
        )

    def _now_ms(self) -> int:
        return round(self._now().timestamp() * 1000)

    def _fail(self, error: Exception) -> None:
        if not self._failure.done():
            self._failure.set_exception(error)
