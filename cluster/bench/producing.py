"""The load of producers that `ledgermq bench` runs: a call of `send` for each message, or calls of `send_many` with
many messages.

    closed loop   a fixed number of calls is in flight; when a call is acknowledged, the next call begins
    open loop     messages are sent when they are due (cluster/load/pace.py), while fewer calls than that are in flight

If a call fails, the failure is counted and the load continues.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from cluster.bench.latencies import Latencies
from cluster.load.calls import CallSource, ProducerCall, Receipt, is_unknown, make_calls
from cluster.load.pace import Pace
from cluster.load.processes import Gate, Progress, run_jobs
from cluster.load.stamped_payloads import PayloadSupply, StampedPayloads
from ledger.client.producer.producer import AsyncProducer
from ledger.client.records import RecordMetadata
from ledger.errors import DeliveryTimeoutError, LedgerError

_TICK_S = 0.001
# Every send has a result by then, unless the run was interrupted. After an interrupt, nothing more is waited for.
_CLOSE_S = 3.0
_LEAST_CALL_MESSAGES = 16
_BATCHES_A_CALL = 4
_MOST_CALL_MESSAGES = 65_536
_NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class ProducerLoad:
    """Describes what the producers of a measurement send. The load ends after `count` messages or `seconds` seconds.
    If `rate` is 0, the load is a closed loop.

    If several processes share the load, each process has its own `ProducerLoad`. In the `ProducerLoad` of a process,
    `part` is the number of the process (from 0), and `rate`, `count`, `in_flight` and `producers` are the share of
    this process.
    """

    bootstrap: str
    topic: str
    size: int
    way: Literal["send", "send-many"] = "send-many"
    count: int = 0
    seconds: float = 0.0
    rate: float = 0.0
    warm_up_s: float = 1.0
    in_flight: int = 4
    producers: int = 1
    batch_bytes: int = 256 * 1024
    linger_ms: float = 5.0
    compression: str | None = None
    # The number of different keys, used in turn by messages or calls. 0: no keys, and messages go round the queues.
    keys: int = 0
    timeout_ms: int = 120_000
    run: int = 0
    part: int = 0

    @property
    def call_messages(self) -> int:
        """Return the number of messages that one call of `send_many` sends in a closed loop: enough for a few
        batches."""
        fit = _BATCHES_A_CALL * self.batch_bytes // (self.size + 8)
        return max(_LEAST_CALL_MESSAGES, min(fit, _MOST_CALL_MESSAGES))

    def shares(self, processes: int) -> list[ProducerLoad]:
        """Divide the load into equal shares and return the share of each process."""

        def share(whole: int, part: int) -> int:
            return whole // processes + (part < whole % processes)

        return [
            replace(
                self,
                part=part,
                count=share(self.count, part),
                in_flight=share(self.in_flight, part),
                producers=share(self.producers, part),
                rate=self.rate / processes,
            )
            for part in range(processes)
        ]


@dataclass(slots=True)
class ProducerFigures:
    """The result of the load in one process, without the warm-up.

    `total` is the number of payload numbers that this process used: it includes the warm-up and failed messages.
    """

    start_ns: int = 0
    end_ns: int = 0
    records: int = 0
    failed: int = 0
    unknown: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    # CPU seconds of this process, all its threads, during the measurement.
    cpu_s: float = 0.0
    total: int = 0
    part: int = 0
    latencies: Latencies = field(default_factory=Latencies)


Heard = Callable[[RecordMetadata], None]


def run_load(load: ProducerLoad, processes: int, progress: Progress) -> list[ProducerFigures]:
    """Run the load in `processes` processes. Return the figures of each process. Raises LoadError and LedgerError."""
    return run_jobs(load.shares(processes), Producing, progress)


class Producing:
    """Runs one load in this process: it creates the calls and records their results. Other tasks are allowed to
    read `sent` while the load runs."""

    def __init__(self, load: ProducerLoad, heard: Heard | None = None) -> None:
        """`heard` is called with the metadata of each message whose `send` was acknowledged."""
        self._load, self._heard = load, heard
        self._supply = PayloadSupply(StampedPayloads(load.size, load.run, load.part))
        self._limit = self._until_ns = self._calls = 0
        self._due = asyncio.Lock()
        # The number of the first message of this phase: of the warm-up, then of the measurement.
        self.first = 0
        # The plan of this phase; None in a closed loop.
        self.pace: Pace | None = None
        self._producers: list[AsyncProducer] = []
        self.sent = ProducerFigures(part=load.part)

    @property
    def records(self) -> int:
        return self.sent.records

    async def run(self, gate: Gate) -> ProducerFigures:
        """Run the warm-up, await `gate`, and run the measurement. Raises LedgerError if no producer can start or a
        message is invalid."""
        load = self._load
        try:
            for _ in range(load.producers):
                producer = self._make_producer()
                await producer.start()
                self._producers.append(producer)
            if load.warm_up_s:
                await self._phase(count=0, seconds=load.warm_up_s)
            self.sent = ProducerFigures(part=load.part)
            if load.count:
                self._supply.prepare(load.count)
            await gate()
            await self._phase(count=load.count, seconds=load.seconds)
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    for producer in self._producers:
                        await producer.stop()
        self.sent.total = self._supply.given
        return self.sent

    def _make_producer(self) -> AsyncProducer:
        load = self._load
        return AsyncProducer(
            load.bootstrap,
            linger_ms=load.linger_ms,
            batch_bytes=load.batch_bytes,
            compression=load.compression,
            delivery_timeout_ms=load.timeout_ms,
        )

    async def _phase(self, *, count: int, seconds: float) -> None:
        load, self.first = self._load, self._supply.given
        start = time.perf_counter_ns()
        self._limit = self.first + count if count else _NEVER
        self._until_ns = start + int(seconds * 1e9) if seconds else _NEVER
        self.pace = Pace(load.rate, start) if load.rate else None
        self.sent.start_ns, cpu_s = start, time.process_time()
        await make_calls(self._producers, self._source(), self, load.in_flight)
        self.sent.end_ns, self.sent.cpu_s = time.perf_counter_ns(), time.process_time() - cpu_s

    # -- the sources of calls

    def _source(self) -> CallSource:
        if self._load.way == "send":
            return self._next_send if self.pace is None else self._next_send_due
        return self._next_call if self.pace is None else self._next_due

    def _more(self) -> bool:
        return self._supply.given < self._limit and time.perf_counter_ns() < self._until_ns

    async def _next_send(self) -> ProducerCall | None:
        """Return a call of `send` with the next message, without waiting."""
        supply, now = self._supply, time.perf_counter_ns()
        number = supply.given
        if number >= self._limit or now >= self._until_ns:
            return None
        key = self._key(number) if self._load.keys else None
        return ProducerCall("send", self._load.topic, (supply.take_one(),), key, None, None, number, now)

    async def _next_send_due(self) -> ProducerCall | None:
        """Wait until the next message is due, and return a call of `send` with this message."""
        assert self.pace is not None
        supply, now = self._supply, time.perf_counter_ns()
        number = supply.given
        due = self.pace.due_ns(number - self.first)
        if number >= self._limit or max(now, due) >= self._until_ns:
            return None
        call = ProducerCall("send", self._load.topic, (supply.take_one(),), self._key(number), None, None, number, due)
        if (early := due - time.perf_counter_ns()) > 0:
            await asyncio.sleep(early / 1e9)
        return call

    async def _next_call(self) -> ProducerCall | None:
        """Return a call of `send_many` with a few batches, without waiting."""
        if not self._more():
            return None
        values = self._supply.take(min(self._load.call_messages, self._limit - self._supply.given))
        return self._many(values, due_ns=time.perf_counter_ns())

    async def _next_due(self) -> ProducerCall | None:
        """Return a call of `send_many` with all messages that are due now. Only one task at a time waits until
        messages are due."""
        assert self.pace is not None
        async with self._due:
            while self._more():
                first = self._supply.given - self.first
                due = min(self.pace.due_by(time.perf_counter_ns()), self._limit - self.first) - first
                if due > 0:
                    values = self._supply.take(min(due, _MOST_CALL_MESSAGES))
                    return self._many(values, number=first, due_ns=self.pace.due_ns(first))
                await asyncio.sleep(_TICK_S)
        return None

    def _many(self, values: list[bytes], *, number: int = 0, due_ns: int = 0) -> ProducerCall:
        self._calls += 1
        key = self._key(self._calls)
        return ProducerCall("send-many", self._load.topic, values, key, number=number, due_ns=due_ns)

    def _key(self, number: int) -> bytes | None:
        return b"key-%d" % (number % self._load.keys) if self._load.keys else None

    # -- the record of results: Producing implements CallRecorder

    def record_acknowledged(self, call: ProducerCall, receipt: Receipt) -> None:
        now, sent, count = time.perf_counter_ns(), self.sent, len(call.values)
        sent.records += count
        if self.pace is None or count == 1:
            sent.latencies.add(now - call.due_ns, count)
        else:
            sent.latencies.add_all(now - self.pace.all_due_ns(np.arange(call.number, call.number + count)))
        if self._heard is not None:
            assert isinstance(receipt, RecordMetadata)
            self._heard(receipt)

    def record_failed(self, call: ProducerCall, error: LedgerError) -> None:
        """Count the failed call. Raises the error if every further call would fail with this error too."""
        done = sum(each.count for each in error.acknowledged)
        self.sent.records += done
        if not error.retriable and not isinstance(error, DeliveryTimeoutError):
            raise error
        count = len(call.values) - done
        self.sent.failed += count
        if is_unknown(error):
            self.sent.unknown += count
        name = type(error).__name__
        self.sent.errors[name] = self.sent.errors.get(name, 0) + count
