"""The load of producers, in one process: `send` for each message, or `send_many` for many together.

    closed loop   so many sends (or calls of send_many) are in flight; when one is acknowledged, the next one goes
    open loop     messages go when they are due (`pace.py`), as long as no more than that are in flight

Each send is a turn of one of N tasks, so what is in flight is bounded by their number. One that fails is counted and
the load goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from cluster.bench.latencies import Latencies
from cluster.bench.payloads import Payloads, Supply
from cluster.load.pace import Pace
from ledger.client.producer.producer import AsyncProducer
from ledger.client.records import RecordMetadata
from ledger.errors import DeliveryTimeoutError, LedgerError

Way = Literal["send", "send-many"]
_TICK_S = 0.001
# All is settled by then, unless somebody interrupts, and nobody waits for what is under way then.
_CLOSE_S = 3.0
_LEAST_CALL_MESSAGES = 16
_BATCHES_A_CALL = 4
_MOST_CALL_MESSAGES = 65_536


@dataclass(frozen=True, slots=True)
class Load:
    """What producers are to do. `count` or `seconds` ends it; `rate` 0 is a closed loop. Of several processes, each is
    `part` 0, 1, ... with its share of `rate`, `count`, `in_flight` and `producers`."""

    bootstrap: str
    topic: str
    size: int
    way: Way = "send-many"
    count: int = 0
    seconds: float = 0.0
    rate: float = 0.0
    warm_up_s: float = 1.0
    in_flight: int = 4
    producers: int = 1
    batch_bytes: int = 256 * 1024
    linger_ms: float = 5.0
    compression: str | None = None
    # So many different keys, one message (or call) after the other; 0: no keys, and messages go round the queues.
    keys: int = 0
    timeout_ms: int = 120_000
    run: int = 0
    part: int = 0

    @property
    def call_messages(self) -> int:
        """Of one call of send_many in a closed loop: some batches."""
        fit = _BATCHES_A_CALL * self.batch_bytes // (self.size + 8)
        return max(_LEAST_CALL_MESSAGES, min(fit, _MOST_CALL_MESSAGES))


@dataclass(slots=True)
class Sent:
    """What one process's load came to, after its warm-up. `total` counts the warm-up too, and what failed: it is how
    many numbers of this part were used."""

    start_ns: int = 0
    end_ns: int = 0
    records: int = 0
    failed: int = 0
    unknown: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    # Of this process, all its threads, while it was measured.
    cpu_s: float = 0.0
    total: int = 0
    part: int = 0
    latencies: Latencies = field(default_factory=Latencies)


# Waited for between warm-up and measurement, so that several processes begin together.
Gate = Callable[[], Awaitable[None]]

Heard = Callable[[RecordMetadata], None]


class Producing:
    """One load. `sent.records` may be read while it runs."""

    def __init__(self, load: Load, gate: Gate, heard: Heard | None = None) -> None:
        """`heard`: told of each acknowledged `send`."""
        self._load, self._gate, self._heard = load, gate, heard
        self._supply = Supply(Payloads(load.size, load.run, load.part))
        self._limit = 0
        self._until_ns = self._calls = 0
        # The number of the first message of this phase: of the warm-up, then of the measurement.
        self.first = 0
        # Of this phase; of a closed loop None.
        self.pace: Pace | None = None
        self._producers: list[AsyncProducer] = []
        self.sent = Sent(part=load.part)

    async def run(self) -> Sent:
        """Raises LedgerError where no producer can begin, or what is sent will never do."""
        load = self._load
        self._producers = [
            AsyncProducer(
                load.bootstrap,
                linger_ms=load.linger_ms,
                batch_bytes=load.batch_bytes,
                compression=load.compression,
                delivery_timeout_ms=load.timeout_ms,
            )
            for _ in range(load.producers)
        ]
        started: list[AsyncProducer] = []
        try:
            for producer in self._producers:
                await producer.start()
                started.append(producer)
            if load.warm_up_s:
                await self._phase(count=0, seconds=load.warm_up_s)
            self.sent = Sent(part=load.part)
            if load.count:
                self._supply.prepare(load.count)
            await self._gate()
            await self._phase(count=load.count, seconds=load.seconds)
        except* LedgerError as several:
            raise several.exceptions[0] from None
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    for producer in started:
                        await producer.stop()
        self.sent.total = self._supply.given
        return self.sent

    async def _phase(self, *, count: int, seconds: float) -> None:
        load, self.first = self._load, self._supply.given
        start = time.perf_counter_ns()
        self._limit = self.first + count if count else 1 << 62
        self._until_ns = start + int(seconds * 1e9) if seconds else 1 << 62
        self.pace = Pace(load.rate, start) if load.rate else None
        self.sent.start_ns, cpu_s = start, time.process_time()
        if load.way == "send":
            await self._all(self._send_each)
        elif self.pace is None:
            await self._all(self._send_calls)
        else:
            await self._send_due(self.pace)
        self.sent.end_ns, self.sent.cpu_s = time.perf_counter_ns(), time.process_time() - cpu_s

    async def _all(self, work: Callable[[AsyncProducer], Awaitable[None]]) -> None:
        tasks = self._load.in_flight
        async with asyncio.TaskGroup() as group:
            for task in range(tasks):
                group.create_task(_awaited(work(self._producers[task % len(self._producers)])))

    def _more(self) -> bool:
        return self._supply.given < self._limit and time.perf_counter_ns() < self._until_ns

    # -- one `send` for each message

    async def _send_each(self, producer: AsyncProducer) -> None:
        topic, supply, clock = self._load.topic, self._supply, time.perf_counter_ns
        pace = self.pace
        while self._more():
            due = clock() if pace is None else pace.due_ns(supply.given - self.first)
            if due >= self._until_ns:
                return
            key = self._key(supply.given)
            value = supply.take_one()
            if pace is not None and (early := due - clock()) > 0:
                await asyncio.sleep(early / 1e9)
            try:
                metadata = await producer.send(topic, value, key=key)
            except LedgerError as error:
                self._failed(error, 1)
            else:
                self.sent.latencies.add(clock() - due)
                self.sent.records += 1
                if self._heard is not None:
                    self._heard(metadata)

    # -- `send_many`

    async def _send_calls(self, producer: AsyncProducer) -> None:
        while self._more():
            values = self._supply.take(min(self._load.call_messages, self._limit - self._supply.given))
            started = time.perf_counter_ns()
            if await self._call(producer, values):
                self.sent.latencies.add(time.perf_counter_ns() - started, len(values))

    async def _send_due(self, pace: Pace) -> None:
        """What has become due goes in one call."""
        room, number = asyncio.Semaphore(self._load.in_flight), 0

        async def send(first: int, values: list[bytes]) -> None:
            try:
                if await self._call(self._producers[number % len(self._producers)], values):
                    due = pace.all_due_ns(np.arange(first, first + len(values)))
                    self.sent.latencies.add_all(time.perf_counter_ns() - due)
            finally:
                room.release()

        async with asyncio.TaskGroup() as group:
            while self._more():
                first = self._supply.given - self.first
                due = min(pace.due_by(time.perf_counter_ns()), self._limit - self.first) - first
                if due <= 0:
                    await asyncio.sleep(_TICK_S)
                    continue
                await room.acquire()
                number += 1
                group.create_task(send(first, self._supply.take(min(due, _MOST_CALL_MESSAGES))))

    async def _call(self, producer: AsyncProducer, values: list[bytes]) -> bool:
        try:
            self._calls += 1
            await producer.send_many(self._load.topic, values, key=self._key(self._calls))
        except LedgerError as error:
            done = sum(each.count for each in getattr(error, "acknowledged", []))
            self.sent.records += done
            self._failed(error, len(values) - done)
            return False
        self.sent.records += len(values)
        return True

    def _key(self, number: int) -> bytes | None:
        return b"key-%d" % (number % self._load.keys) if self._load.keys else None

    def _failed(self, error: LedgerError, count: int) -> None:
        """Raises what will never do."""
        if not error.retriable and not isinstance(error, DeliveryTimeoutError):
            raise error
        self.sent.failed += count
        if isinstance(error, DeliveryTimeoutError) and error.maybe_committed:
            self.sent.unknown += count
        name = type(error).__name__
        self.sent.errors[name] = self.sent.errors.get(name, 0) + count


async def _awaited(work: Awaitable[None]) -> None:
    await work
