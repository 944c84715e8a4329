"""A batch begins with a fixed header, hash columns and columns of special batches. A broker needs only these to store a
batch and to find its messages.

The producer encodes a batch once, and the broker stores it unchanged. The fields that a broker needs are at the front
of the batch and are never compressed. All numbers are little-endian. Every buffer begins at a multiple of 8 bytes and
is padded with zeros.

      0        magic u32         "LMQB"
      4        crc u32           CRC32C of all that follows: [8, size)
      8        version u8 | codec u8 | columns u16     (columns: the bits KEYS to MESSAGE_IDS below)
     12        count u32         messages: 1..65,535
     16        size u32          of the whole batch, header included
     20        plain size u32    of the payload before compression; at most 64 MiB
     24        largest u32       size of the largest body, in bytes
     28        epoch u32
     32        topic id u32
     36        queue u32
     40        producer id u64
     48        first sequence u64
     56        base timestamp i64, ms
     64        tag hashes i64[count]      if TAGS; 0: no tag
               key hashes u64[count]      if KEYS; 0: no key
               n u64 | look-up hashes u64[n]     if LOOK_UP_KEYS: one hash for each look-up key of each message
               target topic id u32 | target queue u32 | delivery times i64[count], ms     if TIMED. See timed.py
               identities u64[count] | delivery times i64[count], ms     if FIRED
               identities u64[count]      if COPIED
               96 bytes about the transaction      if HALF. See transactions.py
               24 bytes about the transaction      if DECIDED. See transactions.py
               places u16[count]          if CUT: the places of the messages in the batch that was cut
               message ids, 16 bytes[count]      if MESSAGE_IDS: xxh3-128 of the id of each message
               payload                    compressed by the codec; to the end of the batch. See columns.py

The CRC covers topic id and queue, so a batch that arrives at the wrong queue is detected. A log stores no cut batches:
a node makes them for consumers (cut.py).
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
TIMED = 1 << 4
FIRED = 1 << 5
COPIED = 1 << 6
CUT = 1 << 7
HALF = 1 << 8
DECIDED = 1 << 9
LOOK_UP_KEYS = 1 << 10
MESSAGE_IDS = 1 << 11
ALL_COLUMNS = (
    KEYS | TAGS | HEADERS | TIMESTAMPS | TIMED | FIRED | COPIED | CUT | HALF | DECIDED | LOOK_UP_KEYS | MESSAGE_IDS
)
# Columns of special batches. A batch has one of these combinations.
EXCLUSIVE_COLUMNS = TIMED | FIRED | COPIED | CUT | HALF | DECIDED
EXCLUSIVE_COMBINATIONS = frozenset((0, TIMED, FIRED, TIMED | COPIED, CUT, HALF, DECIDED))
# Only producers give messages ids, so a batch of the broker has none.
WITHOUT_MESSAGE_IDS = FIRED | COPIED | CUT | DECIDED

# The name of a producer group in the column HALF, and the whole columns.
HALF_GROUP_BYTES = 64
HALF_BYTES = 32 + HALF_GROUP_BYTES
DECIDED_BYTES = 24
MESSAGE_ID_BYTES = 16

MAX_COUNT = 65_535
MAX_PLAIN_BYTES = 64 << 20

_FIXED = struct.Struct("<IIBBHIIIIIIIQQq")
_CRC = struct.Struct("<I")
_PLACE = struct.Struct("<II")
_PLACE_POSITION = 32
_PRODUCER_POSITION = 40
_NUMBER = struct.Struct("<Q")
_PLAIN_SIZE_POSITION = 20
_SIZE = struct.Struct("<I")
_CRC_POSITION = 4
_CRC_FROM = 8
HEADER_BYTES = _FIXED.size
assert HEADER_BYTES == 64
# The header as a numpy type, to parse many headers at once.
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
    """The fields of the fixed header.

    `parse` reads only the header, and the number of look-up hashes, which stands behind the other hashes.
    `ledger.batch.check` compares the header with the rest of the batch. Treat the fields of a header as constants. The
    class is not `frozen`, because a frozen dataclass takes four times as long to create."""

    crc: int
    # A number and not a `Codec`, so that a codec that this program does not know is reported by `check`.
    codec: int
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
    # How many hashes of look-up keys the batch has. Not part of the 64 bytes.
    look_up_hash_count: int = 0

    @classmethod
    def parse(cls, data: Buffer) -> BatchHeader:
        """Return the header at the front of `data`. `parse` checks only the length, the magic number and the
        version. Raises CorruptBatchError, UnsupportedBatchError."""
        if len(data) < HEADER_BYTES:
            raise CorruptBatchError(f"A batch of {len(data)} bytes is shorter than its header ({HEADER_BYTES} bytes).")
        magic, crc, version, *fields = _FIXED.unpack_from(data)
        if magic != MAGIC:
            raise CorruptBatchError(
                f"These bytes are not a batch: they begin with {magic:#010x}, and a batch begins with {MAGIC:#010x}."
            )
        if version != VERSION:
            raise UnsupportedBatchError(
                f"A batch has format version {version}, and this program knows version {VERSION}: upgrade the older "
                f"program."
            )
        header = cls(crc, *fields)
        if header.columns & LOOK_UP_KEYS:
            header.look_up_hash_count = _look_up_hash_count(data, header.columns, header.count)
        return header

    def pack(self) -> bytes:
        """Return the 64 bytes of the header. The field `crc` is written as it is and not computed."""
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
    def hashes_end(self) -> int:
        """The position of the first byte after the hash columns, counted from the first byte of the batch."""
        return hashes_end(self.columns, self.count, self.look_up_hash_count)

    @property
    def payload_position(self) -> int:
        """The position of the payload in bytes, counted from the first byte of the batch."""
        position = self.hashes_end
        if self.columns & TIMED:
            position += 8 + 8 * self.count
        if self.columns & FIRED:
            position += 16 * self.count
        if self.columns & COPIED:
            position += 8 * self.count
        if self.columns & HALF:
            position += HALF_BYTES
        if self.columns & DECIDED:
            position += DECIDED_BYTES
        if self.columns & CUT:
            position += padded(2 * self.count)
        if self.columns & MESSAGE_IDS:
            position += MESSAGE_ID_BYTES * self.count
        return position


def hashes_end(columns: int, count: int, look_up_hash_count: int) -> int:
    """Return the position of the first byte after the hash columns of a batch with these columns, `count` messages, and
    `look_up_hash_count` hashes of look-up keys."""
    end = HEADER_BYTES + 8 * count * ((columns & TAGS != 0) + (columns & KEYS != 0))
    return end + _NUMBER.size + 8 * look_up_hash_count if columns & LOOK_UP_KEYS else end


def hashes_end_in(data: Buffer, columns: int, count: int) -> int:
    """Return the position of the first byte after the hash columns of the batch `data`. Raises CorruptBatchError if the
    batch ends before its number of look-up hashes."""
    more = _look_up_hash_count(data, columns, count) if columns & LOOK_UP_KEYS else 0
    return hashes_end(columns, count, more)


def _look_up_hash_count(data: Buffer, columns: int, count: int) -> int:
    position = hashes_end(columns & ~LOOK_UP_KEYS, count, 0)
    if len(data) < position + _NUMBER.size:
        raise CorruptBatchError(f"A batch of {len(data)} bytes ends before its number of look-up hashes.")
    number: int = _NUMBER.unpack_from(data, position)[0]
    return number


def padded(size: int) -> int:
    """Return the size of a buffer of `size` bytes with its padding."""
    return size + -size % 8


def place_of(data: Buffer) -> tuple[int, int]:
    """Read the topic id and the queue of a batch, without checking that the bytes are a valid batch. If the bytes
    are shorter than a header, return (0, 0)."""
    return _PLACE.unpack_from(data, _PLACE_POSITION) if len(data) >= HEADER_BYTES else (0, 0)


def plain_size_of(data: Buffer) -> int:
    """Read the size that a batch states for its payload before compression, in bytes, as `place_of` reads its place. If
    the bytes are shorter than a header, return 0."""
    size: int = _SIZE.unpack_from(data, _PLAIN_SIZE_POSITION)[0] if len(data) >= HEADER_BYTES else 0
    return size


def producer_of(data: Buffer) -> int:
    """Read the producer id of a batch, as `place_of` reads its place. If the bytes are shorter than a header, return
    0."""
    number: int = _NUMBER.unpack_from(data, _PRODUCER_POSITION)[0] if len(data) >= HEADER_BYTES else 0
    return number


def seal(header: bytes, *parts: Buffer) -> bytes:
    """Return a complete batch: the header with its CRC set, followed by the parts. Every part is copied once."""
    crc: int = google_crc32c.value(header[_CRC_FROM:])
    for part in parts:
        crc = google_crc32c.extend(crc, np.frombuffer(part, np.uint8))
    return b"".join((header[:_CRC_POSITION], _CRC.pack(crc), header[_CRC_FROM:], *parts))


def crc_of(data: Buffer) -> int:
    """Compute the CRC32C of a batch. The header of an intact batch states the same value."""
    return int(google_crc32c.value(np.frombuffer(data, np.uint8, offset=_CRC_FROM)))


def tag_hashes(data: Buffer, header: BatchHeader | None = None) -> NDArray[np.int64] | None:
    """Return the tag hash of each message as a view of `data`, or None if no message has a tag. The hash 0 means
    that the message has no tag. If `header` is None, parse the header of `data`."""
    header = header or BatchHeader.parse(data)
    if not header.columns & TAGS:
        return None
    return np.frombuffer(data, "<i8", header.count, HEADER_BYTES)


def key_hashes(data: Buffer, header: BatchHeader | None = None) -> NDArray[np.uint64] | None:
    """Return the key hash of each message as a view of `data`, or None if no message has a key. The hash 0 means
    that the message has no key. If `header` is None, parse the header of `data`."""
    header = header or BatchHeader.parse(data)
    if not header.columns & KEYS:
        return None
    return np.frombuffer(data, "<u8", header.count, HEADER_BYTES + (8 * header.count if header.columns & TAGS else 0))


def look_up_hashes(data: Buffer, header: BatchHeader | None = None) -> NDArray[np.uint64] | None:
    """Return the hashes of the look-up keys of all messages as a view of `data`, or None if no message has a look-up
    key. If `header` is None, parse the header of `data`."""
    header = header or BatchHeader.parse(data)
    if not header.columns & LOOK_UP_KEYS:
        return None
    count = header.look_up_hash_count
    return np.frombuffer(data, "<u8", count, header.hashes_end - 8 * count)


def indexed_hashes(data: Buffer, header: BatchHeader | None = None) -> NDArray[np.uint64] | None:
    """Return the hashes of all keys and look-up keys of a batch, by which the key index finds it. The hash 0 stands for
    no key. Return None if no message has a key. If `header` is None, parse the header of `data`."""
    header = header or BatchHeader.parse(data)
    keys, more = key_hashes(data, header), look_up_hashes(data, header)
    if keys is None or more is None:
        return more if keys is None else keys
    return np.concatenate((keys, more))


def encoded_look_up_hashes(hashes: NDArray[np.uint64]) -> bytes:
    """Return the bytes of the column of look-up hashes."""
    return _NUMBER.pack(len(hashes)) + hashes.astype("<u8").tobytes()


def message_ids(data: Buffer, header: BatchHeader) -> list[bytes] | None:
    """Return the hash of the id of each message, 16 bytes each, or None if the messages have no ids."""
    if not header.columns & MESSAGE_IDS:
        return None
    end = header.payload_position
    places = range(end - MESSAGE_ID_BYTES * header.count, end, MESSAGE_ID_BYTES)
    return [bytes(data[place : place + MESSAGE_ID_BYTES]) for place in places]


def cut_places(data: Buffer, header: BatchHeader) -> NDArray[np.uint16] | None:
    """Return the place of each message in the batch that was cut, as a view of `data`. Return None if the batch is not
    cut: then its messages have the places 0, 1, 2, ..."""
    if not header.columns & CUT:
        return None
    return np.frombuffer(data, "<u2", header.count, header.payload_position - padded(2 * header.count))
