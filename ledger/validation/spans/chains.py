"""Computes the chains of many entries at once, as the CRC32C of many pairs of numbers.

    chain of entry i  =  CRC32C(chain of entry i - 1, crc of entry i), two u32, little-endian

A CRC is a linear function, so the CRC of 8 bytes is the XOR of four values from tables, one value for each 2 bytes.
numpy does each look-up for all entries at once. The CRC library computes the tables, so the tables and the library
always agree.
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
    """Return a table of shape [4, 65536]: for each of the four places and each value of two bytes, the change of
    the CRC."""
    by_byte = np.array([[_effect(place, byte) for byte in range(256)] for place in range(_BYTES)], np.uint32)
    low, high = np.arange(1 << 16) & 0xFF, np.arange(1 << 16) >> 8
    return np.stack([by_byte[place][low] ^ by_byte[place + 1][high] for place in range(0, _BYTES, 2)])


def _effect(place: int, byte: int) -> int:
    value: int = google_crc32c.value(bytes(place) + bytes([byte]) + bytes(_BYTES - 1 - place)) ^ _NOTHING
    return value


def chained_all(chains: U32, crcs: U32) -> U32:
    """Return for each pair (chain, crc) the chain of an entry with this CRC that follows an entry with this chain."""
    low = np.uint32(0xFFFF)
    chain_low, chain_high, crc_low, crc_high = _tables()
    found: U32 = chain_low.take(chains & low)
    found ^= chain_high.take(chains >> 16)
    found ^= crc_low.take(crcs & low)
    found ^= crc_high.take(crcs >> 16)
    found ^= np.uint32(_NOTHING)
    return found
