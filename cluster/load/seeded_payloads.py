"""Creates random payloads from a seed: with different sizes, or all with the same size. The payloads cannot be
compressed.

This module needs nothing but the standard library, because the load processes of bench/peers import it. Load processes
for other message systems run where only the clients of these systems are installed.
"""

from __future__ import annotations

from random import Random

# Share of the messages, and their largest size. Most messages are small.
_SIZES = ((0.90, 512), (0.09, 8 << 10), (0.009, 128 << 10), (0.001, 1 << 20))
_BLOCK_BYTES = 1 << 20


def mixed_payload(random: Random, largest_bytes: int) -> bytes:
    """Return the next random payload, with a size from 1 to `largest_bytes` bytes. Two payloads of only a few bytes
    can be equal."""
    (most,) = random.choices([size for _, size in _SIZES], [share for share, _ in _SIZES])
    return random.randbytes(random.randint(1, min(most, largest_bytes)))


def same_size_payloads(random: Random, count: int, size: int) -> list[bytes]:
    """Return `count` different payloads of `size` bytes each."""
    found: list[bytes] = []
    block = max(1, _BLOCK_BYTES // size)
    while len(found) < count:
        data = random.randbytes(size * min(block, count - len(found)))
        found += [data[at : at + size] for at in range(0, len(data), size)]
    return found
