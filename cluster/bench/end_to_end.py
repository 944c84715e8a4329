"""From when a message was due until a consumer has it: a producer and a consumer in one process, at a given rate.

Which message it is stands in its stamp, and when it was due follows from that number and the rate; so both ends share
a clock and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cluster.bench.consuming import Shape
from cluster.bench.failure import BenchError
from cluster.bench.latencies import Latencies
from cluster.bench.payloads import rows_of, rows_of_values, stamps_of
from cluster.bench.processes import Progress
from cluster.bench.producing import Load, Producing, Sent
from ledger.client.consumer.consumer import AsyncConsumer

_AT_ONCE = 20_000
_WAIT_MS = 500.0
_PROGRESS_S = 0.25
_SILENCE_S = 30.0


@dataclass(slots=True)
class Arrived:
    """What the consumer has of the messages behind the warm-up."""

    records: int = 0
    last_ns: int = 0
    latencies: Latencies = field(default_factory=Latencies)


class EndToEnd:
    """One measurement of `load`, which has a rate."""

    def __init__(self, load: Load, shape: Shape, progress: Progress) -> None:
        assert load.rate
        self._load, self._shape, self._progress = load, shape, progress
        self._begins = asyncio.Event()
        self.arrived = Arrived()

    async def run(self) -> tuple[Sent, Arrived]:
        """Returns when all that was acknowledged is there; BenchError where it does not come."""
        producing = Producing(self._load, self._begin)
        consumer = AsyncConsumer(self._load.topic, bootstrap_servers=self._load.bootstrap, start="latest")
        async with consumer:
            reading = asyncio.create_task(self._read(consumer, producing))
            try:
                sent = await producing.run()
                await self._wait(sent.records, reading)
            finally:
                reading.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await reading
        return sent, self.arrived

    async def _begin(self) -> None:
        self._begins.set()

    async def _wait(self, records: int, reading: asyncio.Task[None]) -> None:
        deadline = time.perf_counter() + _SILENCE_S
        while self.arrived.records < records and not reading.done():
            if time.perf_counter() > deadline:
                raise BenchError(f"of {records} acknowledged messages the consumer has {self.arrived.records}")
            await asyncio.sleep(_PROGRESS_S / 10)
        if reading.done():
            reading.result()

    async def _read(self, consumer: AsyncConsumer, producing: Producing) -> None:
        told = 0.0
        while True:
            for rows in await self._take(consumer):
                self._arrive(rows, producing)
            now = time.perf_counter()
            if now - told > _PROGRESS_S:
                told = now
                self._progress(self.arrived.records)

    async def _take(self, consumer: AsyncConsumer) -> list[NDArray[np.uint8]]:
        if self._shape == "objects":
            messages = await consumer.getmany(_AT_ONCE, _WAIT_MS)
            return list(rows_of_values([message.value for message in messages]))
        batches = [batch for _, _, batch in await consumer.getbatches(_WAIT_MS)]
        return [rows_of(batch.bodies, len(batch)) for batch in batches]

    def _arrive(self, rows: NDArray[np.uint8], producing: Producing) -> None:
        now, stamps, pace = time.perf_counter_ns(), stamps_of(rows), producing.pace
        numbers = stamps["number"][stamps["run"] == self._load.run].astype(np.int64) - producing.first
        numbers = numbers[numbers >= 0]
        if not self._begins.is_set() or pace is None or not len(numbers):
            return
        self.arrived.records += len(numbers)
        self.arrived.last_ns = now
        self.arrived.latencies.add_all(now - pace.all_due_ns(numbers))
