"""Byte strings of one column as two numpy arrays: offsets and bytes. Arrow's LargeBinary has the same layout.

A table of millions of rows becomes batches without a Python object for each row.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledger.hashing import NO_HASH, hashes_of_keys


@dataclass(frozen=True, slots=True)
class Strings:
    """String i is data[offsets[i]:offsets[i + 1]]. If `valid` is None, every string exists; otherwise string i exists
    if valid[i]. A string that does not exist is empty."""

    offsets: NDArray[np.int64]
    data: NDArray[np.uint8]
    valid: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def part(self, start: int, stop: int) -> Strings:
        """Return the strings start to stop - 1. Nothing is copied."""
        return Strings(
            self.offsets[start : stop + 1], self.data, None if self.valid is None else self.valid[start:stop]
        )

    def taken(self, places: NDArray[np.int64]) -> Strings:
        """Return a copy of the strings at `places`, in this order."""
        valid = None if self.valid is None else self.valid[places]
        if (arrow := loaded_arrow()) is not None:
            return Strings(*_buffers(_as_arrow(arrow, self).take(arrow.array(places))), valid)
        lengths = self.lengths[places]
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        sources = np.repeat(self.offsets[:-1][places] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Strings(offsets, self.data[sources], valid)

    def list(self) -> list[bytes | None]:
        """Return the strings as Python objects, None for a string that does not exist."""
        first = int(self.offsets[0])
        source = self.data[first : int(self.offsets[-1])].tobytes()
        edges = (self.offsets - first).tolist()
        strings = [source[start:end] for start, end in zip(edges, edges[1:], strict=False)]  # noqa: RUF007
        if self.valid is None:
            return list[bytes | None](strings)
        return [one if there else None for one, there in zip(strings, self.valid.tolist(), strict=True)]

    def hashes(self) -> NDArray[np.uint64]:
        """Return key_hash of each string; NO_HASH for a string that does not exist. If the program uses pyarrow, each
        distinct string is hashed once."""
        arrow = loaded_arrow()
        hashes = hashes_of_keys([one or b"" for one in self.list()]) if arrow is None else self._hashes(arrow)
        if self.valid is not None:
            hashes[~self.valid] = NO_HASH
        return hashes

    def _hashes(self, arrow: Any) -> NDArray[np.uint64]:
        encoded = _as_arrow(arrow, self).dictionary_encode()
        places: NDArray[np.int32] = encoded.indices.to_numpy()
        return hashes_of_keys(encoded.dictionary.to_pylist())[places]


def from_arrow(column: Any) -> Strings:
    """Return the strings of an Arrow array or chunked array of binary or text. Raises an error of pyarrow for a column
    of another type."""
    pyarrow = sys.modules["pyarrow"]  # the program has loaded it, because it has this column
    column = column.cast(pyarrow.large_binary())
    if isinstance(column, pyarrow.ChunkedArray):
        column = column.combine_chunks()
    if not column.null_count:
        return Strings(*_buffers(column))
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return Strings(*_buffers(column.fill_null(b"")), valid)  # Arrow allows a null to have bytes


def loaded_arrow() -> Any:
    """Return the module pyarrow if this program has loaded it, and None otherwise. Loading it takes a third of a
    second, so the client never does so by itself."""
    return sys.modules.get("pyarrow")


def _as_arrow(arrow: Any, strings: Strings) -> Any:
    buffers = [None, arrow.py_buffer(np.ascontiguousarray(strings.offsets)), arrow.py_buffer(strings.data)]
    return arrow.Array.from_buffers(arrow.large_binary(), len(strings), buffers)


def _buffers(array: Any) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    _, offsets, data = array.buffers()
    count = len(array)
    if not count:
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    edges = np.frombuffer(offsets, "<i8", count + 1, 8 * array.offset)
    return edges, np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
