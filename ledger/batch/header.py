"""The fixed header of a batch, and the hash columns behind it: all that a broker reads of one.

A producer encodes a batch once, and nobody rewrites it; what a broker must know of it stands at fixed
places in front, uncompressed. Little-endian; every buffer begins at a multiple of 8 and is padded to one with zeros.

      0        magic u32         "LMQB"
      4        crc u32           CRC32C of all that follows: [8, size)
      8        version u8 | codec u8 | columns u16     (columns: bits KEYS, TAGS, HEADERS, TIMESTAMPS)
     12        count u32         messages: 1..65,535
     16        size u32          of the whole batch, header included
     20        plain size u32    of the payload before compression; at most 64 MiB
     24        largest u32       body of the batch, in bytes
     28        epoch u32
     32        topic id u32
     36        queue u32
     40        producer id u64
     48        first sequence u64
     56        base timestamp i64, ms
     64        tag hashes i64[count]      if TAGS; 0: no tag
               key hashes u64[count]      if KEYS; 0: no key
               payload                    as the codec left it; to the end of the batch. See columns.py

Topic id and queue are under the CRC, so a batch that was led astray does not pass for another queue's.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from ledger.errors import CorruptBatchError, UnsupportedBatchError

Buffer = bytes | memoryview

MAGIC = int.from_bytes(b"LMQB", "little")
VERSION = 1

KEYS = 1 << 0
TAGS = 1 << 1
HEADERS = 1 << 2
TIMESTAMPS = 1 << 3
ALL_COLUMNS = KEYS | TAGS | HEADERS | TIMESTAMPS

MAX_COUNT = 65_535
MAX_PLAIN_BYTES = 64 << 20

_FIXED = struct.Struct("<IIBBHIIIIIIIQQq")
_CRC = struct.Struct("<I")
_PLACE = struct.Struct("<II")
_PLACE_POSITION = 32
_CRC_POSITION = 4
_CRC_FROM = 8
HEADER_BYTES = _FIXED.size
assert HEADER_BYTES == 64
# A header, for those who read many at once.
ROW = np.dtype(
    [
        ("magic", "<u4"), ("crc", "<u4"), ("version", "u1"), ("codec", "u1"), ("columns", "<u2"), ("count", "<u4"),
        ("size", "<u4"), ("plain_size", "<u4"), ("largest", "<u4"), ("epoch", "<u4"), ("topic_id", "<u4"),
        ("queue", "<u4"), ("producer_id", "<u8"), ("first_sequence", "<u8"), ("base_timestamp_ms", "<i8"),
    ]
)  # fmt: skip
assert ROW.itemsize == HEADER_BYTES


@dataclass(slots=True)
class BatchHeader:
    """What the fixed header says. Parsed only as far as the header goes: `check` tells whether the rest agrees. Never
    changed, and not `frozen` all the same: a frozen one takes four times as long to make."""

    crc: int
    codec: int  # a number: one that this program does not know must be told, not crash the parser
    columns: int
    count: int
    size: int
    plain_size: int
    largest: int
    epoch: int
    topic_id: int
    queue: int
    producer_id: int
    first_sequence: int
    base_timestamp_ms: int

    @classmethod
    def parse(cls, data: Buffer) -> BatchHeader:
        """The header at the front of `data`. Refuses other magic numbers and versions; looks at nothing else."""
        if len(data) < HEADER_BYTES:
            raise CorruptBatchError(f"A batch of {len(data)} bytes is shorter than its header ({HEADER_BYTES} bytes).")
        magic, crc, version, *fields = _FIXED.unpack_from(data)
        if magic != MAGIC:
            raise CorruptBatchError(f"Bytes that begin with {magic:#010x} are no batch (which begins {MAGIC:#010x}).")
        if version != VERSION:
            raise UnsupportedBatchError(
                f"A batch has format version {version}; this program knows {VERSION}: upgrade it, or the producer."
            )
        return cls(crc, *fields)

    def pack(self) -> bytes:
        """The header's 64 bytes, with `crc` as it stands here."""
        return _FIXED.pack(
            MAGIC,
            self.crc,
            VERSION,
            self.codec,
            self.columns,
            self.count,
            self.size,
            self.plain_size,
            self.largest,
            self.epoch,
            self.topic_id,
            self.queue,
            self.producer_id,
            self.first_sequence,
            self.base_timestamp_ms,
        )

    @property
    def payload_position(self) -> int:
        """Where the payload begins, counted from the batch's first byte."""
        hash_columns = (self.columns & TAGS != 0) + (self.columns & KEYS != 0)
        return HEADER_BYTES + 8 * self.count * hash_columns


def place_of(data: Buffer) -> tuple[int, int]:
    """Topic id and queue, as they stand in what is given out to be a batch: nothing is looked at but they. (0, 0) where
    there is no room for a header."""
    return _PLACE.unpack_from(data, _PLACE_POSITION) if len(data) >= HEADER_BYTES else (0, 0)


def seal(header: bytes, *parts: Buffer) -> bytes:
    """A whole batch: this header, its CRC set, and the parts behind it. Copies every part once."""
    crc: int = google_crc32c.value(header[_CRC_FROM:])
    for part in parts:
        crc = google_crc32c.extend(crc, np.frombuffer(part, np.uint8))
    return b"".join((header[:_CRC_POSITION], _CRC.pack(crc), header[_CRC_FROM:], *parts))


def crc_of(data: Buffer) -> int:
    """The CRC32C that a batch of these bytes must have in its header."""
    return int(google_crc32c.value(np.frombuffer(data, np.uint8, offset=_CRC_FROM)))


def tag_hashes(data: Buffer, header: BatchHeader | None = None) -> NDArray[np.int64] | None:
    """Each message's tag hash (0: no tag), a view of `data`; None if no message has a tag. `header`: if known."""
    header = header or BatchHeader.parse(data)
    if not header.columns & TAGS:
        return None
    return np.frombuffer(data, "<i8", header.count, HEADER_BYTES)


def key_hashes(data: Buffer, header: BatchHeader | None = None) -> NDArray[np.uint64] | None:
    """Each message's key hash (0: no key), a view of `data`; None if no message has a key. `header`: if known."""
    header = header or BatchHeader.parse(data)
    if not header.columns & KEYS:
        return None
    return np.frombuffer(data, "<u8", header.count, header.payload_position - 8 * header.count)
