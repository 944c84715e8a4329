"""A batch as its reader sees it: messages, or columns as arrays.

A column becomes Python objects only on request. Its arrays are views of the batch's own bytes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ledger.batch.check import check_header, check_integrity, verified_columns
from ledger.batch.columns import Columns, Headers
from ledger.batch.header import BatchHeader, Buffer
from ledger.codec import Codec, decompress
from ledger.errors import CorruptBatchError


class Batch:
    """A decoded batch. Everything that can be wrong with its structure is refused on construction.

    `check_crc=False` is for bytes whose CRC has been checked already. A payload is decompressed once, to exactly the
    size that the header states, which is at most 64 MiB.
    """

    __slots__ = ("_columns", "header")

    def __init__(self, data: Buffer, *, check_crc: bool = True) -> None:
        data = data if isinstance(data, bytes) else bytes(data)
        self.header = header = BatchHeader.parse(data)
        if check_crc:
            check_integrity(data, header)
        elif header.size != len(data):
            raise CorruptBatchError(f"A batch says that it has {header.size} bytes, but {len(data)} came.")
        else:
            check_header(header)
        if header.codec == Codec.NONE:
            self._columns = verified_columns(data, header.payload_position, header)
        else:
            payload = memoryview(data)[header.payload_position :]
            plain = decompress(Codec(header.codec), payload, header.plain_size)
            self._columns = verified_columns(plain, 0, header)

    def __len__(self) -> int:
        return self.header.count

    @property
    def columns(self) -> Columns:
        """All columns: views, for those who hand them on as they are."""
        return self._columns

    @property
    def offsets(self) -> NDArray[np.int32]:
        """Where bodies begin and end in `bodies`: message i is [offsets[i], offsets[i + 1]). A view."""
        return self._columns.bodies.offsets

    @property
    def bodies(self) -> NDArray[np.uint8]:
        """The bytes of all bodies together. A view."""
        return self._columns.bodies.data

    def values(self) -> list[bytes]:
        """Every body."""
        return self._columns.bodies.strings()

    def keys(self) -> list[bytes | None]:
        """Every key, None where there is none."""
        keys = self._columns.keys
        return [None] * len(self) if keys is None else keys.optional_strings()

    def tags(self) -> list[str | None]:
        """Every tag, None where there is none."""
        return [None] * len(self) if self._columns.tags is None else self._columns.tag_texts()

    def headers(self) -> list[Headers]:
        """Every message's headers, () where there are none."""
        headers = self._columns.headers
        return [()] * len(self) if headers is None else headers.lists()

    def timestamps_ms(self) -> list[int]:
        """Every message's timestamp, in ms."""
        deltas = self._columns.timestamp_deltas
        if deltas is None:
            return [self.header.base_timestamp_ms] * len(self)
        return list((deltas + np.int64(self.header.base_timestamp_ms)).tolist())
