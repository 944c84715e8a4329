"""Payloads: random bytes, no two alike, of 1 byte to the largest; most are small, as messages are."""

from __future__ import annotations

from random import Random

# Share of the messages, and their largest size.
_SIZES = ((0.90, 512), (0.09, 8 << 10), (0.009, 128 << 10), (0.001, 1 << 20))


def payload(random: Random, largest_bytes: int) -> bytes:
    """The next one. (Of 1 byte there are only 256: they are told apart by their numbers.)"""
    (most,) = random.choices([size for _, size in _SIZES], [share for share, _ in _SIZES])
    return random.randbytes(random.randint(1, min(most, largest_bytes)))
