"""Measures how long no message is acknowledged when the leader changes, whatever causes the change.

    acknowledged   in term 3   x x x x x                     x x x x   in term 4
                                       |<-- no write_s ---->|

Each acknowledgement contains the term of the log entry that contains the message. When the leader has changed,
acknowledgements contain a higher term. The cost of a change is the time without acknowledgements before the first
acknowledgement of the new term. The load writes to one queue, so that it depends on the leader of only one shard.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from cluster.bench.producing import ProducerFigures, ProducerLoad, Producing
from cluster.load.processes import Progress, reporting
from cluster.load.topics import REQUEST_TIMEOUT_MS
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.records import RecordMetadata
from ledger.errors import LedgerError


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the leader, as a producer saw it. `at_s` is the time since the first acknowledgement. `no_write_s`
    is the time without acknowledgements before the first acknowledgement of the new term.
    """

    at_s: float
    term_before: int
    term: int
    no_write_s: float


class Changes:
    """Finds changes of the leader from the terms in acknowledgements."""

    def __init__(self) -> None:
        self.found: list[Change] = []
        self.longest_silence_s = 0.0
        self._term = 0
        self._first_ns = self._last_ns = 0

    def acknowledged(self, term: int, now_ns: int) -> None:
        """Record the term and the time of one acknowledgement."""
        if not self._term:
            self._term, self._first_ns, self._last_ns = term, now_ns, now_ns
            return
        silence_s = (now_ns - self._last_ns) / 1e9
        self.longest_silence_s = max(self.longest_silence_s, silence_s)
        if term > self._term:
            self.found.append(Change((now_ns - self._first_ns) / 1e9, self._term, term, silence_s))
            self._term = term
        self._last_ns = now_ns


@dataclass(frozen=True, slots=True)
class Transfers:
    """With `Transfers`, the measurement itself changes the leader: every `every_s` seconds it transfers the leadership
    of `shard` through the admin interface.
    """

    shard: int
    every_s: float


async def measure_failover(
    load: ProducerLoad, transfers: Transfers | None, progress: Progress
) -> tuple[ProducerFigures, Changes, list[str]]:
    """Run the load, and transfer leadership if `transfers` is given. Return the producer's figures, the changes of
    the leader, and a sentence for each transfer that was refused."""
    changes = Changes()
    began = asyncio.Event()

    def heard(metadata: RecordMetadata) -> None:
        if began.is_set():
            changes.acknowledged(metadata.term, time.perf_counter_ns())

    async def begin() -> None:
        began.set()

    producing = Producing(load, heard)
    refused: list[str] = []
    tasks = []
    if transfers is not None:
        tasks.append(asyncio.create_task(_transfer(load.bootstrap, transfers, began, refused)))
    try:
        async with reporting(producing, progress):
            return await producing.run(begin), changes, refused
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _transfer(bootstrap: str, transfers: Transfers, began: asyncio.Event, refused: list[str]) -> None:
    await began.wait()
    async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
        while True:
            await asyncio.sleep(transfers.every_s)
            try:
                await admin.transfer_leadership(shard=transfers.shard)
            except LedgerError as error:
                refused.append(str(error))
