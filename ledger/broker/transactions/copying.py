"""Copies half batches that wait to the end of the log, so that the log start can move past their entries.

A copy keeps the number of its half batch, and the state of every replica then knows the place of the copy. A half batch
that is being settled is not copied; `make` waits until it is settled.
"""

from __future__ import annotations

import asyncio
import logging

from ledger.batch import copied_half
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.transactions.halves import half_queue, read_half
from ledger.errors import BusyError
from ledger.state import HalfBatch

log = logging.getLogger("ledgermq.broker.transactions")

# The half batches, and their bytes, that are copied at once.
_AT_ONCE = 256
_BYTES_AT_ONCE = 4 << 20
# The time between two looks at half batches that are being settled.
_WAIT_S = 0.05
# After so many looks without progress the log start stays for now.
_MOST_WAITS = 100


class HalfCopies:
    """Copies the half batches of one shard, on the shard's leader."""

    def __init__(self, replica: BrokerReplica) -> None:
        self._replica = replica

    def is_clear(self, position: int) -> bool:
        """Return True if no half batch waits in the entries before `position`. The log may begin at `position`."""
        return not self._before(position)

    async def make(self, position: int) -> None:
        """Copy the half batches that wait in the entries before `position`. After that `is_clear` is true. Raises
        BusyError if half batches there cannot be settled, StorageFailedError if one cannot be read, or another
        LedgerError."""
        copied = waits = 0
        while halves := self._before(position):
            count = await self._copy(halves)
            copied, waits = copied + count, 0 if count else waits + 1
            if waits > _MOST_WAITS:
                raise BusyError("half batches before the new log start are being settled: try again shortly")
            if not count:
                await asyncio.sleep(_WAIT_S)
        if copied:
            log.info("shard %d: %d half batches were copied to the end of the log", self._replica.shard, copied)

    def _before(self, position: int) -> list[HalfBatch]:
        """Return the first of the half batches that wait before this position of the log."""
        waiting = self._replica.state.transactions.waiting
        place = half_queue(self._replica)
        if not waiting or place is None:
            return []
        queue = self._replica.queues.get(*place)
        found: list[HalfBatch] = []
        for half in sorted(waiting.values(), key=lambda half: half.place):
            units = queue.read(half.place, 1)
            if len(found) >= _AT_ONCE or (len(units) and int(units["position"][0]) >= position):
                break
            found.append(half)
        return found

    async def _copy(self, halves: list[HalfBatch]) -> int:
        """Append copies, and return how many there are after the commit."""
        replica = self._replica
        projected = replica.check_leads(0).transactions
        place = half_queue(replica)
        assert place is not None, "half batches wait in it"
        entries, size = [], 0
        for half in halves:
            if not projected.waits(half.number):
                continue
            body = read_half(replica, half)
            entries.append(replica.copy(copied_half(body, half.number, replica.next_offset(*place))))
            size += len(body)
            if size >= _BYTES_AT_ONCE:
                break
        await asyncio.gather(*entries)
        return len(entries)
