"""Tests which batches a broker and a consumer refuse: every flipped bit, and every invalid field."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import lz4.block
import pytest
import zstandard

from ledger.batch import MAX_PLAIN_BYTES, Batch, BatchHeader, Codec, check, encode, largest_batch
from ledger.batch.check import BATCH_OVERHEAD_BYTES
from ledger.batch.header import HEADERS, KEYS, TAGS, TIMESTAMPS, seal
from ledger.client.producer.producer_batch import MESSAGE_OVERHEAD_BYTES
from ledger.codec import compress
from ledger.errors import (
    CorruptBatchError,
    HeadersTooLargeError,
    InvalidArgumentError,
    LedgerError,
    MessageTooLargeError,
    TooManyHeadersError,
    UnsupportedBatchError,
)
from ledger.hashing import key_hash

LIMIT = 1 << 20
PLACE: dict[str, Any] = {
    "topic_id": 1,
    "queue": 2,
    "producer_id": 3,
    "epoch": 4,
    "first_sequence": 5,
    "base_timestamp_ms": 6,
}
SMALL = encode(
    [b"abc", b"", b"defgh"],
    keys=[b"k1", None, b""],
    tags=["t", None, "u"],
    headers=[[("a", b"1"), ("bb", b"")], [], [("c", b"22")]],
    timestamps_ms=[1, 2, 3],
    **PLACE,
)
PLAIN = encode([b"abc", b"", b"defgh"], **PLACE)
MANY = encode([b"abc", b"", b"defgh"] + [b""] * 40, **PLACE)
LINES = [b"a line like any other"] * 50


def forged(data: bytes, payload: bytes | None = None, **fields: Any) -> bytes:
    """Return the batch with changed header fields or another payload, and with the right size and CRC."""
    header = BatchHeader.parse(data)
    if payload is None:
        payload = data[header.payload_position :]
    hashes = data[64 : header.payload_position]
    size = 64 + len(hashes) + len(payload)
    return seal(replace(header, **{"size": size, **fields}).pack(), hashes, payload)


def refused(data: bytes, kind: type[LedgerError], sentence: str) -> None:
    """Assert that broker and consumer refuse the batch with the same kind of error and the same sentence."""
    with pytest.raises(kind, match=sentence):
        check(data, LIMIT)
    with pytest.raises(kind, match=sentence):
        Batch(data)


def test_forging_alone_is_not_what_is_refused() -> None:
    for data in (SMALL, PLAIN):
        assert forged(data) == data
        assert check(data, LIMIT) == BatchHeader.parse(data)


@pytest.mark.parametrize("codec", Codec)
def test_every_flipped_bit_is_refused(codec: Codec) -> None:
    data = SMALL if codec is Codec.NONE else encode(LINES, tags=["t"] * 50, **PLACE, codec=codec)
    assert BatchHeader.parse(data).codec == codec
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            with pytest.raises((CorruptBatchError, UnsupportedBatchError)):
                check(bytes(flipped), LIMIT)


def test_every_other_length_is_refused() -> None:
    for length in range(len(SMALL)):
        with pytest.raises(
            CorruptBatchError, match="shorter than its header" if length < 64 else "bytes states a size of"
        ):
            check(SMALL[:length], LIMIT)
    refused(SMALL + b"\0", CorruptBatchError, "bytes states a size of")


@pytest.mark.parametrize(
    ("fields", "kind", "sentence"),
    [
        ({"codec": 3}, UnsupportedBatchError, "codec 3, which this program does not know"),
        ({"columns": 1 << 15}, UnsupportedBatchError, "columns .0x8000. that"),
        ({"count": 0}, CorruptBatchError, "states 0 messages"),
        ({"count": 65_536}, CorruptBatchError, "states 65536 messages"),
        ({"count": (1 << 32) - 1}, CorruptBatchError, "states 4294967295 messages"),
        ({"count": 65_535}, CorruptBatchError, "states 65535 messages, the largest of"),
        ({"plain_size": MAX_PLAIN_BYTES + 8}, CorruptBatchError, "states a payload of 67108872 bytes"),
        ({"plain_size": 32}, CorruptBatchError, "24 bytes of payload"),
        ({"largest": (1 << 32) - 1}, CorruptBatchError, "the largest of 4294967295 bytes"),
        ({"largest": 4}, CorruptBatchError, "largest message of a batch has 5 bytes"),
        ({"size": 0}, CorruptBatchError, "states a size of 0"),
        ({"size": (1 << 32) - 1}, CorruptBatchError, "states a size of 4294967295"),
        ({"count": 2}, CorruptBatchError, "largest message|end 8 bytes before"),
    ],
)
def test_absurd_fields_are_refused_each_for_its_own_reason(
    fields: dict[str, Any], kind: type[LedgerError], sentence: str
) -> None:
    refused(forged(PLAIN, **fields), kind, sentence)


def test_other_magic_and_version_are_refused() -> None:
    refused(b"\0" * 100, CorruptBatchError, "are not a batch")
    other = bytearray(PLAIN)
    other[8] = 2
    refused(bytes(other), UnsupportedBatchError, "format version 2, and this program knows version 1")


@pytest.mark.parametrize("columns", [KEYS, TAGS, HEADERS, TIMESTAMPS])
def test_a_column_that_is_claimed_but_not_there_is_refused(columns: int) -> None:
    payload = PLAIN[64:]
    with_hashes = payload if columns not in (KEYS, TAGS) else bytes(24) + payload
    data = seal(replace(BatchHeader.parse(PLAIN), columns=columns, size=64 + len(with_hashes)).pack(), with_hashes)
    refused(data, CorruptBatchError, "states .* bytes, but its payload has only 0 left")


@pytest.mark.parametrize(
    ("offsets", "sentence"),
    [
        ((1, 3, 3, 8), "do not begin with 0"),
        ((0, 5, 3, 8), "or decrease"),
        ((0, 3, 3, -8), "or decrease"),
        ((0, 3, 3, 9), "states 9 bytes, but its payload has only 8"),
        ((0, 3, 3, 0x7FFFFFFF), "states 2147483647 bytes"),
        ((0, 0, 0, 0), "end 8 bytes before its payload"),
        ((0, 8, 8, 8), "largest message of a batch has 8 bytes"),
    ],
)
def test_offsets_that_cannot_be_are_refused(offsets: tuple[int, ...], sentence: str) -> None:
    refused(forged(PLAIN, struct.pack("<4i", *offsets) + b"abcdefgh"), CorruptBatchError, sentence)
    offsets += offsets[-1:] * 40
    refused(forged(MANY, struct.pack("<44i", *offsets) + b"abcdefgh"), CorruptBatchError, sentence)


def test_a_message_over_the_limit_is_refused_compressed_or_not() -> None:
    for codec in Codec:
        data = encode([b"", b"x" * (LIMIT + 1)], **PLACE, codec=codec)
        with pytest.raises(MessageTooLargeError, match="message of 1048577 bytes is over the limit of 1048576"):
            check(data, LIMIT)
        check(data, LIMIT + 1)


def test_a_batch_over_the_limit_is_refused() -> None:
    data = encode([bytes(LIMIT)] * 6, **PLACE)
    assert len(data) > largest_batch(LIMIT)
    with pytest.raises(InvalidArgumentError, match="send smaller batches"):
        check(data, LIMIT)
    check(data, LIMIT, max_batch_bytes=len(data))
    with pytest.raises(InvalidArgumentError, match="send smaller batches"):
        check(data, LIMIT, max_batch_bytes=len(data) - 1)


def test_the_default_limit_holds_the_smallest_messages_that_a_producer_puts_into_a_batch() -> None:
    count = 256 * 1024 // MESSAGE_OVERHEAD_BYTES
    values = [b""] * count
    data = encode(values, keys=[b"k"] * count, tags=["t"] * count, timestamps_ms=[0] * count, **PLACE)
    check(data, 1)


def test_the_consumer_may_leave_out_the_crc_but_nothing_else() -> None:
    data = bytearray(PLAIN)
    data[-1] ^= 1
    assert Batch(bytes(data), check_crc=False).values()[2] == b"defgi"
    with pytest.raises(CorruptBatchError, match="CRC32C"):
        Batch(bytes(data))
    with pytest.raises(CorruptBatchError, match="bytes states a size of"):
        Batch(PLAIN + b"\0", check_crc=False)
    with pytest.raises(UnsupportedBatchError, match="codec"):
        Batch(forged(PLAIN, codec=9), check_crc=False)


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize(
    "spoil",
    [lambda payload: payload[:-3], lambda payload: b"\xff" * len(payload), lambda payload: payload + b"\0\0\0\0"],
    ids=["cut", "noise", "trailing"],
)
def test_a_payload_that_cannot_be_decompressed_is_refused(codec: Codec, spoil: Callable[[bytes], bytes]) -> None:
    data = encode(LINES, **PLACE, codec=codec)
    with pytest.raises(CorruptBatchError):
        Batch(forged(data, spoil(data[64:])))
    with pytest.raises(CorruptBatchError):
        check(forged(data, spoil(data[64:])), LIMIT)  # so the broker does not store it


@pytest.mark.parametrize("codec", Codec)
def test_a_count_that_lies_is_refused_before_the_batch_is_stored(codec: Codec) -> None:
    with pytest.raises(CorruptBatchError):
        check(forged(encode(LINES, **PLACE, codec=codec), count=len(LINES) - 1), LIMIT)


def test_a_broker_does_not_decompress_a_payload_over_its_limit() -> None:
    plain = [b"x" * 1024] * 9000
    data = encode(plain, **PLACE, codec=Codec.LZ4)
    assert len(data) < LIMIT + BATCH_OVERHEAD_BYTES
    with pytest.raises(InvalidArgumentError, match="before its compression is over the limit of 8388608: send smaller"):
        check(data, LIMIT)


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("claim", [-8, 8])
def test_a_payload_of_another_size_than_claimed_is_refused(codec: Codec, claim: int) -> None:
    data = encode(LINES, **PLACE, codec=codec)
    plain_size = BatchHeader.parse(data).plain_size + claim
    with pytest.raises(CorruptBatchError, match=r"decompressed|claims .* bytes; the batch's header says"):
        Batch(forged(data, plain_size=plain_size))


BOMB_BYTES = 256 << 20
BOMBS: dict[str, tuple[Codec, Callable[[bytes], bytes]]] = {
    "lz4": (Codec.LZ4, lambda bomb: lz4.block.compress(bomb, store_size=False)),
    "zstd that says its size": (Codec.ZSTD, zstandard.ZstdCompressor().compress),
    "zstd that does not": (Codec.ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_allocates_no_more_than_its_header_allows(bomb: str) -> None:
    codec, compress = BOMBS[bomb]
    payload = compress(bytes(BOMB_BYTES))
    data = forged(PLAIN, payload, codec=codec, plain_size=4096)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatchError):
            Batch(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(payload) + (1 << 20)


def test_a_frame_that_lies_about_its_size_is_refused() -> None:
    honest = zstandard.ZstdCompressor().compress(bytes(1 << 20))
    assert zstandard.frame_content_size(honest) == 1 << 20
    lying = honest.replace((1 << 20).to_bytes(4, "little"), (4096).to_bytes(4, "little"), 1)
    assert zstandard.frame_content_size(lying) == 4096
    with pytest.raises(CorruptBatchError, match="cannot be decompressed"):
        Batch(forged(PLAIN, lying, codec=Codec.ZSTD, plain_size=4096))


def test_text_that_is_not_utf8_is_refused_when_it_is_read() -> None:
    data = encode([b"value"], tags=["tag"], **PLACE)
    payload = data[BatchHeader.parse(data).payload_position :].replace(b"tag", b"\xff\xfe\xfd")
    batch = Batch(forged(data, payload))
    assert batch.values() == [b"value"]
    with pytest.raises(CorruptBatchError, match="not UTF-8"):
        batch.tags()


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("spoilt", [b"\xff\xfe\xfdab", "häß".encode()[:-1] + b"\xc3"])
def test_text_that_is_not_utf8_is_refused_before_it_is_stored(codec: Codec, spoilt: bytes) -> None:
    taken = encode([b"value"] * 2, tags=["sägs", "tag"], headers=[[("nämé", b"\xff")], []], codec=codec, **PLACE)
    check(taken, LIMIT)
    columns: list[dict[str, Any]] = [
        {"tags": [None, "12345"]},
        {"headers": [[("ä", b"v"), ("12345", b"v")], [("n", b"v")]]},
    ]
    for column in columns:
        data = encode([b"value"] * 2, **column, **PLACE)
        payload = data[BatchHeader.parse(data).payload_position :].replace(b"12345", spoilt)
        wrong = forged(data, compress(codec, payload), codec=codec, plain_size=len(payload))
        with pytest.raises(InvalidArgumentError, match="in a batch is not UTF-8"):
            check(wrong, LIMIT)


# --- limits of headers -----------------------------------------------------------------------------------------------


def with_headers(*lists: list[tuple[str, bytes]], codec: Codec = Codec.NONE) -> bytes:
    return encode([b"x"] * len(lists), headers=lists, **PLACE, codec=codec)


FULL = [("", b"")] * 128
LARGE = [("é" * 96, bytes(16 * 1024 - 192))]


def test_headers_at_their_limits_are_taken() -> None:
    check(with_headers([], FULL, LARGE, FULL, LARGE), LIMIT)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_headers_over_their_limits_are_refused_wherever_they_are(place: int) -> None:
    lists: list[list[tuple[str, bytes]]] = [[("a", b"b")], FULL, LARGE]
    lists[place] = [*FULL, ("", b"")]
    with pytest.raises(TooManyHeadersError, match="has 129 headers; the limit is 128"):
        check(with_headers(*lists), LIMIT)
    lists[place] = [*LARGE, ("", b"x")]
    with pytest.raises(HeadersTooLargeError, match="have 16385 bytes; the limit is 16384"):
        check(with_headers(*lists), LIMIT)


def test_headers_of_a_compressed_batch_have_the_same_limits() -> None:
    with pytest.raises(TooManyHeadersError):
        check(with_headers([*FULL, ("", b"")], codec=Codec.ZSTD), LIMIT)


WITH_LOOK_UP_KEYS = encode([b"abc", b"", b"x"], keys=[b"k"] * 3, look_up_keys=[[b"a", b"bc"], [], [b"a"]], **PLACE)
LOOK_UP_HASHES = 64 + 3 * 8


def with_look_up_hashes(count: int, hashes: bytes) -> bytes:
    """Return WITH_LOOK_UP_KEYS with another number of look-up hashes, and other hashes."""
    payload = WITH_LOOK_UP_KEYS[BatchHeader.parse(WITH_LOOK_UP_KEYS).payload_position :]
    rest = WITH_LOOK_UP_KEYS[64:LOOK_UP_HASHES] + count.to_bytes(8, "little") + hashes + payload
    return seal(replace(BatchHeader.parse(WITH_LOOK_UP_KEYS), size=64 + len(rest)).pack(), rest)


def test_look_up_hashes_follow_the_key_hashes() -> None:
    hashes = b"".join(key_hash(key).to_bytes(8, "little") for key in (b"a", b"bc", b"a"))
    assert with_look_up_hashes(3, hashes) == WITH_LOOK_UP_KEYS
    assert check(WITH_LOOK_UP_KEYS, LIMIT).look_up_hash_count == 3


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (with_look_up_hashes(2, bytes(16)), "3 look-up keys and 2 look-up hashes"),
        (with_look_up_hashes(0, b""), "states 0 look-up hashes: 1 to 16 for each message"),
        (with_look_up_hashes(49, bytes(49 * 8)), "states 49 look-up hashes"),
        (with_look_up_hashes((1 << 64) - 1, b""), "states 18446744073709551615 look-up hashes"),
        (with_look_up_hashes(40, b""), "bytes of payload, but its header states"),
        (seal(replace(BatchHeader.parse(WITH_LOOK_UP_KEYS), size=LOOK_UP_HASHES).pack(), bytes(24)), "ends before its"),
    ],
    ids=["too few", "none", "too many", "a huge number", "more than the batch has", "no number"],
)
def test_a_number_of_look_up_hashes_that_lies_is_refused(data: bytes, sentence: str) -> None:
    refused(data, CorruptBatchError, sentence)


def test_a_message_has_at_most_16_look_up_keys() -> None:
    keys = [b"%d" % number for number in range(17)]
    assert check(encode([b"x", b"y"], look_up_keys=[keys[:16], []], **PLACE), LIMIT).look_up_hash_count == 16
    with pytest.raises(InvalidArgumentError, match="17 look-up keys; the limit is 16"):
        check(encode([b"x", b"y"], look_up_keys=[keys, []], **PLACE), LIMIT)
