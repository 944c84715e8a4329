"""Tests cut batches: their messages and offsets are those of the stored batch, and wrong ones are refused."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.batch import Batch, BatchHeader, Codec, check, cut, encode, key_hashes, tag_hashes
from ledger.batch.header import ALL_COLUMNS, CUT, HEADER_BYTES, TAGS, look_up_hashes, seal
from ledger.errors import CorruptBatchError, InvalidArgumentError, UnsupportedBatchError
from ledger.hashing import key_hash
from tests.ledger.batch.test_batch_round_trip import LIMIT, PLACE, messages

VALUES = [b"%d" % number * 9 for number in range(100)]


@given(messages(), st.sampled_from(Codec), st.data())
def test_a_cut_has_the_chosen_messages_with_all_their_columns(
    given_messages: dict[str, Any], codec: Codec, data: st.DataObject
) -> None:
    whole = Batch(encode(**given_messages, **PLACE, codec=codec))
    there = data.draw(st.lists(st.booleans(), min_size=len(whole), max_size=len(whole)).filter(any))
    places = list(compress(range(len(whole)), there))
    part = Batch(cut(whole, places))
    for column in ("values", "keys", "tags", "headers", "timestamps_ms", "look_up_keys"):
        assert getattr(part, column)() == list(compress(getattr(whole, column)(), there)), column
    found = look_up_hashes(part.data)
    assert ([] if found is None else found.tolist()) == [key_hash(key) for keys in part.look_up_keys() for key in keys]
    assert part.offsets_from(1 << 40).tolist() == [(1 << 40) + place for place in places]
    for taken, stored in (
        (tag_hashes(part.data), tag_hashes(whole.data)),
        (key_hashes(part.data), key_hashes(whole.data)),
    ):
        assert stored is None if taken is None else stored is not None and taken.tolist() == stored[places].tolist()
    assert {name: getattr(part.header, name) for name in PLACE} == PLACE
    assert part.header.largest == max(map(len, part.values()))


@given(st.sets(st.integers(0, 99), min_size=2), st.data())
def test_a_cut_of_a_cut_keeps_the_places_of_the_stored_batch(chosen: set[int], data: st.DataObject) -> None:
    first = sorted(chosen)
    second = sorted(data.draw(st.sets(st.integers(0, len(first) - 1), min_size=1)))
    part = Batch(cut(Batch(cut(Batch(encode(VALUES, **PLACE)), first)), second))
    places = [first[place] for place in second]
    assert part.offsets_from(7).tolist() == [7 + place for place in places]
    assert part.values() == [VALUES[place] for place in places]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_cut_is_compressed_as_the_batch_is_unless_it_is_small(codec: Codec) -> None:
    whole = Batch(encode([b"a line like any other"] * 500, **PLACE, codec=codec))
    assert Batch(cut(whole, range(400))).header.codec == codec
    assert Batch(cut(whole, [5])).header.codec == Codec.NONE
    assert len(cut(whole, [5])) < 150


def test_the_first_message_from_a_place_on() -> None:
    whole = Batch(encode(VALUES, **PLACE))
    part = Batch(cut(whole, [5, 6, 90]))
    assert [part.first_from(place) for place in (-3, 0, 5, 6, 7, 90, 91, 500)] == [0, 0, 0, 1, 2, 2, 3, 3]
    assert [whole.first_from(place) for place in (-3, 0, 5, 100, 500)] == [0, 0, 5, 100, 100]


@pytest.mark.parametrize("places", [[], [3, 3], [4, 2], [-1, 2], [99, 100]])
def test_places_that_are_not_there_or_not_in_order_are_refused(places: list[int]) -> None:
    with pytest.raises(InvalidArgumentError, match="from 0 to 99"):
        cut(Batch(encode(VALUES, **PLACE)), places)


@pytest.mark.parametrize("places", [[3, 3], [4, 2], [0, 0]])
def test_a_consumer_refuses_a_cut_whose_places_are_not_in_order(places: list[int]) -> None:
    """Otherwise two messages would have one offset, or a consumer would go back."""
    part = cut(Batch(encode(VALUES, **PLACE)), [1, 2])
    position = BatchHeader.parse(part).payload_position - 8
    rest = part[HEADER_BYTES:position] + np.array([*places, 0, 0], "<u2").tobytes() + part[position + 8 :]
    with pytest.raises(CorruptBatchError, match="ascending"):
        Batch(seal(part[:HEADER_BYTES], rest))


def test_a_changed_byte_of_a_cut_is_noticed() -> None:
    part = bytearray(cut(Batch(encode(VALUES[:5], **PLACE, tags=list("aabbb"), keys=VALUES[:5])), [1, 2]))
    for place in range(8, len(part)):
        part[place] ^= 1
        with pytest.raises((CorruptBatchError, UnsupportedBatchError)):
            Batch(bytes(part))
        part[place] ^= 1


def test_a_broker_stores_no_cut_batch() -> None:
    with pytest.raises(UnsupportedBatchError, match="only whole batches"):
        check(cut(Batch(encode(VALUES, **PLACE)), [1]), LIMIT)


def test_a_cut_has_no_columns_that_its_program_does_not_keep() -> None:
    """A stored batch can have columns in front of its payload that only brokers need. A cut has no such column."""
    whole = Batch(encode(VALUES, **PLACE, tags=["t"] * 100))
    whole.header = replace(whole.header, columns=whole.header.columns | 1 << 9)
    assert Batch(cut(whole, [1])).header.columns == TAGS | CUT


def test_an_earlier_version_refuses_a_cut_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that does not know cut batches would give their messages wrong offsets."""
    monkeypatch.setattr(sys.modules["ledger.batch.check"], "ALL_COLUMNS", ALL_COLUMNS & ~CUT)
    with pytest.raises(UnsupportedBatchError, match="0x80"):
        Batch(cut(Batch(encode(VALUES, **PLACE)), [1]))
