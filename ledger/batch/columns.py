"""The columns in a batch's payload, in Arrow's buffer layout, so that numpy and pyarrow read them without a loop.

A column is a few buffers one behind another, whose sizes follow from the count of messages and from the
offsets before them; there is no table of places that could contradict them. Every buffer is padded to 8 bytes.

    bodies        offsets i32[count + 1] | bytes                          Arrow: Binary, no nulls
    keys          validity bits[count] | offsets i32[count + 1] | bytes   Arrow: Binary          if KEYS
    tags          validity bits[count] | offsets i32[count + 1] | UTF-8   Arrow: Utf8            if TAGS
    headers       offsets i32[count + 1]                                  Arrow: List of ...     if HEADERS
                  names: offsets i32[n + 1] | UTF-8                           Struct of Utf8
                  values: offsets i32[n + 1] | bytes                          and Binary; n is the list's last offset
    timestamps    i64[count], each less the batch's base timestamp        Arrow: Int64           if TIMESTAMPS

Offsets begin with 0 and never fall; validity bits count from the lowest; 1 is "there".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from ledger.batch.header import HEADERS, KEYS, MAX_PLAIN_BYTES, TAGS, TIMESTAMPS
from ledger.errors import CorruptBatchError, InvalidArgumentError

Headers = tuple[tuple[str, bytes], ...]

# Up to so many things a loop is quicker than numpy, whose calls have a price of their own. Where one message makes a
# batch, that price would be most of the work.
_FEW = 32


@dataclass(frozen=True, slots=True)
class BinaryColumn:
    """Byte strings of one column: views of the buffer that they were read from."""

    source: bytes
    start: int  # of the column's bytes in `source`
    offsets: NDArray[np.int32]  # [n + 1]: string i is [offsets[i], offsets[i + 1]) from `start` on
    validity: NDArray[np.uint8] | None  # packed bits; None: all are there

    @property
    def data(self) -> NDArray[np.uint8]:
        """The bytes of all strings together."""
        return np.frombuffer(self.source, np.uint8, int(self.offsets[-1]), self.start)

    def longest(self) -> int:
        """Bytes of the longest string; there must be one."""
        offsets = self.offsets
        if len(offsets) <= _FEW + 1:
            edges: list[int] = offsets.tolist()
            return max(end - first for first, end in pairwise(edges))
        return int((offsets[1:] - offsets[:-1]).max())

    def strings(self) -> list[bytes]:
        """Every string; an absent one as b""."""
        source = self.source
        edges = (self.offsets + self.start).tolist()
        # A fifth quicker than pairwise: this line is most of what decoding costs.
        return [source[first:end] for first, end in zip(edges, edges[1:], strict=False)]  # noqa: RUF007

    def optional_strings(self) -> list[bytes | None]:
        """Every string; an absent one as None."""
        strings = self.strings()
        if self.validity is None:
            return list(strings)
        valid = np.unpackbits(self.validity, count=len(strings), bitorder="little").tolist()
        return [string if there else None for string, there in zip(strings, valid, strict=True)]


@dataclass(frozen=True, slots=True)
class HeaderColumn:
    """The lists of named values."""

    offsets: NDArray[np.int32]
    names: BinaryColumn
    values: BinaryColumn

    def lists(self) -> list[Headers]:
        """Each message's headers, in the producer's order."""
        names = [_text(name) for name in self.names.strings()]
        pairs = tuple(zip(names, self.values.strings(), strict=True))
        return [pairs[first:end] for first, end in pairwise(self.offsets.tolist())]


@dataclass(frozen=True, slots=True)
class Columns:
    """All columns of one payload."""

    bodies: BinaryColumn
    keys: BinaryColumn | None
    tags: BinaryColumn | None
    headers: HeaderColumn | None
    timestamp_deltas: NDArray[np.int64] | None

    @classmethod
    def read(cls, source: bytes, start: int, end: int, *, count: int, present: int) -> Columns:
        """The columns in source[start:end], every offset checked; CorruptBatchError unless they fill it exactly."""
        reader = _Reader(source, start, end)
        columns = cls(
            bodies=reader.binary(count),
            keys=reader.binary(count, nullable=True) if present & KEYS else None,
            tags=reader.binary(count, nullable=True) if present & TAGS else None,
            headers=reader.headers(count) if present & HEADERS else None,
            timestamp_deltas=reader.int64(count) if present & TIMESTAMPS else None,
        )
        if reader.position != end:
            raise CorruptBatchError(
                f"The columns of a batch of {count} messages end {end - reader.position} bytes before its payload."
            )
        return columns

    def tag_texts(self) -> list[str | None]:
        """Each message's tag; needs the column."""
        assert self.tags is not None
        texts: dict[bytes | None, str | None] = {None: None}
        strings = self.tags.optional_strings()
        for tag in set(strings) - {None}:
            assert tag is not None
            texts[tag] = _text(tag)
        return [texts[tag] for tag in strings]


