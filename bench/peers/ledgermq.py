"""ledgermq itself, by the same rules: its nodes as `ledgermq dev start` makes them, and its asyncio client."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from bench.peers.peer import Description, How, keep_in_flight
from ledger.version import VERSION

_QUEUES = 4
_CALL_MESSAGES = 16_384
_CALLS_IN_FLIGHT = 4
_READ_MESSAGES = 20_000


class LedgermqServers:
    """Three nodes with one Raft group."""

    def __init__(self, flush: Literal["async", "sync"]) -> None:
        from cluster.local.processes import DevCluster

        self._flush, self._kind = flush, DevCluster
        self._cluster: DevCluster | None = None

    def install(self) -> None:
        pass

    def start(self, directory: Path, ports: Sequence[int]) -> str:
        self._cluster = cluster = self._kind(directory)
        cluster.start(3, flush=self._flush, timeout_s=60)
        return cluster.bootstrap

    def stop(self) -> None:
        if self._cluster:
            self._cluster.purge()

    def describe(self) -> Description:
        first = self._flush == "sync"
        return Description(
            version=f"ledgermq {VERSION}",
            replication=f"a topic of {_QUEUES} queues in one Raft group of 3, acknowledged by a majority",
            flush=f"`flush = {self._flush}`: "
            + ("a majority has fsynced what is acknowledged" if first else "in the background, by pages and time"),
            flushes_first=first,
        )


class LedgermqClient:
    """`AsyncProducer` and `AsyncConsumer`, with their default settings."""

    how: ClassVar[How] = How(
        each="`await send`, by as many tasks as are in flight",
        bulk=f"`await send_many` of {_CALL_MESSAGES:,} messages, {_CALLS_IN_FLIGHT} calls in flight",
        consume="`AsyncConsumer.getmany`, as objects",
    )

    async def open(self, address: str, topic: str) -> None:
        from ledger.errors import TopicExistsError
        from ledgermq import AsyncAdmin, AsyncProducer

        self._address, self._topic = address, topic
        async with AsyncAdmin(address) as admin:
            with contextlib.suppress(TopicExistsError):
                await admin.create_topic(topic, queues=_QUEUES)
        self._producer = AsyncProducer(address)
        await self._producer.start()

    async def produce_each(self, values: Sequence[bytes], in_flight: int) -> None:
        async def send(value: bytes) -> None:
            await self._producer.send(self._topic, value)

        await keep_in_flight(send, values, in_flight)

    async def produce_bulk(self, values: Sequence[bytes]) -> None:
        async def send(call: Sequence[bytes]) -> None:
            await self._producer.send_many(self._topic, call)

        await keep_in_flight(send, _slices(values), _CALLS_IN_FLIGHT)

    async def consume(self, count: int) -> list[bytes]:
        from ledgermq import AsyncConsumer

        found: list[bytes] = []
        async with AsyncConsumer(self._topic, bootstrap_servers=self._address, start="earliest") as consumer:
            while len(found) < count:
                found += [message.value for message in await consumer.getmany(_READ_MESSAGES)]
        return found

    async def close(self) -> None:
        await self._producer.stop()


def _slices(values: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    return (values[at : at + _CALL_MESSAGES] for at in range(0, len(values), _CALL_MESSAGES))
