"""Creates payloads that are all different, cannot be compressed, and can be checked by a reader.

A payload begins with a stamp of 16 bytes: the run (u32), the part (u32) and the number (u64). The bytes after the
stamp are a row of a table of random bytes. The number in the stamp selects the row.

The stamp at the beginning of a payload (run, part and number) determines the whole payload, so the sender need not
store what it sent. A reader computes each payload again from its stamp and compares the result with the payload that
was read. The reader also counts how often each number of each run and part was read. A payload that is shorter than a
stamp is random and cannot be checked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cluster.load.failure import LoadError

STAMP_BYTES = 16
_STAMP = np.dtype([("run", "<u4"), ("part", "<u4"), ("number", "<u8")])
_POOL_BYTES = 8 << 20
_LEAST_ROWS = 16
_MOST_NUMBER = 1 << 31
# At most so much is made before the clock starts. Later payloads are made as they are sent.
PREPARED_BYTES = 256 << 20


def new_run() -> int:
    """Return a random number that identifies a run, so that a topic can contain the messages of several runs."""
    return int.from_bytes(os.urandom(4), "little")


class StampedPayloads:
    """Computes payloads of `size` bytes, which are numbered from 0 within this run and part."""

    def __init__(self, size: int, run: int = 0, part: int = 0) -> None:
        self.size, self._run, self._part = size, run, part
        rows = max(_LEAST_ROWS, _POOL_BYTES // max(size, 1))
        # The pool depends on the size only, so that every process has the same pool.
        self._pool = np.random.default_rng(size).integers(0, 256, (rows, size), np.uint8)

    def take(self, first: int, count: int) -> list[bytes]:
        """Return `count` payloads; the first payload has the number `first`."""
        if self.size < STAMP_BYTES:
            data = os.urandom(self.size * count)
        else:
            data = self._rows(np.arange(first, first + count), self._run, self._part).tobytes()
        size = self.size
        return [data[at : at + size] for at in range(0, size * count, size)] if size else [b""] * count

    def differ(self, found: NDArray[np.uint8], stamps: NDArray[np.void]) -> int:
        """Return how many rows of `found` differ from the payloads that their stamps determine."""
        pool = self._pool[(stamps["number"] % len(self._pool)).astype(np.int64)]
        return int((found[:, STAMP_BYTES:] != pool[:, STAMP_BYTES:]).any(axis=1).sum())

    def _rows(self, numbers: NDArray[np.int64], run: int, part: int) -> NDArray[np.uint8]:
        rows = self._pool[numbers % len(self._pool)]
        stamps = np.empty(len(numbers), _STAMP)
        stamps["run"], stamps["part"], stamps["number"] = run, part, numbers
        rows[:, :STAMP_BYTES] = stamps.view(np.uint8).reshape(-1, STAMP_BYTES)
        return rows


class PayloadSupply:
    """Returns the payloads of a load one after another, in the order of their numbers. `prepare` computes payloads
    in advance."""

    def __init__(self, payloads: StampedPayloads) -> None:
        self._payloads = payloads
        self._ready: list[bytes] = []
        self._at = 0
        # How many payloads were taken so far, which is also the number of the next payload.
        self.given = 0

    def prepare(self, count: int) -> None:
        """Compute the next `count` payloads in advance, or fewer if they would need more than PREPARED_BYTES bytes."""
        count = min(count, PREPARED_BYTES // max(self._payloads.size, 1))
        self._ready, self._at = self._payloads.take(self.given, count), 0

    def take(self, count: int) -> list[bytes]:
        """Return the next `count` payloads."""
        self.given += count
        if self._at + count <= len(self._ready):
            self._at += count
            return self._ready[self._at - count : self._at]
        left = self._ready[self._at :]
        self._ready, self._at = [], 0
        return left + self._payloads.take(self.given - count + len(left), count - len(left))

    def take_one(self) -> bytes:
        """Return the next payload."""
        if self._at == len(self._ready):
            self._ready, self._at = self._payloads.take(self.given, 1024), 0
        self._at += 1
        self.given += 1
        return self._ready[self._at - 1]


def rows_of(bodies: NDArray[np.uint8], count: int) -> NDArray[np.uint8]:
    """Return an array with one row for each of the `count` values, which have the same size and lie one after another
    in `bodies`. Raises LoadError if the values are too short for stamps or have different sizes.
    """
    size, rest = divmod(len(bodies), count)
    if rest or size < STAMP_BYTES:
        raise LoadError(
            f"some messages were not sent by `ledgermq bench`, or with a --size under {STAMP_BYTES}: name another topic"
        )
    return bodies.reshape(count, size)


def rows_of_values(values: list[bytes]) -> Iterator[NDArray[np.uint8]]:
    """Group single values by their size, and yield one array of rows for each size. Raises LoadError like
    `rows_of`."""
    for size in dict.fromkeys(map(len, values)):
        same = [value for value in values if len(value) == size]
        yield rows_of(np.frombuffer(b"".join(same), np.uint8), len(same))


def stamps_of(rows: NDArray[np.uint8]) -> NDArray[np.void]:
    """Return the stamp of each row: the fields `run`, `part` and `number`."""
    stamps: NDArray[np.void] = np.ascontiguousarray(rows[:, :STAMP_BYTES]).view(_STAMP).reshape(-1)
    return stamps


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of checking all payloads that were read back.

    `missing` is the number of payloads that did not come although a later payload of the same part came. If it is
    known how many payloads each part sent, `missing` is the number of these payloads that did not come.
    """

    messages: int
    wrong: int
    missing: int
    twice: int

    @property
    def holds(self) -> bool:
        return not (self.wrong or self.missing or self.twice)

    def __str__(self) -> str:
        return f"{self.messages} read: {self.wrong} wrong, {self.missing} missing, {self.twice} twice"