class ColumnWriter:
    """Gathers buffers in their order, padded, to be joined at the end."""

    def __init__(self) -> None:
        self.parts: list[bytes | memoryview] = []

    def validity(self, there: NDArray[np.bool_]) -> None:
        """Append the bits that say which strings of the next column are there; the others are b"" in it."""
        self.buffer(np.packbits(there, bitorder="little").data)

    def binary(self, strings: Sequence[bytes]) -> int:
        """Append a column of strings; returns the length of the longest, 0 where there is none."""
        total, longest = self.offsets(map(len, strings), len(strings))
        joined = b"".join(strings)
        if len(joined) != total:
            raise InvalidArgumentError("Messages must be bytes: a view whose items are not bytes cannot be encoded.")
        self.buffer(joined)
        return longest

    def headers(self, lists: Sequence[Sequence[tuple[str, bytes]]]) -> None:
        """Append the three-part column of headers."""
        self.offsets(map(len, lists), len(lists))
        self.binary([name.encode() for headers in lists for name, _ in headers])
        self.binary([value for headers in lists for _, value in headers])

    def offsets(self, lengths: Iterable[int], count: int) -> tuple[int, int]:
        """Append the offsets between `count` things of these lengths; returns the sum of all, and the greatest."""
        if count <= _FEW:
            known = list(lengths)
            total, longest = sum(known), max(known, default=0)
            _check_size(total)
            self.buffer(struct.pack(f"<{count + 1}i", *accumulate(known, initial=0)))
        else:
            column = np.fromiter(lengths, np.int64, count)
            offsets = np.zeros(count + 1, np.int64)
            np.cumsum(column, out=offsets[1:])
            total, longest = int(offsets[-1]), int(column.max())
            _check_size(total)
            self.buffer(offsets.astype("<i4").data)
        return total, longest

    def buffer(self, data: bytes | memoryview) -> None:
        """Append one buffer, padded."""
        size = data.nbytes if isinstance(data, memoryview) else len(data)
        if size:
            self.parts.append(data)
        if size % 8:
            self.parts.append(bytes(-size % 8))


class _Reader:
    """Takes buffers one behind another and never beyond the end."""

    def __init__(self, source: bytes, start: int, end: int) -> None:
        self.source = source
        self.position = start
        self.end = end

    def take(self, size: int) -> int:
        """Where the next `size` bytes begin; passes them and their padding."""
        position = self.position
        padded = size + -size % 8
        if size < 0 or padded > self.end - position:
            raise CorruptBatchError(
                f"A column of a batch claims {size} bytes where its payload has only {self.end - position} left."
            )
        self.position = position + padded
        return position

    def offsets(self, count: int) -> NDArray[np.int32]:
        """The offsets between `count` things, checked."""
        size = 4 * (count + 1)
        offsets = np.frombuffer(self.source, "<i4", count + 1, self.take(size))
        if offsets[0] != 0 or _fall(offsets):
            raise CorruptBatchError("Offsets within a batch do not begin with 0, or fall.")
        return offsets

    def binary(self, count: int, *, nullable: bool = False) -> BinaryColumn:
        """A column of `count` strings."""
        validity = None
        if nullable:
            size = (count + 7) // 8
            validity = np.frombuffer(self.source, np.uint8, size, self.take(size))
        offsets = self.offsets(count)
        return BinaryColumn(self.source, self.take(int(offsets[-1])), offsets, validity)

    def headers(self, count: int) -> HeaderColumn:
        """A column of `count` lists of headers."""
        offsets = self.offsets(count)
        total = int(offsets[-1])
        return HeaderColumn(offsets, self.binary(total), self.binary(total))

    def int64(self, count: int) -> NDArray[np.int64]:
        """A column of `count` numbers."""
        return np.frombuffer(self.source, "<i8", count, self.take(8 * count))


def _fall(offsets: NDArray[np.int32]) -> bool:
    if len(offsets) <= _FEW + 1:
        edges: list[int] = offsets.tolist()
        return edges != sorted(edges)
    return bool((offsets[1:] < offsets[:-1]).any())


def _check_size(column: int) -> None:
    if column > MAX_PLAIN_BYTES:
        raise InvalidArgumentError(
            f"A batch cannot hold {column} bytes in one column: at most {MAX_PLAIN_BYTES}; make more batches."
        )


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CorruptBatchError(f"A tag or header name in a batch is not UTF-8: {error}.") from error
