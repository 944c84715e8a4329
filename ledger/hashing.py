"""The hashes that are stored: of keys, which select queues and index messages, and of tags, which filter messages.

The hash is xxh3-64 with seed 0, equal in every process, version and language. 0 means "no key" or "no tag", so an array
of hashes needs no bitmap.
"""

from __future__ import annotations

import xxhash

NO_HASH = 0


def key_hash(key: bytes) -> int:
    """xxh3-64 of a key as an unsigned 64-bit number, never 0 (the one key in 2**64 whose hash is 0 gets 1)."""
    return xxhash.xxh3_64_intdigest(key) or 1


def tag_hash(tag: str) -> int:
    """xxh3-64 of a tag's UTF-8 as a signed 64-bit number (ConsumeQueue units and Arrow hold int64), never 0."""
    digest = xxhash.xxh3_64_intdigest(tag.encode()) or 1
    return digest - (1 << 64) if digest >> 63 else digest


def queue_of(key: bytes, queues: int) -> int:
    """The queue, of so many, to which messages with this key go."""
    return key_hash(key) % queues
