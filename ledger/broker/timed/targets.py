"""Reads the target topics of waiting messages from their batches."""

from __future__ import annotations

import asyncio

from ledger.batch import target_of
from ledger.broker.timed.waiting_batches import batch_at
from ledger.errors import CorruptBatchError
from store import CommitLog
from store.index.timed_unit import Units

# So many batches are read before other tasks run.
_READS_AT_ONCE = 64


async def targets_of(commit_log: CommitLog, units: Units) -> dict[int, int | None]:
    """Return the target topic id of each batch of these units, by position in the log. None: the batch cannot be read.
    Raises StoreError."""
    sizes = dict(zip(units["position"].tolist(), units["size"].tolist(), strict=True))
    targets: dict[int, int | None] = {}
    for number, (position, size) in enumerate(sizes.items(), 1):
        try:
            target = target_of(batch_at(commit_log, position, size)[1])
        except CorruptBatchError:
            target = None
        targets[position] = None if target is None else target[0]
        if number % _READS_AT_ONCE == 0:
            await asyncio.sleep(0)
    return targets
