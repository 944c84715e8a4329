"""CRC32C of many pairs of numbers at once: the chains of entries.

    chain of entry i  =  CRC32C(chain of entry i - 1, crc of entry i), two u32, little-endian

A CRC is linear, so that of 8 bytes is four look-ups, one for each 2 of them, and numpy does each look-up for all
entries together. The tables are made from the library's own CRC, which is the definition.
"""

from __future__ import annotations

from functools import cache

import google_crc32c
import numpy as np
import numpy.typing as npt

U32 = npt.NDArray[np.uint32]

_BYTES = 8
_NOTHING = google_crc32c.value(bytes(_BYTES))


@cache
def _tables() -> npt.NDArray[np.uint32]:
    """[4, 65536]: for each place of two bytes among eight, what they do to the CRC there."""
    by_byte = np.array([[_effect(place, byte) for byte in range(256)] for place in range(_BYTES)], np.uint32)
    low, high = np.arange(1 << 16) & 0xFF, np.arange(1 << 16) >> 8
    return np.stack([by_byte[place][low] ^ by_byte[place + 1][high] for place in range(0, _BYTES, 2)])


def _effect(place: int, byte: int) -> int:
    value: int = google_crc32c.value(bytes(place) + bytes([byte]) + bytes(_BYTES - 1 - place)) ^ _NOTHING
    return value


def chained_all(chains: U32, crcs: U32) -> U32:
    """For each pair, the chain of an entry with this crc that follows one with that chain."""
    low = np.uint32(0xFFFF)
    chain_low, chain_high, crc_low, crc_high = _tables()
    found: U32 = chain_low.take(chains & low)
    found ^= chain_high.take(chains >> 16)
    found ^= crc_low.take(crcs & low)
    found ^= crc_high.take(crcs >> 16)
    found ^= np.uint32(_NOTHING)
    return found
