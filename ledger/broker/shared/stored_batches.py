"""The batches of the log that shared groups read, decoded.

A batch of a producer is usually handed out in several receives, and a filter looks at it before. So the decoded batches
that were used last stay in memory.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from ledger.batch import Batch
from ledger.broker.log_batches import batch_entry_at
from ledger.broker.turn_budget import TurnBudget
from ledger.errors import CorruptBatchError
from store import CommitLog

CACHE_BYTES = 16 << 20
# Bytes of a batch whose decoding takes a step of a turn of the event loop.
DECODED_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch of the log. `base_offset` is the offset of its first message."""

    batch: Batch
    base_offset: int
    append_time_ms: int


class StoredBatches:
    """Reads batches from a log, and keeps those that were used last, up to CACHE_BYTES and at least one."""

    def __init__(self, commit_log: CommitLog, budget: TurnBudget) -> None:
        """Steps of `budget` are counted for each batch that is decoded."""
        self._log = commit_log
        self._budget = budget
        # By position in the log, the batch that was used last at the end.
        self._cache: OrderedDict[int, StoredBatch] = OrderedDict()
        self._cached_bytes = 0

    def at(self, position: int, size: int) -> StoredBatch:
        """Return the batch of the entry of `size` bytes at this position. Raises CorruptBatchError or
        UnsupportedBatchError if it cannot be decoded here, and StoreError."""
        if (cached := self._cache.get(position)) is not None:
            self._cache.move_to_end(position)
            return cached
        entry = batch_entry_at(self._log, position, size)
        if entry is None:
            raise CorruptBatchError(f"the log has no batch of {size} bytes at position {position}")
        header, body = entry
        found = self._cache[position] = StoredBatch(Batch(bytes(body)), header.base_offset, header.append_time_ms)
        self._cached_bytes += _bytes_of(found)
        self._budget.charge(1 + _bytes_of(found) // DECODED_BYTES)
        while self._cached_bytes > CACHE_BYTES and len(self._cache) > 1:
            self._cached_bytes -= _bytes_of(self._cache.popitem(last=False)[1])
        return found

    def clear(self) -> None:
        """Forget all batches."""
        self._cache.clear()
        self._cached_bytes = 0


def _bytes_of(found: StoredBatch) -> int:
    return found.batch.header.plain_size
