"""Decodes a batch to the values of its messages, or to numpy arrays of its columns.

A column is converted to Python objects only when a caller asks for it. The arrays are views of the uncompressed
payload, not copies.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ledger.batch.check import check_header, check_integrity, decoded_columns, verified_places
from ledger.batch.columns import Columns, Headers
from ledger.batch.header import BatchHeader, Buffer


class Batch:
    """A decoded batch.

    The constructor checks the whole structure of the batch and raises CorruptBatchError or UnsupportedBatchError. Pass
    `check_crc=False` if the CRC of `data` has been checked already. The payload is decompressed once, to exactly the
    size that the header states. If the header states more than 64 MiB, the constructor raises CorruptBatchError.

    A node can cut a batch for a consumer that wants only some of its messages (`ledger.batch.cut`). A cut batch is a
    batch with fewer messages, and `places` has their places in the stored batch.
    """

    __slots__ = ("_columns", "data", "header", "places")

    def __init__(self, data: Buffer, *, check_crc: bool = True) -> None:
        # The bytes of the batch.
        self.data = data = data if isinstance(data, bytes) else bytes(data)
        self.header = header = BatchHeader.parse(data)
        if check_crc:
            check_integrity(data, header)
        else:
            check_header(header, len(data))
        # The place of each message in the stored batch, in ascending order. None: 0, 1, 2, ..., all messages.
        self.places: NDArray[np.uint16] | None = verified_places(data, header)
        self._columns = decoded_columns(data, header)

    def __len__(self) -> int:
        return self.header.count

    def offsets_from(self, base_offset: int) -> NDArray[np.int64]:
        """Return the offset in the queue of each message. `base_offset` is the offset of the first message of the
        stored batch."""
        return base_offset + (np.arange(len(self)) if self.places is None else self.places.astype(np.int64))

    def first_from(self, place: int) -> int:
        """Return how many messages of the batch are before this place of the stored batch."""
        if self.places is None:
            return min(max(place, 0), len(self))
        return int(np.searchsorted(self.places, place))

    @property
    def columns(self) -> Columns:
        """All columns of the batch, as views of its uncompressed payload."""
        return self._columns

    @property
    def offsets(self) -> NDArray[np.int32]:
        """The positions of the messages in `bodies`: message i occupies [offsets[i], offsets[i + 1]). A view."""
        return self._columns.bodies.offsets

    @property
    def bodies(self) -> NDArray[np.uint8]:
        """The bytes of all message bodies, one body directly after the other. A view."""
        return self._columns.bodies.data

    def values(self) -> list[bytes]:
        """Return the body of each message."""
        return self._columns.bodies.strings()

    def keys(self) -> list[bytes | None]:
        """Return the key of each message, None for a message without a key."""
        keys = self._columns.keys
        return [None] * len(self) if keys is None else keys.optional_strings()

    def tags(self) -> list[str | None]:
        """Return the tag of each message, None for a message without a tag."""
        return [None] * len(self) if self._columns.tags is None else self._columns.tag_texts()

    def headers(self) -> list[Headers]:
        """Return the headers of each message, () for a message without headers."""
        headers = self._columns.headers
        return [()] * len(self) if headers is None else headers.lists()

    def look_up_keys(self) -> list[tuple[bytes, ...]]:
        """Return the look-up keys of each message, () for a message without look-up keys."""
        column = self._columns.look_up_keys
        return [()] * len(self) if column is None else column.lists()

    def timestamps_ms(self) -> list[int]:
        """Return the timestamp of each message, in ms since 1970."""
        deltas = self._columns.timestamp_deltas
        if deltas is None:
            return [self.header.base_timestamp_ms] * len(self)
        return list((deltas + np.int64(self.header.base_timestamp_ms)).tolist())
