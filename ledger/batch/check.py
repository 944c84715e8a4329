"""What a broker checks of a batch before it accepts the batch.

Everything that is visible without decompressing is checked here. Readers check a compressed payload (decode.py), with
the same functions. A broker knows only the largest body of a compressed batch, so producers enforce the header limits.
"""

from __future__ import annotations

import numpy as np

from ledger.batch.columns import Columns, HeaderColumn
from ledger.batch.header import ALL_COLUMNS, MAX_COUNT, MAX_PLAIN_BYTES, BatchHeader, crc_of
from ledger.codec import Codec
from ledger.errors import CorruptBatchError, InvalidArgumentError, MessageTooLargeError, UnsupportedBatchError
from ledger.limits import validate_headers

# What a batch of many small messages needs beside their bodies: offsets, hashes, keys, tags, headers.
BATCH_OVERHEAD_BYTES = 1 << 20

_CODECS = frozenset(map(int, Codec))


def largest_batch(max_message_bytes: int) -> int:
    """The most bytes that a batch may have where a body may have `max_message_bytes`."""
    return max_message_bytes + BATCH_OVERHEAD_BYTES


def check(data: bytes, max_message_bytes: int, *, max_batch_bytes: int | None = None) -> BatchHeader:
    """The header of a batch that may be appended. Raises CorruptBatchError, UnsupportedBatchError,
    MessageTooLargeError, TooManyHeadersError or HeadersTooLargeError.

    `max_batch_bytes` (default: `largest_batch`) bounds the whole; more than that is InvalidArgumentError.
    """
    header = BatchHeader.parse(data)
    check_integrity(data, header)
    limit = largest_batch(max_message_bytes) if max_batch_bytes is None else max_batch_bytes
    if header.largest > max_message_bytes:
        raise MessageTooLargeError(
            f"A message of {header.largest} bytes is over the limit of {max_message_bytes}: "
            "split it, or raise the limit."
        )
    if len(data) > limit:
        raise InvalidArgumentError(f"A batch of {len(data)} bytes is over the limit of {limit}: make smaller batches.")
    if header.codec == Codec.NONE:
        columns = verified_columns(data, header.payload_position, header)
        if columns.headers is not None:
            _check_headers(columns.headers)
    return header


def _check_headers(column: HeaderColumn) -> None:
    """Of the message that has most, and of the one whose are largest."""
    edges = column.offsets
    bytes_before = column.names.offsets[edges].astype(np.int64) + column.values.offsets[edges]
    validate_headers(int(np.diff(edges).max()), int(np.diff(bytes_before).max()))


def check_integrity(data: bytes, header: BatchHeader) -> None:
    """Raise unless the batch is whole, unaltered, and of a kind that this program can read."""
    if header.size != len(data):
        raise CorruptBatchError(f"A batch says that it has {header.size} bytes, but {len(data)} came.")
    if header.crc != (crc := crc_of(data)):
        raise CorruptBatchError(
            f"The CRC32C of a batch is {crc:#010x}; its header says {header.crc:#010x}: send it again."
        )
    check_header(header)


def check_header(header: BatchHeader) -> None:
    """Raise where the fields of the header are beyond what this program knows, or contradict each other."""
    if header.codec not in _CODECS:
        raise UnsupportedBatchError(f"A batch is compressed with codec {header.codec}, unknown to this program.")
    if unknown := header.columns & ~ALL_COLUMNS:
        raise UnsupportedBatchError(f"A batch has columns ({unknown:#x}) that this program does not know.")
    if not 1 <= header.count <= MAX_COUNT:
        raise CorruptBatchError(f"A batch claims {header.count} messages: 1 to {MAX_COUNT} are possible.")
    if header.plain_size > MAX_PLAIN_BYTES:
        raise CorruptBatchError(f"A batch claims a payload of {header.plain_size} bytes: at most {MAX_PLAIN_BYTES}.")
    # The offsets of bodies alone take 4 bytes a message, and one more.
    if header.largest + 4 * (header.count + 1) > header.plain_size:
        raise CorruptBatchError(
            f"A batch claims {header.count} messages, the largest of {header.largest} bytes, "
            f"in a payload of {header.plain_size}."
        )
    stored = header.size - header.payload_position
    if stored <= 0 or (header.codec == Codec.NONE and stored != header.plain_size):
        raise CorruptBatchError(
            f"A batch of {header.size} bytes and {header.count} messages has {stored} bytes of payload; "
            f"its header says {header.plain_size}."
        )


def verified_columns(plain: bytes, start: int, header: BatchHeader) -> Columns:
    """The columns of the payload at plain[start:], verified against each other and the header."""
    end = start + header.plain_size
    columns = Columns.read(plain, start, end, count=header.count, present=header.columns)
    if (largest := columns.bodies.longest()) != header.largest:
        raise CorruptBatchError(
            f"The largest message of a batch has {largest} bytes; its header says {header.largest}."
        )
    return columns
