"""The entry: one record of the CommitLog, and its bytes.

    little-endian, at a position that is a multiple of 8

     0        4    5    6      8              12              16
    +--------+----+----+------+---------------+---------------+-------------------------------+
    | magic  |vers|kind|flags | size          | count         | index                         |
    +--------+----+----+------+---------------+---------------+-------------------------------+
    24                        32              40              48
    +-------------------------+---------------+---------------+-------------------------------+
    | term                    | position      | commit        | append_time_ms                |
    +-------------------------+---------------+-------+-------+-------+-------+---------------+
    56                        64              68      72      76      80
    +-------------------------+---------------+-------+-------+-------+------------- - - -----+
    | base_offset             | topic_id      | queue | crc   | chain | body          | zeros |
    +-------------------------+---------------+-------+-------+-------+------------- - - -----+

    size    header and body, without the zeros that pad the entry to a multiple of 8
    crc     CRC32C of bytes 0..71 and the body
    chain   CRC32C of (previous entry's chain, this crc) as two u32; before the first entry it is 0

An entry says itself where it stands (index, term, position) and, by its chain, what came before it; so it can
be judged from its bytes alone. The first 8 bytes are never all zero: blank space is told from an entry by one word.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

import google_crc32c
import numpy as np
import numpy.typing as npt

MAGIC = int.from_bytes(b"LMQE", "little")
VERSION = 1
HEADER_SIZE = 80
ALIGNMENT = 8
# Bytes at an entry's start that are written last: what makes it an entry.
WORD = 8

_HEADER = struct.Struct("<IBBHIIQQQQqqIIII")
_CHECKED = struct.Struct("<IBBHIIQQQQqqII")
_CRC_OFFSET = _CHECKED.size
_CHAIN = struct.Struct("<II")
_FIRST_WORD = struct.Struct("<Q")
assert _HEADER.size == HEADER_SIZE
# A header, for those who read many at once.
ROW = np.dtype(
    [
        ("magic", "<u4"), ("version", "u1"), ("kind", "u1"), ("flags", "<u2"), ("size", "<u4"), ("count", "<u4"),
        ("index", "<u8"), ("term", "<u8"), ("position", "<u8"), ("commit", "<u8"), ("append_time_ms", "<i8"),
        ("base_offset", "<i8"), ("topic_id", "<u4"), ("queue", "<u4"), ("crc", "<u4"), ("chain", "<u4"),
    ]
)  # fmt: skip
assert ROW.itemsize == HEADER_SIZE

Readable = bytes | memoryview
Cells = npt.NDArray[np.uint8]


class Kind(IntEnum):
    BATCH = 1
    COMMAND = 2
    CONFIGURATION = 3
    NO_OP = 4
    LOG_START = 5


_KINDS = {int(kind): kind for kind in Kind}


class EntryFlawError(Exception):
    """What is wrong with the bytes of an entry. Caught in this package by whoever knows where those bytes lie."""


class UnknownEntryError(EntryFlawError):
    """An entry begins here, and it is of a form that this program does not know. No torn write looks like that: the
    word that says so is whole or absent."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What a leader wants appended: an entry before it has its place."""

    kind: Kind
    body: bytes
    topic_id: int = 0
    queue: int = 0
    base_offset: int = 0
    count: int = 0

    @property
    def size(self) -> int:
        return HEADER_SIZE + len(self.body)


@dataclass(slots=True)
class Header:
    """Never changed, and not `frozen` all the same: a frozen one takes 1.9 us to make instead of 0.3, for each entry
    that is appended, received or read at start."""

    kind: Kind
    flags: int
    size: int
    count: int
    index: int
    term: int
    position: int
    commit: int
    append_time_ms: int
    base_offset: int
    topic_id: int
    queue: int
    crc: int
    chain: int

    @property
    def body_bytes(self) -> int:
        return self.size - HEADER_SIZE

    @property
    def end(self) -> int:
        """Position behind the entry and its padding."""
        return self.position + padded(self.size)


def padded(size: int) -> int:
    return (size + ALIGNMENT - 1) & -ALIGNMENT


