"""The units of one lane that have a tombstone, as one bit for each unit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from store.index.timed_unit import Flags, Identities

_ONES = np.left_shift(np.uint8(1), np.arange(8, dtype=np.uint8))


class Tombstones:
    """Which units of a lane have a tombstone. Memory is needed up to the last unit with a tombstone."""

    __slots__ = ("_bits",)

    def __init__(self) -> None:
        self._bits: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)

    def add(self, numbers: Identities) -> None:
        """Note that these units have a tombstone."""
        if not len(numbers):
            return
        places = (numbers >> np.uint64(3)).astype(np.int64)
        needed = int(places.max()) + 1
        if needed > len(self._bits):
            grown = np.zeros(max(needed, 2 * len(self._bits)), np.uint8)
            grown[: len(self._bits)] = self._bits
            self._bits = grown
        np.bitwise_or.at(self._bits, places, _ONES[(numbers & np.uint64(7)).astype(np.int64)])

    def has(self, number: int) -> bool:
        return number >> 3 < len(self._bits) and bool(self._bits[number >> 3] >> (number & 7) & 1)

    def absent(self, first: int, count: int) -> Flags:
        """Return which of the units first .. first + count - 1 have no tombstone."""
        flags = np.ones(count, np.bool_)
        bits = np.unpackbits(self._bits[first >> 3 : (first + count + 7) >> 3], bitorder="little")
        known = bits[first & 7 : (first & 7) + count]
        flags[: len(known)] = known == 0
        return flags
