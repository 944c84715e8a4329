"""Reads waiting messages from the log of the leader, and makes the batches that deliver them.

Messages of one producer's batch may have many delivery times. So the decoded batches that were used last stay in
memory, up to `CACHE_BYTES`.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledger.batch import Batch, BatchHeader, TimedColumn, Waiting, firing_batch, timed_column
from ledger.broker.log_batches import batch_entry_at
from ledger.codec import Codec
from ledger.errors import CorruptBatchError, InvalidArgumentError, LedgerError
from store import CommitLog, Header, StoreError
from store.index.timed_unit import Units

log = logging.getLogger("ledgermq.broker.timed")

CACHE_BYTES = 8 << 20
# A turn delivers at most so many bytes of messages, from batches that take at most so many bytes of memory.
MOST_BYTES = 4 << 20
MOST_BATCH_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class WaitingBatch:
    """A decoded batch of `%TIMED`, and its target queue."""

    batch: Batch
    column: TimedColumn

    @property
    def target(self) -> tuple[int, int]:
        """Topic id and number of the target queue."""
        return self.column.topic_id, self.column.queue


@dataclass(frozen=True, slots=True)
class TargetMessages:
    """The due messages of one target queue, in the order of their delivery."""

    topic_id: int
    queue: int
    messages: Waiting

    @property
    def identities(self) -> list[int]:
        return list(map(int, self.messages.identities))

    @property
    def codec(self) -> Codec:
        """The codec of the batch that has the first message. So a message by itself is compressed as it was sent."""
        return Codec(self.messages.batches[int(self.messages.sources[0])].header.codec)

    def alone(self) -> Iterator[TargetMessages]:
        """Yield each of the messages by itself."""
        return (self._part(at, at + 1) for at in range(len(self.messages)))

    def halves(self) -> tuple[TargetMessages, TargetMessages]:
        """Return the first half of the messages, and the others."""
        middle, end = len(self.messages) // 2, len(self.messages)
        return self._part(0, middle), self._part(middle, end)

    def _part(self, start: int, stop: int) -> TargetMessages:
        whole, some = self.messages, slice(start, stop)
        waiting = Waiting(
            whole.batches, whole.sources[some], whole.places[some], whole.identities[some], whole.times_ms[some]
        )
        return TargetMessages(self.topic_id, self.queue, waiting)

    def firing_batch(self, first_sequence: int) -> bytes:
        """Return the batch that delivers the messages."""
        return firing_batch(
            self.messages,
            topic_id=self.topic_id,
            queue=self.queue,
            first_sequence=first_sequence,
            codec=self.codec,
        )


def fitting_batches(
    target: TargetMessages,
    first_sequence: int,
    make: Callable[[TargetMessages, int], bytes],
    fits: Callable[[bytes], bool],
) -> list[tuple[TargetMessages, bytes]]:
    """Return the batches of these messages: one, or more if one does not fit into an entry. `make` returns the batch
    of messages whose first sequence is given. Raises InvalidArgumentError if a message is too large by itself, and the
    errors of `make`."""
    batch = make(target, first_sequence)
    if fits(batch):
        return [(target, batch)]
    if len(target.messages) == 1:
        raise InvalidArgumentError(
            f"A waiting message needs a batch of {len(batch):,} bytes, which is too large for an entry of this shard: "
            "raise `max_message_bytes` on all nodes."
        )
    first, others = target.halves()
    return [
        *fitting_batches(first, first_sequence, make, fits),
        *fitting_batches(others, first_sequence + len(first.messages), make, fits),
    ]


class WaitingBatches:
    """Reads batches of `%TIMED` from a log, and keeps the last ones."""

    def __init__(self, commit_log: CommitLog) -> None:
        self._log = commit_log
        # By position in the log, the batch that was used last at the end.
        self._cache: OrderedDict[int, WaitingBatch] = OrderedDict()
        self._cached_bytes = 0

    def by_target(self, units: Units) -> tuple[list[TargetMessages], dict[int, int]]:
        """Return the messages of these units, by target queue. Return also identity and delivery time of each message
        that cannot be read."""
        read: dict[int, WaitingBatch | None] = {}
        groups: dict[tuple[int, int], list[int]] = {}
        unreadable: dict[int, int] = {}
        for number, (position, size, place) in enumerate(
            zip(units["position"].tolist(), units["size"].tolist(), units["place"].tolist(), strict=True)
        ):
            if position not in read:
                read[position] = self._read(position, size)
            found = read[position]
            if found is None or place >= len(found.batch):
                unreadable[int(units["identity"][number])] = int(units["time"][number])
            else:
                groups.setdefault(found.target, []).append(number)
        return list(_targets(units, read, groups)), unreadable

    def clear(self) -> None:
        """Forget all batches."""
        self._cache.clear()
        self._cached_bytes = 0

    def _read(self, position: int, size: int) -> WaitingBatch | None:
        """Return the batch at this position, or None if it cannot be read."""
        if (cached := self._cache.get(position)) is not None:
            self._cache.move_to_end(position)
            return cached
        try:
            body = bytes(batch_at(self._log, position, size)[1])
            batch = Batch(body)
            column = timed_column(body, batch.header)
            if column is None:
                raise CorruptBatchError("a batch of waiting messages has no delivery times")
        except (LedgerError, StoreError) as error:
            log.error("the waiting messages at position %d of the log cannot be read: %s", position, error)
            return None
        found = self._cache[position] = WaitingBatch(batch, column)
        self._cached_bytes += _bytes_of(found)
        while self._cached_bytes > CACHE_BYTES and len(self._cache) > 1:
            self._cached_bytes -= _bytes_of(self._cache.popitem(last=False)[1])
        return found


def first_that_fit(commit_log: CommitLog, units: Units) -> Units:
    """Return the first of these units that fit into one turn, and at least one."""
    fitting = int(np.searchsorted(np.cumsum(units["share"], dtype=np.int64), MOST_BYTES, "right"))
    sizes: dict[int, int] = {}
    total = 0
    for number, position in enumerate(units["position"][:fitting].tolist()):
        if position not in sizes:
            sizes[position] = _plain_size(commit_log, position, int(units["size"][number]))
            total += sizes[position]
            if total > MOST_BATCH_BYTES:
                fitting = number
                break
    return units[: max(1, fitting)]


def _plain_size(commit_log: CommitLog, position: int, size: int) -> int:
    """Return the uncompressed bytes of a batch in the log, and 0 if it cannot be read."""
    try:
        return BatchHeader.parse(batch_at(commit_log, position, size)[1]).plain_size
    except (LedgerError, StoreError):
        return 0


def batch_at(commit_log: CommitLog, position: int, size: int) -> tuple[Header, memoryview]:
    """Return the header and a view of the body of the batch entry of `size` bytes at `position`. Raises
    CorruptBatchError if the log has no such entry, and StoreError."""
    found = batch_entry_at(commit_log, position, size)
    if found is None:
        raise CorruptBatchError(f"the log has no batch of {size} bytes at position {position}")
    return found


def _targets(
    units: Units, read: dict[int, WaitingBatch | None], groups: dict[tuple[int, int], list[int]]
) -> Iterator[TargetMessages]:
    for (topic_id, queue), numbers in groups.items():
        some = units[numbers]
        positions, sources = np.unique(some["position"], return_inverse=True)
        batches = [found.batch for position in positions.tolist() if (found := read[position]) is not None]
        yield TargetMessages(
            topic_id,
            queue,
            Waiting(batches, _numbers(sources), _numbers(some["place"]), some["identity"], some["time"]),
        )


def _numbers(column: NDArray[np.integer]) -> NDArray[np.int64]:
    return column.astype(np.int64)


def _bytes_of(found: WaitingBatch) -> int:
    return found.batch.header.plain_size
