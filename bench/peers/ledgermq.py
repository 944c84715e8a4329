"""ledgermq itself, measured by the same rules as the peers. The nodes run as `ledgermq dev start` runs them, and
the client uses asyncio."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar, Literal

from bench.peers.peer import Description, How
from cluster.load.in_flight import keep_in_flight
from ledger.version import VERSION

_QUEUES = 4
_CALL_MESSAGES = 16_384
_CALLS_IN_FLIGHT = 4
_READ_MESSAGES = 20_000


class LedgermqServers:
    """Runs three nodes with one shard."""

    def __init__(self, flush: Literal["async", "sync"]) -> None:
        self._flush = flush
        self._running = ExitStack()
        self._pids: list[int] = []

    def install(self) -> None:
        pass

    def start(self, directory: Path, ports: Sequence[int]) -> str:
        from bench.local_cluster import fresh_cluster  # only where servers run

        cluster = self._running.enter_context(fresh_cluster(directory, 3, flush=self._flush))
        self._pids = [state.pid for state in cluster.status() if state.pid]
        return cluster.bootstrap

    def stop(self) -> None:
        self._running.close()

    @property
    def pids(self) -> Sequence[int]:
        return self._pids

    def describe(self) -> Description:
        first = self._flush == "sync"
        return Description(
            version=f"ledgermq {VERSION}",
            replication=f"a topic of {_QUEUES} queues in one shard with 3 replicas, acknowledged by a majority",
            flush=f"`flush = {self._flush}`: "
            + ("a majority has fsynced what is acknowledged" if first else "in the background, by pages and time"),
            flushes_first=first,
        )


class LedgermqClient:
    """The Python client of ledgermq: `AsyncProducer` and `AsyncConsumer` with their default settings."""

    how: ClassVar[How] = How(
        each="`await send`, by as many tasks as are in flight",
        bulk=f"`await send_many` of {_CALL_MESSAGES:,} messages, {_CALLS_IN_FLIGHT} calls in flight",
        consume="`AsyncConsumer.getmany`, as objects",
    )

    most_waiting_clients: ClassVar[int] = 1_000

    async def open(self, address: str, topic: str) -> None:
        from cluster.load.topics import prepare_topic
        from ledgermq import AsyncProducer

        self._address, self._topic = address, topic
        await prepare_topic(address, topic, _QUEUES)
        self._producer = AsyncProducer(address)
        await self._producer.start()

    async def produce_each(self, values: Sequence[bytes], in_flight: int) -> None:
        async def send(value: bytes) -> None:
            await self._producer.send(self._topic, value)

        await keep_in_flight(send, values, in_flight)

    async def send_one(self, value: bytes) -> None:
        await self._producer.send(self._topic, value)

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