def chained(chain: int, crc: int) -> int:
    """The chain of an entry with this crc that follows an entry with that chain."""
    value: int = google_crc32c.value(_CHAIN.pack(chain, crc))
    return value


def encode(
    draft: Draft, *, index: int, term: int, position: int, commit: int, append_time_ms: int, previous_chain: int
) -> tuple[Header, list[bytes]]:
    """The header, and the entry's bytes in pieces to be joined with those of its neighbours."""
    kind, size = draft.kind, draft.size
    checked = _CHECKED.pack(
        MAGIC, VERSION, kind, 0, size, draft.count, index, term, position, commit, append_time_ms,
        draft.base_offset, draft.topic_id, draft.queue,
    )  # fmt: skip
    crc = google_crc32c.extend(google_crc32c.value(checked), draft.body)
    chain = chained(previous_chain, crc)
    header = Header(
        kind, 0, size, draft.count, index, term, position, commit, append_time_ms,
        draft.base_offset, draft.topic_id, draft.queue, crc, chain,
    )  # fmt: skip
    padding = padded(size) - size
    return header, [checked + _CHAIN.pack(crc, chain), draft.body, *([bytes(padding)] if padding else ())]


def is_blank(data: Readable, at: int) -> bool:
    """Whether no entry begins here: its first word was never written, or was erased."""
    return _FIRST_WORD.unpack_from(data, at) == (0,)


def parse(data: Readable, at: int) -> Header:
    """The header that lies at `at`. Raises `EntryFlawError` when there is none that this version can read."""
    if at + HEADER_SIZE > len(data):
        raise EntryFlawError(f"only {len(data) - at} bytes are left, fewer than a header has")
    (magic, version, kind, flags, *fields) = _HEADER.unpack_from(data, at)
    if magic != MAGIC:
        raise EntryFlawError(f"no entry begins here: magic number {magic:#010x} instead of {MAGIC:#010x}")
    if version != VERSION:
        raise UnknownEntryError(f"entry version {version} is not known to this program, which knows {VERSION}")
    if kind not in _KINDS:
        raise UnknownEntryError(f"entry kind {kind} is not known to this program")
    if flags:
        raise UnknownEntryError(f"entry flags {flags:#06x} are not known to this program")
    return Header(_KINDS[kind], flags, *fields)


def verified(data: Readable, cells: Cells, at: int) -> Header:
    """The header at `at` of an entry that lies in `data` whole, with a right crc and clean padding. What it says of
    its place, and its chain, are for the caller to compare with the entry before. Raises `EntryFlawError`.

    `cells` are the same bytes as numpy sees them: the CRC library takes those, so that nothing is copied."""
    header = parse(data, at)
    size = header.size
    end = at + padded(size)
    if size < HEADER_SIZE:
        raise EntryFlawError(f"size {size} is smaller than a header")
    if end > len(data):
        raise EntryFlawError(f"size {size} reaches beyond the end, which is {len(data) - at} bytes away")
    crc = _crc_of(cells, at, size)
    if crc != header.crc:
        raise EntryFlawError(f"the CRC of header and body is {crc:#010x}, the header says {header.crc:#010x}")
    if size & (ALIGNMENT - 1) and any(data[at + size : end]):
        raise EntryFlawError("the padding is not zero")
    return header


def is_sealed(data: Readable, cells: Cells, at: int) -> bool:
    """Whether the bytes at `at` carry the CRC that an entry of this layout has, be its kind and flags known or not:
    then somebody wrote them so."""
    if at + HEADER_SIZE > len(data):
        return False
    fields = _HEADER.unpack_from(data, at)
    size, crc = fields[4], fields[-2]
    if fields[0] != MAGIC or size < HEADER_SIZE or at + size > len(data):
        return False
    return _crc_of(cells, at, size) == int(crc)


def _crc_of(cells: Cells, at: int, size: int) -> int:
    crc = google_crc32c.value(cells[at : at + _CRC_OFFSET])
    value: int = google_crc32c.extend(crc, cells[at + HEADER_SIZE : at + size])
    return value
