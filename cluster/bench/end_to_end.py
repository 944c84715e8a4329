"""Measures end-to-end latency: the time from when a message was due until a consumer has it. Producer and consumer run
in one process, and the producer sends at a given rate.

The stamp in a message contains the message's number. The consumer computes when a message was due from the message's
number and the rate. Producer and consumer need nothing in common except the clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cluster.bench.latencies import Latencies
from cluster.bench.producing import ProducerFigures, ProducerLoad, Producing
from cluster.load.failure import LoadError
from cluster.load.processes import Progress
from cluster.load.reading import Shape, take
from cluster.load.stamped_payloads import stamps_of
from ledger.client.consumer.consumer import AsyncConsumer

_PROGRESS_S = 0.25
_SILENCE_S = 30.0


@dataclass(slots=True)
class Arrived:
    """The messages that the consumer received after the warm-up."""

    records: int = 0
    last_ns: int = 0
    latencies: Latencies = field(default_factory=Latencies)


class EndToEnd:
    """One measurement of end-to-end latency with the load `load`, which must have a rate."""

    def __init__(self, load: ProducerLoad, shape: Shape, progress: Progress) -> None:
        assert load.rate
        self._load, self._shape, self._progress = load, shape, progress
        self._begins = asyncio.Event()
        self.arrived = Arrived()

    async def run(self) -> tuple[ProducerFigures, Arrived]:
        """Run the measurement until every acknowledged message has arrived at the consumer. Raises LoadError if an
        acknowledged message does not arrive in time."""
        producing = Producing(self._load)
        consumer = AsyncConsumer(self._load.topic, bootstrap_servers=self._load.bootstrap, start="latest")
        async with consumer:
            reading = asyncio.create_task(self._read(consumer, producing))
            try:
                sent = await producing.run(self._begin)
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
                raise LoadError(
                    f"{self.arrived.records} of {records} acknowledged messages arrived at the consumer within "
                    f"{_SILENCE_S:g} s"
                )
            await asyncio.sleep(_PROGRESS_S / 10)
        if reading.done():
            reading.result()

    async def _read(self, consumer: AsyncConsumer, producing: Producing) -> None:
        told = 0.0
        while True:
            for rows in (await take(consumer, self._shape)).rows():
                self._arrive(rows, producing)
            now = time.perf_counter()
            if now - told > _PROGRESS_S:
                told = now
                self._progress(self.arrived.records)

    def _arrive(self, rows: NDArray[np.uint8], producing: Producing) -> None:
        now, stamps, pace = time.perf_counter_ns(), stamps_of(rows), producing.pace
        numbers = stamps["number"][stamps["run"] == self._load.run].astype(np.int64) - producing.first
        numbers = numbers[numbers >= 0]
        if not self._begins.is_set() or pace is None or not len(numbers):
            return
        self.arrived.records += len(numbers)
        self.arrived.last_ns = now
        self.arrived.latencies.add_all(now - pace.all_due_ns(numbers))
