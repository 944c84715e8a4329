"""Tests that a decoded batch has the same messages as were encoded, in every column and with every codec."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.batch import (
    MAX_COUNT,
    Batch,
    BatchHeader,
    Codec,
    check,
    encode,
    indexed_hashes,
    key_hashes,
    readdress,
    tag_hashes,
)
from ledger.batch.header import look_up_hashes
from ledger.errors import InvalidArgumentError
from ledger.hashing import key_hash, tag_hash

LIMIT = 4 << 20
PLACE: dict[str, Any] = {
    "topic_id": 7,
    "queue": 3,
    "producer_id": (1 << 64) - 1,
    "epoch": (1 << 32) - 1,
    "first_sequence": 1 << 40,
    "base_timestamp_ms": 1_700_000_000_000,
}

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
LOOK_UP_KEYS = st.lists(st.binary(max_size=9), max_size=16)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=5)), max_size=3)


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    """Generate the messages as arguments of `encode`. Each column except the values may be missing."""
    count = draw(
        st.integers(1, 20) | st.sampled_from([31, 32, 33, 40])
    )  # small batches, and batches around 32 messages

    def column(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.none() | st.lists(items, min_size=count, max_size=count)

    return {
        "values": draw(st.lists(st.binary(max_size=40), min_size=count, max_size=count)),
        "keys": draw(column(st.none() | st.binary(max_size=9))),
        "tags": draw(column(st.none() | st.text(max_size=9))),
        "headers": draw(column(HEADERS)),
        "timestamps_ms": draw(column(INT64)),
        "look_up_keys": draw(column(LOOK_UP_KEYS)),
    }


@given(messages(), st.sampled_from(Codec))
def test_every_column_comes_back(given_messages: dict[str, Any], codec: Codec) -> None:
    count = len(given_messages["values"])
    data = encode(**given_messages, **PLACE, codec=codec)
    check(data, LIMIT)
    batch = Batch(data)
    assert len(batch) == count
    assert batch.values() == given_messages["values"]
    assert batch.keys() == (given_messages["keys"] or [None] * count)
    assert batch.tags() == (given_messages["tags"] or [None] * count)
    assert batch.headers() == [tuple(headers) for headers in given_messages["headers"] or [()] * count]
    assert batch.timestamps_ms() == (given_messages["timestamps_ms"] or [PLACE["base_timestamp_ms"]] * count)
    assert batch.look_up_keys() == [tuple(keys) for keys in given_messages["look_up_keys"] or [()] * count]


@given(messages(), st.sampled_from(Codec))
def test_a_broker_reads_header_and_hashes_without_the_payload(given_messages: dict[str, Any], codec: Codec) -> None:
    data = encode(**given_messages, **PLACE, codec=codec)
    header = BatchHeader.parse(data)
    assert {name: getattr(header, name) for name in PLACE} == PLACE
    assert header.count == len(given_messages["values"])
    assert header.largest == max(map(len, given_messages["values"]))
    blinded = memoryview(data[: header.payload_position] + bytes(len(data) - header.payload_position))
    expect_hashes(key_hashes(blinded), given_messages["keys"], key_hash)
    expect_hashes(tag_hashes(blinded), given_messages["tags"], tag_hash)
    expect_hashes(look_up_hashes(blinded), list(chain(*given_messages["look_up_keys"] or ())) or None, key_hash)
    every = [each for each in (key_hashes(blinded), look_up_hashes(blinded)) if each is not None]
    indexed = indexed_hashes(blinded)
    assert (None if indexed is None else indexed.tolist()) == (list(chain(*every)) or None)


def expect_hashes(found: np.ndarray[Any, Any] | None, items: list[Any] | None, hash_item: Any) -> None:
    if items is None or all(item is None for item in items):
        assert found is None
    else:
        assert found is not None
        assert found.tolist() == [0 if item is None else hash_item(item) for item in items]


@given(messages(), st.sampled_from(Codec), st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 64) - 1))
def test_a_batch_with_another_address_is_the_one_encoded_so(
    given_messages: dict[str, Any], codec: Codec, epoch: int, first_sequence: int
) -> None:
    data = encode(**given_messages, **PLACE, codec=codec)
    again = {**PLACE, "queue": PLACE["queue"] + 1, "epoch": epoch, "first_sequence": first_sequence}
    assert readdress(data, queue=PLACE["queue"] + 1, epoch=epoch, first_sequence=first_sequence) == encode(
        **given_messages, **again, codec=codec
    )


@pytest.mark.parametrize("codec", Codec)
def test_the_largest_count(codec: Codec) -> None:
    values = [b""] * MAX_COUNT
    data = encode(values, **PLACE, codec=codec)
    assert check(data, LIMIT).count == MAX_COUNT
    assert Batch(data).values() == values


@settings(max_examples=20)
@given(st.binary(max_size=3000), st.sampled_from([Codec.LZ4, Codec.ZSTD]))
def test_a_payload_that_does_not_shrink_is_stored_plain(value: bytes, codec: Codec) -> None:
    plain, packed = encode([value], **PLACE), encode([value], **PLACE, codec=codec)
    assert len(packed) <= len(plain)
    assert (BatchHeader.parse(packed).codec == codec) == (len(packed) < len(plain))


def test_a_payload_that_shrinks_is_compressed() -> None:
    values = [b"the same line again"] * 100
    for codec in (Codec.LZ4, Codec.ZSTD):
        data = encode(values, **PLACE, codec=codec)
        assert len(data) < 600  # an uncompressed batch has more than 2,300 bytes
        assert BatchHeader.parse(data).codec == codec


def test_an_absent_key_is_not_an_empty_one() -> None:
    batch = Batch(encode([b"", b"", b""], keys=[None, b"", b"k"], tags=["", None, "t"], **PLACE))
    assert batch.keys() == [None, b"", b"k"]
    assert batch.tags() == ["", None, "t"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"values": []}, "cannot have 0 messages"),
        ({"values": [b""] * (MAX_COUNT + 1)}, "cannot have 65536 messages"),
        ({"values": [b""], "keys": [b"", b""]}, "1 messages was given 2 keys"),
        ({"values": [b""], "tags": []}, "given 0 tags"),
        ({"values": [b""], "headers": [[], []]}, "given 2 headers"),
        ({"values": [b""], "timestamps_ms": [1 << 63]}, "does not fit a signed 64-bit"),
        ({"values": [bytes(33 << 20)] * 2}, "One column of a batch would have"),
        ({"values": [bytes(33 << 20)], "keys": [bytes(33 << 20)]}, "A batch would have .* bytes"),
        ({"values": [memoryview(bytes(8)).cast("q")]}, "pass bytes"),
    ],
)
def test_what_cannot_be_encoded_is_refused(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        encode(**arguments, **PLACE)


@pytest.mark.parametrize(("name", "codec"), [(None, Codec.NONE), ("lz4", Codec.LZ4), ("zstd", Codec.ZSTD)])
def test_codecs_have_names(name: str | None, codec: Codec) -> None:
    assert Codec.named(name) is codec
    with pytest.raises(InvalidArgumentError, match="'gzip' is not known"):
        Codec.named("gzip")
