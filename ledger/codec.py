"""Compression of a batch's payload, and decompression with a limit on the size of the result.

The caller of `decompress` states the size of the result. `decompress` returns exactly as many bytes as the caller
stated, or raises CorruptBatchError. A small payload that claims to decompress to gigabytes cannot make `decompress`
allocate gigabytes.

The libraries of the codecs are loaded when a batch is compressed or decompressed for the first time. A client needs
them only if it, or a producer of its topics, compresses.
"""

from __future__ import annotations

from enum import IntEnum
from importlib import import_module
from typing import Any

from ledger.errors import CorruptBatchError, InvalidArgumentError, UnsupportedBatchError

_ZSTD_LEVEL = 1


class Codec(IntEnum):
    """The codec's number in a batch's header."""

    NONE = 0
    LZ4 = 1  # one block, without lz4's own length in front
    ZSTD = 2  # one frame that states its content size

    @classmethod
    def named(cls, name: str | None) -> Codec:
        """Return the codec that a setting names. The setting is "lz4", "zstd", or None for no compression. Raises
        InvalidArgumentError for anything else, and if the library of the codec is not installed."""
        if name is None:
            return cls.NONE
        try:
            codec = cls[name.upper()]
        except (KeyError, AttributeError):  # an AttributeError: `name` is no str
            raise InvalidArgumentError(f"Compression {name!r} is not known: use 'lz4', 'zstd' or none.") from None
        try:
            _library(codec)
        except UnsupportedBatchError as error:
            raise InvalidArgumentError(error.message) from error
        return codec


def compress(codec: Codec, plain: bytes) -> bytes:
    """Return `plain` compressed with `codec`; Codec.NONE returns `plain` unchanged."""
    match codec:
        case Codec.NONE:
            return plain
        case Codec.LZ4:
            return bytes(_library(codec).compress(plain, store_size=False))
        case Codec.ZSTD:
            return bytes(_library(codec).ZstdCompressor(level=_ZSTD_LEVEL).compress(plain))


def decompress(codec: Codec, data: bytes | memoryview, size: int) -> bytes:
    """Return exactly `size` decompressed bytes, or raise CorruptBatchError. Raises UnsupportedBatchError if the library
    of the codec is not installed.

    The function allocates at most `size` bytes for the result, even if `data` claims a larger size.
    """
    match codec:
        case Codec.NONE:
            plain = bytes(data)
        case Codec.LZ4:
            plain = _plain_of_lz4(data, size)
        case Codec.ZSTD:
            plain = _plain_of_zstd(data, size)
    if len(plain) != size:
        raise CorruptBatchError(
            f"The payload of a batch has {len(plain)} bytes when decompressed as {codec.name}; its header says {size}."
        )
    return plain


def _plain_of_lz4(data: bytes | memoryview, size: int) -> bytes:
    block = _library(Codec.LZ4)
    try:
        return bytes(block.decompress(data, uncompressed_size=size))
    except block.LZ4BlockError as error:
        raise _damaged(Codec.LZ4, error) from error


def _plain_of_zstd(data: bytes | memoryview, size: int) -> bytes:
    zstandard = _library(Codec.ZSTD)
    try:
        # If a frame states its content size, zstandard allocates that size and ignores max_output_size.
        claimed = zstandard.frame_content_size(data)
        if claimed != size:
            raise CorruptBatchError(f"A ZSTD payload claims {claimed} bytes; the batch's header says {size}.")
        return bytes(zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False))
    except zstandard.ZstdError as error:
        raise _damaged(Codec.ZSTD, error) from error


def _damaged(codec: Codec, error: Exception) -> CorruptBatchError:
    return CorruptBatchError(f"The payload of a batch cannot be decompressed as {codec.name}: {error}.")


def _library(codec: Codec) -> Any:
    """Return the module that implements the codec. Raises UnsupportedBatchError if it is not installed."""
    name = "lz4.block" if codec is Codec.LZ4 else "zstandard"
    try:
        return import_module(name)
    except ImportError as error:
        raise UnsupportedBatchError(
            f"Compression with {codec.name.lower()} needs the package {name.split('.')[0]}: run "
            "pip install 'ledgermq[compression]'."
        ) from error