class PayloadCheck:
    """Checks every payload that was read. If `only` is given, payloads of other runs are ignored."""

    def __init__(self, only: int | None = None) -> None:
        self._only = only
        self._payloads = StampedPayloads(STAMP_BYTES)
        # How often each number came, by run and part: run + part * 2^32, as the first eight bytes of the stamp.
        self._seen: dict[int, NDArray[np.uint8]] = {}
        self._messages = self._wrong = 0

    def add(self, rows: NDArray[np.uint8]) -> None:
        """Check the values in `rows`, which all have the same size. Raises LoadError if the values are too short
        for stamps."""
        stamps = stamps_of(rows)
        if self._only is not None:
            mine = stamps["run"] == self._only
            rows, stamps = rows[mine], stamps[mine]
        if not len(stamps):
            return
        if self._payloads.size != rows.shape[1]:
            self._payloads = StampedPayloads(rows.shape[1])
        self._messages += len(stamps)
        self._wrong += self._payloads.differ(rows, stamps)
        sources = stamps["run"].astype(np.int64) + (stamps["part"].astype(np.int64) << 32)
        for source in np.unique(sources).tolist():
            self._count(source, stamps["number"][sources == source])

    def verified(self, sent: dict[int, int] | None = None, failed: int = 0) -> Verified:
        """Return the result of the check. `sent` maps each part of the run `only` to the number of messages that the
        part sent. Of all sent messages, at most `failed` may be missing. If `sent` is None, every payload with a
        number below the largest received number must have been received.
        """
        missing = twice = 0
        for counts in self._seen.values():
            twice += int(np.maximum(counts.astype(np.int64) - 1, 0).sum())
            if sent is None:
                missing += int((counts[: np.flatnonzero(counts)[-1]] == 0).sum())
        for part, count in (sent or {}).items():
            counts = self._seen.get((self._only or 0) + (part << 32), np.zeros(0, np.uint8))[:count]
            missing += count - int((counts > 0).sum())
        return Verified(self._messages, self._wrong, max(0, missing - failed), twice)

    def _count(self, source: int, numbers: NDArray[np.uint64]) -> None:
        most = int(numbers.max())
        if most >= _MOST_NUMBER:
            self._wrong += len(numbers)  # no load has so many messages: the stamp is wrong
            return
        counts = self._seen.get(source, np.zeros(1024, np.uint8))
        if most >= len(counts):
            counts = np.concatenate([counts, np.zeros(max(most + 1, 2 * len(counts)) - len(counts), np.uint8)])
        self._seen[source] = counts
        np.add.at(counts, numbers.astype(np.int64), 1)
