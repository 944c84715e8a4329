"""Finds the entries of a block, checks each entry separately, and returns the entries as columns.

    positions  80        480       1,000 ...
    rows       header    header    header ...        `store.log.entry.ROW`, one gather of 10 words each
    digests    xxh3 of each body

A Python loop reads the size, the CRCs and the digest of each entry, because numpy cannot do that. All other checks are
numpy operations on all entries at once. This module checks each entry without looking at other entries. `run_check.py`
and `pieces.py` compare an entry with its neighbours.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt
import xxhash

from ledger.batch import HEADER_BYTES as BATCH_BYTES
from ledger.validation.spans.block import SpanBlock
from store import EntryKind, Header
from store.log.entry import ALIGNMENT, HEADER_SIZE, MAGIC, ROW, VERSION

# Of `store.log.entry.ROW`.
Rows = npt.NDArray[np.void]
U64 = npt.NDArray[np.uint64]

# Entries that are found before any of them is judged.
_AT_ONCE = 4096
# Bytes from which on a view costs less than a copy.
_LARGE = 4096
_CHECKED = HEADER_SIZE - 8  # bytes of a header that its CRC covers
_BATCH_CHECKED = 8  # bytes of a batch before those that its CRC covers
_BEGIN = struct.Struct("<I4xI")
_KINDS = max(EntryKind)
# By size modulo 8: which bits of an entry's last word are padding.
_PADDING = np.array([0, *(((1 << 64) - 1) << (8 * rest) & ((1 << 64) - 1) for rest in range(1, 8))], np.uint64)


@dataclass(frozen=True, slots=True)
class Entries:
    """Whole entries without gaps between them, as columns of the same length."""

    # Where each begins in the block.
    at: npt.NDArray[np.int64]
    rows: Rows
    # xxh3-64 of the bodies.
    digests: U64
    # What the CRC of the body must be if it is a batch.
    batch_crcs: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.at)

    def header(self, number: int) -> Header:
        """Return the header of an entry as `store` defines it. A negative number counts from the last entry."""
        fields = self.rows[number].item()
        return Header(EntryKind(fields[2]), fields[3], *fields[4:])

    @staticmethod
    def joined(parts: Sequence[Entries]) -> Entries:
        """Return the entries of all parts, in the order of the parts."""
        if len(parts) == 1:
            return parts[0]
        return Entries(
            np.concatenate([part.at for part in parts]),
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.digests for part in parts]),
            np.concatenate([part.batch_crcs for part in parts]),
        )


def entries_from(block: SpanBlock, position: int) -> tuple[Entries, int]:
    """Return the whole entries from `position` on, up to the first position without a whole entry. Also return the
    position at which the first whole entry is missing. Only entries that begin in the block are returned."""
    parts: list[Entries] = []
    while True:
        at, sizes, end = _sizes_from(block, position)
        if not at:
            break
        part = _judged(block, at, sizes)
        parts.append(part)
        if len(part) < len(at):
            end = block.begin + at[len(part)]
        position = end
        if len(part) < _AT_ONCE:
            break
    return (Entries.joined(parts) if parts else _none()), position


def _none() -> Entries:
    return Entries(np.empty(0, np.int64), np.empty(0, ROW), np.empty(0, np.uint64), np.empty(0, np.uint32))


def _sizes_from(block: SpanBlock, position: int) -> tuple[list[int], list[int], int]:
    """Return the offsets in the block and the sizes of up to _AT_ONCE entries, and the position after the last one.
    The sizes come from the headers."""
    ats: list[int] = []
    sizes: list[int] = []
    begin, last = block.begin, block.end - block.begin
    at, data = position - begin, block.data
    while at < last and len(ats) < _AT_ONCE:
        if at + HEADER_SIZE > len(data) and not block.reach(begin + at + HEADER_SIZE):
            break
        magic, size = _BEGIN.unpack_from(block.data, at)
        end = at + ((size + ALIGNMENT - 1) & -ALIGNMENT)
        if magic != MAGIC or not HEADER_SIZE <= size <= block.largest:
            break
        if end > len(data):
            if not block.reach(begin + end):
                break
            data = block.data
        ats.append(at)
        sizes.append(size)
        at = end
    return ats, sizes, begin + at


def _judged(block: SpanBlock, ats: list[int], sizes: list[int]) -> Entries:
    """Return the entries before the first bad entry. A bad entry is damaged, or its header states another position."""
    crcs, digests, batch_crcs = _hashed(block, ats, sizes)
    at = np.array(ats, np.int64)
    words = at // ALIGNMENT
    gathered = block.words[words[:, None] + np.arange(HEADER_SIZE // ALIGNMENT)]
    rows = gathered.view(ROW)[:, 0]
    right = rows["crc"] == np.array(crcs, np.uint32)
    right &= rows["position"] == at + block.begin
    right &= (rows["version"] == VERSION) & (rows["kind"] >= 1) & (rows["kind"] <= _KINDS) & (rows["flags"] == 0)
    size = rows["size"]
    right &= (block.words[words + (size - 1) // ALIGNMENT] & _PADDING[size % ALIGNMENT]) == 0
    count = len(ats) if right.all() else int(np.argmin(right))
    return Entries(
        at[:count],
        rows[:count],
        np.array(digests[:count], np.uint64),
        np.array(batch_crcs[:count], np.uint32),
    )


def _hashed(block: SpanBlock, ats: list[int], sizes: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Return for each entry the CRC that it must have, the digest of its body, and the CRC of its body as a batch.
    This loop takes most of the time in which a span is read. Small bodies are copied, because a copy is faster than
    a view of them."""
    data, cells = block.data, block.cells
    value, extend, digest = google_crc32c.value, google_crc32c.extend, xxhash.xxh3_64_intdigest
    crcs, digests, batch_crcs = [], [], []
    for at, size in zip(ats, sizes, strict=True):
        source: Any = data if size < _LARGE else cells
        body = source[at + HEADER_SIZE : at + size]
        crcs.append(extend(value(data[at : at + _CHECKED]), body))
        digests.append(digest(body))
        batch_crcs.append(value(body[_BATCH_CHECKED:]) if size >= HEADER_SIZE + BATCH_BYTES else 0)
    return crcs, digests, batch_crcs
