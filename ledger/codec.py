"""Compression of a batch's payload, and decompression with a limit on the size of the result.

The caller of `decompress` states the size of the result. `decompress` returns exactly as many bytes as the caller
stated, or raises CorruptBatchError. A small payload that claims to decompress to gigabytes cannot make `decompress`
allocate gigabytes.
"""

from __future__ import annotations

from enum import IntEnum

import lz4.block
import zstandard

from ledger.errors import CorruptBatchError, InvalidArgumentError

_ZSTD_LEVEL = 1


class Codec(IntEnum):
    """The codec's number in a batch's header."""

    NONE = 0
    LZ4 = 1  # one block, without lz4's own length in front
    ZSTD = 2  # one frame that states its content size

    @classmethod
    def named(cls, name: str | None) -> Codec:
        """Return the codec that a setting names. The setting is "lz4", "zstd", or None for no compression. Raises
        InvalidArgumentError for any other name."""
        if name is None:
            return cls.NONE
        try:
            return cls[name.upper()]
        except KeyError:
            raise InvalidArgumentError(f"Compression {name!r} is not known: use 'lz4', 'zstd' or none.") from None


def compress(codec: Codec, plain: bytes) -> bytes:
    """Return `plain` compressed with `codec`; Codec.NONE returns `plain` unchanged."""
    match codec:
        case Codec.NONE:
            return plain
        case Codec.LZ4:
            return bytes(lz4.block.compress(plain, store_size=False))
        case Codec.ZSTD:
            return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(plain)


def decompress(codec: Codec, data: bytes | memoryview, size: int) -> bytes:
    """Return exactly `size` decompressed bytes, or raise CorruptBatchError.

    The function allocates at most `size` bytes for the result, even if `data` claims a larger size.
    """
    try:
        plain = _decompress(codec, data, size)
    except (lz4.block.LZ4BlockError, zstandard.ZstdError) as error:
        raise CorruptBatchError(f"The payload of a batch cannot be decompressed as {codec.name}: {error}.") from error
    if len(plain) != size:
        raise CorruptBatchError(
            f"The payload of a batch has {len(plain)} bytes when decompressed as {codec.name}; its header says {size}."
        )
    return plain


def _decompress(codec: Codec, data: bytes | memoryview, size: int) -> bytes:
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.LZ4:
            return bytes(lz4.block.decompress(data, uncompressed_size=size))
        case Codec.ZSTD:
            # If a frame states its content size, zstandard allocates that size and ignores max_output_size.
            claimed = zstandard.frame_content_size(data)
            if claimed != size:
                raise CorruptBatchError(f"A ZSTD payload claims {claimed} bytes; the batch's header says {size}.")
            return zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)
