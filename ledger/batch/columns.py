"""The payload of a batch is stored as columns. The columns have Arrow's buffer layout, so numpy and pyarrow read them
without a loop.

A column consists of a few buffers that follow each other in the payload. A reader computes the size of each buffer
from the number of messages and the offsets in earlier buffers, so the format stores no table of buffer positions.
Every buffer is padded with zeros to a multiple of 8 bytes.

    bodies        offsets i32[count + 1] | bytes                          Arrow: Binary, no nulls
    keys          validity bits[count] | offsets i32[count + 1] | bytes   Arrow: Binary          if KEYS
    tags          validity bits[count] | offsets i32[count + 1] | UTF-8   Arrow: Utf8            if TAGS
    headers       offsets i32[count + 1]                                  Arrow: List of ...     if HEADERS
                  names: offsets i32[n + 1] | UTF-8                           Struct of Utf8
                  values: offsets i32[n + 1] | bytes                          and Binary; n is the list's last offset
    timestamps    i64[count], minus the batch's base timestamp            Arrow: Int64           if TIMESTAMPS
    look-up keys  offsets i32[count + 1]                                  Arrow: List of Binary  if LOOK_UP_KEYS
                  keys: offsets i32[n + 1] | bytes; n is the list's last offset

The offsets of a column begin with 0 and never decrease. The first validity bit of a byte is the lowest bit. A validity
bit of 1 means that the item exists, and a bit of 0 means that the item is null.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice, pairwise

import numpy as np
from numpy.typing import NDArray

from ledger.batch.header import HEADERS, KEYS, LOOK_UP_KEYS, MAX_PLAIN_BYTES, TAGS, TIMESTAMPS
from ledger.batch.strings import Strings
from ledger.errors import CorruptBatchError, InvalidArgumentError

Headers = tuple[tuple[str, bytes], ...]

# Up to this number of items a Python loop is faster than numpy, because each call of numpy has a fixed cost. In a batch
# of one message that cost would be most of the work.
FEW = 32

# The optional columns of a payload.
PAYLOAD_COLUMNS = KEYS | TAGS | HEADERS | TIMESTAMPS | LOOK_UP_KEYS


@dataclass(frozen=True, slots=True)
class BinaryColumn:
    """Gives access to the byte strings of one column. The numpy arrays are views of the bytes in `source`, not
    copies."""

    source: bytes
    # Position in `source` of the first byte of the first string.
    start: int
    # [n + 1]: string i occupies [offsets[i], offsets[i + 1]) after `start`.
    offsets: NDArray[np.int32]
    # Packed bits; None if every string exists.
    validity: NDArray[np.uint8] | None

    @property
    def data(self) -> NDArray[np.uint8]:
        """The bytes of all strings of the column, one string directly after the other. A view."""
        return np.frombuffer(self.source, np.uint8, int(self.offsets[-1]), self.start)

    def longest(self) -> int:
        """Return the length of the longest string in bytes. The column must have at least one string."""
        offsets = self.offsets
        if len(offsets) <= FEW + 1:
            edges: list[int] = offsets.tolist()
            return max(end - first for first, end in pairwise(edges))
        return int((offsets[1:] - offsets[:-1]).max())

    def strings(self) -> list[bytes]:
        """Return all strings of the column. A null string is returned as b""."""
        source = self.source
        edges = (self.offsets + self.start).tolist()
        # A fifth faster than pairwise; this line is most of the cost of decoding.
        return [source[first:end] for first, end in zip(edges, edges[1:], strict=False)]  # noqa: RUF007

    def some(self, places: Sequence[int]) -> list[bytes]:
        """Return the strings at `places`, in this order. Each place must be from 0 to n - 1."""
        source, start, offsets = self.source, self.start, self.offsets
        if len(places) <= FEW:
            return [source[start + int(offsets[place]) : start + int(offsets[place + 1])] for place in places]
        at = np.array(places, np.int64)
        firsts, ends = (offsets[at] + start).tolist(), (offsets[at + 1] + start).tolist()
        return [source[first:end] for first, end in zip(firsts, ends, strict=True)]

    def some_optional(self, places: Sequence[int]) -> list[bytes | None]:
        """Return the strings at `places`, in this order. A null string is returned as None."""
        strings, validity = self.some(places), self.validity
        if validity is None:
            return list(strings)
        bits = (int(validity[place >> 3]) >> (place & 7) & 1 for place in places)
        return [string if bit else None for string, bit in zip(strings, bits, strict=True)]

    def optional_strings(self) -> list[bytes | None]:
        """Return all strings of the column. A null string is returned as None."""
        strings = self.strings()
        if self.validity is None:
            return list(strings)
        valid = np.unpackbits(self.validity, count=len(strings), bitorder="little").tolist()
        return [string if there else None for string, there in zip(strings, valid, strict=True)]


@dataclass(frozen=True, slots=True)
class HeaderColumn:
    """The column of message headers, with one list of (name, value) pairs for each message."""

    offsets: NDArray[np.int32]
    names: BinaryColumn
    values: BinaryColumn

    def lists(self) -> list[Headers]:
        """Return the headers of each message, in the order that the producer gave them."""
        names = [_text(name) for name in self.names.strings()]
        pairs = tuple(zip(names, self.values.strings(), strict=True))
        return [pairs[first:end] for first, end in pairwise(self.offsets.tolist())]

    def some(self, places: Sequence[int]) -> list[list[tuple[bytes, bytes]]]:
        """Return the headers of the messages at `places`, in this order. The names are not decoded."""
        ranges = [range(int(self.offsets[place]), int(self.offsets[place + 1])) for place in places]
        items = list(chain.from_iterable(ranges))
        pairs = zip(self.names.some(items), self.values.some(items), strict=True)
        return [list(islice(pairs, len(each))) for each in ranges]

    def named(self, places: Sequence[int], names: Iterable[bytes]) -> dict[bytes, list[bytes | None]]:
        """Return for each of these names the value in each message at `places`, in this order, and None for a message
        without it. If a message has a name twice, the last value counts. Only these values are read."""
        found: dict[bytes, list[bytes | None]] = {name: [None] * len(places) for name in names}
        at = np.array(places, np.int64)
        firsts, ends = self.offsets[at], self.offsets[at + 1]
        messages = np.repeat(np.arange(len(places)), ends - firsts).tolist()
        items = list(chain.from_iterable(map(range, firsts.tolist(), ends.tolist())))
        wanted = [
            (message, item, name)
            for message, item, name in zip(messages, items, self.names.some(items), strict=True)
            if name in found
        ]
        values = self.values.some([item for _, item, _ in wanted])
        for (message, _, name), value in zip(wanted, values, strict=True):
            found[name][message] = value
        return found


@dataclass(frozen=True, slots=True)
class LookUpKeyColumn:
    """The column of look-up keys, with one list of keys for each message."""

    offsets: NDArray[np.int32]
    keys: BinaryColumn

    def lists(self) -> list[tuple[bytes, ...]]:
        """Return the look-up keys of each message, in the order that the producer gave them."""
        keys = tuple(self.keys.strings())
        return [keys[first:end] for first, end in pairwise(self.offsets.tolist())]

    def some(self, places: Sequence[int]) -> list[tuple[bytes, ...]]:
        """Return the look-up keys of the messages at `places`, in this order."""
        edges = [(int(self.offsets[place]), int(self.offsets[place + 1])) for place in places]
        return [tuple(self.keys.some(range(first, end))) for first, end in edges]


@dataclass(frozen=True, slots=True)
class Columns:
    """Gives access to the parsed columns of one payload."""

    bodies: BinaryColumn
    keys: BinaryColumn | None
    tags: BinaryColumn | None
    headers: HeaderColumn | None
    timestamp_deltas: NDArray[np.int64] | None
    look_up_keys: LookUpKeyColumn | None

    @classmethod
    def read(cls, source: bytes, start: int, end: int, *, count: int, present: int) -> Columns:
        """Parse the columns in source[start:end]. The bits KEYS, TAGS, HEADERS, TIMESTAMPS and LOOK_UP_KEYS in
        `present` say which optional columns exist. Raises CorruptBatchError if an offset is wrong, or if the columns
        do not fill the given bytes exactly."""
        reader = _Reader(source, start, end)
        columns = cls(
            bodies=reader.binary(count),
            keys=reader.binary(count, nullable=True) if present & KEYS else None,
            tags=reader.binary(count, nullable=True) if present & TAGS else None,
            headers=reader.headers(count) if present & HEADERS else None,
            timestamp_deltas=reader.int64(count) if present & TIMESTAMPS else None,
            look_up_keys=reader.look_up_keys(count) if present & LOOK_UP_KEYS else None,
        )
        if reader.position != end:
            raise CorruptBatchError(
                f"The columns of a batch of {count} messages end {end - reader.position} bytes before its payload."
            )
        return columns

    def tag_texts(self) -> list[str | None]:
        """Return the tag of each message. Call `tag_texts` only if the batch has a column of tags."""
        assert self.tags is not None
        texts: dict[bytes | None, str | None] = {None: None}
        strings = self.tags.optional_strings()
        for tag in set(strings) - {None}:
            assert tag is not None
            texts[tag] = _text(tag)
        return [texts[tag] for tag in strings]


class ColumnWriter:
    """Collects the buffers of a payload in their order, each padded to 8 bytes. The caller joins the byte strings
    in `parts` to get the payload."""

    def __init__(self) -> None:
        self.parts: list[bytes | memoryview] = []

    @property
    def size(self) -> int:
        """The size of the payload in bytes, before compression."""
        return sum(part.nbytes if isinstance(part, memoryview) else len(part) for part in self.parts)

    def validity(self, there: NDArray[np.bool_]) -> None:
        """Append the validity bits of the column that is appended next. In that column, a string with the bit 0
        must be b""."""
        self.buffer(np.packbits(there, bitorder="little").data)

    def binary(self, strings: Sequence[bytes]) -> int:
        """Append a column of strings. Returns the length of the longest string, or 0 for an empty column."""
        total, longest = self.offsets(map(len, strings), len(strings))
        joined = b"".join(strings)
        if len(joined) != total:
            raise InvalidArgumentError(
                "A message is a memoryview whose items are not bytes: pass bytes, or cast the view to 'B'."
            )
        self.buffer(joined)
        return longest

    def strings(self, strings: Strings) -> int:
        """Append a column of strings. Returns the length of the longest string."""
        first, end = int(strings.offsets[0]), int(strings.offsets[-1])
        _check_size(end - first)
        self.buffer((strings.offsets - first).astype("<i4").data)
        self.buffer(strings.data[first:end].data)
        return int(strings.lengths.max())

    def headers(self, lists: Sequence[Sequence[tuple[str, bytes]]]) -> None:
        """Append the column of headers, which has three parts: offsets, names and values."""
        self.encoded_headers([[(name.encode(), value) for name, value in headers] for headers in lists])

    def encoded_headers(self, lists: Sequence[Sequence[tuple[bytes, bytes]]]) -> None:
        """Append the column of headers, whose names are UTF-8 already."""
        self.offsets(map(len, lists), len(lists))
        self.binary([name for headers in lists for name, _ in headers])
        self.binary([value for headers in lists for _, value in headers])

    def look_up_keys(self, lists: Sequence[Sequence[bytes]]) -> None:
        """Append the column of look-up keys, which has two parts: offsets and keys."""
        self.offsets(map(len, lists), len(lists))
        self.binary(list(chain.from_iterable(lists)))

    def offsets(self, lengths: Iterable[int], count: int) -> tuple[int, int]:
        """Append the offsets of `count` items, computed from the lengths of the items. Returns the sum of the
        lengths and the largest length."""
        if count <= FEW:
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
        """Append one buffer, padded to 8 bytes."""
        size = data.nbytes if isinstance(data, memoryview) else len(data)
        if size:
            self.parts.append(data)
        if size % 8:
            self.parts.append(bytes(-size % 8))


class _Reader:
    """Reads the buffers of a payload one after another, and never past the payload's end."""

    def __init__(self, source: bytes, start: int, end: int) -> None:
        self.source = source
        self.position = start
        self.end = end

    def take(self, size: int) -> int:
        """Return the position of the next buffer, and advance the reader by the buffer's `size` bytes and their
        padding."""
        position = self.position
        padded = size + -size % 8
        if size < 0 or padded > self.end - position:
            raise CorruptBatchError(
                f"A column of a batch states {size} bytes, but its payload has only {self.end - position} left."
            )
        self.position = position + padded
        return position

    def offsets(self, count: int) -> NDArray[np.int32]:
        """Read the offsets of `count` items. Raises CorruptBatchError if the offsets do not begin with 0, or
        decrease."""
        size = 4 * (count + 1)
        offsets = np.frombuffer(self.source, "<i4", count + 1, self.take(size))
        if offsets[0] != 0 or _fall(offsets):
            raise CorruptBatchError("The offsets of a column in a batch do not begin with 0, or decrease.")
        return offsets

    def binary(self, count: int, *, nullable: bool = False) -> BinaryColumn:
        """Read a column of `count` strings."""
        validity = None
        if nullable:
            size = (count + 7) // 8
            validity = np.frombuffer(self.source, np.uint8, size, self.take(size))
        offsets = self.offsets(count)
        return BinaryColumn(self.source, self.take(int(offsets[-1])), offsets, validity)

    def headers(self, count: int) -> HeaderColumn:
        """Read a column of `count` lists of headers."""
        offsets = self.offsets(count)
        total = int(offsets[-1])
        return HeaderColumn(offsets, self.binary(total), self.binary(total))

    def look_up_keys(self, count: int) -> LookUpKeyColumn:
        """Read a column of `count` lists of look-up keys."""
        offsets = self.offsets(count)
        return LookUpKeyColumn(offsets, self.binary(int(offsets[-1])))

    def int64(self, count: int) -> NDArray[np.int64]:
        """Read a column of `count` signed 64-bit numbers."""
        return np.frombuffer(self.source, "<i8", count, self.take(8 * count))


def _fall(offsets: NDArray[np.int32]) -> bool:
    if len(offsets) <= FEW + 1:
        edges: list[int] = offsets.tolist()
        return edges != sorted(edges)
    return bool((offsets[1:] < offsets[:-1]).any())


def _check_size(column: int) -> None:
    if column > MAX_PLAIN_BYTES:
        raise InvalidArgumentError(
            f"One column of a batch would have {column} bytes; at most {MAX_PLAIN_BYTES} are possible: send smaller "
            f"batches."
        )


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CorruptBatchError(f"A tag or header name in a batch is not UTF-8: {error}.") from error
