"""Reads leased messages from the log of the leader, and cuts batches to them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from ledger.batch.cut import cut
from ledger.broker.shared.stored_batches import StoredBatch, StoredBatches
from ledger.errors import CorruptBatchError, LedgerError
from ledger.state import TopicQueueId
from store import ConsumeQueue

log = logging.getLogger("ledgermq.broker.shared")

# Units between the wanted ones cost less to read than more reads, up to this number for each wanted one.
_NEAR = 64


@dataclass(frozen=True, slots=True)
class LeasedBatch:
    """Messages of one stored batch that a receive gets, as the bytes of a whole or a cut batch. `base_offset` is that
    of the stored batch. `attempts` has for each message how often it was handed out, this time included."""

    queue: TopicQueueId
    base_offset: int
    append_time_ms: int
    body: bytes
    # Index of the entry that leased the messages, and how often the offset of the group had been reset.
    lease: int
    resets: int
    attempts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LeasedMessages:
    """Messages of one queue that a receive gets, in ascending order of their offsets."""

    queue: TopicQueueId
    offsets: Sequence[int]
    attempts: Sequence[int]
    lease: int
    resets: int


class LeasedBatches:
    """Reads batches from the log of a shard, and cuts them."""

    def __init__(self, shard: int, stored: StoredBatches) -> None:
        self._shard = shard
        self._stored = stored

    def read(self, units: ConsumeQueue, wanted: LeasedMessages) -> Iterator[LeasedBatch]:
        """Yield the batches with these messages, without those that cannot be decoded on this node. Raises
        CorruptBatchError if the index is damaged there, and StoreError."""
        places = _places(units, wanted.offsets)
        found = [(*place, offset, at) for at, (place, offset) in enumerate(zip(places, wanted.offsets, strict=True))]
        for (position, size), group in groupby(found, key=lambda each: each[:2]):
            of_batch = [(offset, wanted.attempts[at]) for _, _, offset, at in group]
            try:
                yield self._part(wanted, self._stored.at(position, size), of_batch)
            except LedgerError as error:
                log.error(
                    "shard %d: leased messages from offset %d on cannot be read on this node: %s",
                    self._shard,
                    of_batch[0][0],
                    error,
                )

    @staticmethod
    def _part(wanted: LeasedMessages, stored: StoredBatch, messages: list[tuple[int, int]]) -> LeasedBatch:
        batch = stored.batch
        places = np.array([offset for offset, _ in messages], np.int64) - stored.base_offset
        if places[0] < 0 or places[-1] >= len(batch):
            raise CorruptBatchError(f"the batch at offset {stored.base_offset} has no message {messages[-1][0]}")
        body = bytes(batch.data) if len(places) == len(batch) else cut(batch, places)
        attempts = tuple(attempt for _, attempt in messages)
        return LeasedBatch(
            wanted.queue,
            stored.base_offset,
            stored.append_time_ms,
            body,
            wanted.lease,
            wanted.resets,
            attempts,
        )


def _places(units: ConsumeQueue, offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Return position and size of the entry of each offset. The offsets ascend."""
    first, span = offsets[0], offsets[-1] - offsets[0] + 1
    if span <= _NEAR * len(offsets):
        window = units.read(first, span)
        some = window[[offset - first for offset in offsets if offset - first < len(window)]]
    else:
        some = np.concatenate([units.read(offset, 1) for offset in offsets])
    if len(some) < len(offsets):
        raise CorruptBatchError(f"the index of the queue ends before offset {offsets[-1]}")
    return list(zip(some["position"].tolist(), some["size"].tolist(), strict=True))
