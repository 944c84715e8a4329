"""Columns of byte strings, with pyarrow and without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.batch import Batch, Codec, encode, encode_strings, strings
from ledger.batch.strings import Strings, from_arrow
from ledger.hashing import NO_HASH, key_hash

ITEMS = st.lists(st.none() | st.binary(max_size=40), min_size=1, max_size=60)
FIELDS: dict[str, Any] = {
    "topic_id": 3,
    "queue": 2,
    "producer_id": 9,
    "epoch": 1,
    "first_sequence": 5,
    "base_timestamp_ms": 7,
}


@pytest.fixture(params=["arrow", "numpy"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numpy":
        monkeypatch.setattr(strings, "loaded_arrow", lambda: None)


def column(items: list[bytes | None]) -> Strings:
    return from_arrow(pyarrow.array(items, pyarrow.binary()))


@pytest.mark.usefixtures("library")
@given(items=ITEMS, data=st.data())
def test_strings_are_taken_and_hashed(items: list[bytes | None], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(items) - 1))
    some = column(items).part(start, len(items))
    places = data.draw(st.lists(st.integers(0, len(some) - 1), max_size=20))
    assert some.list() == items[start:]
    assert some.taken(np.array(places, np.int64)).list() == [items[start + place] for place in places]
    assert some.hashes().tolist() == [NO_HASH if one is None else key_hash(one) for one in items[start:]]


@given(keys=ITEMS, data=st.data(), codec=st.sampled_from(Codec))
def test_a_batch_of_strings_has_the_bytes_of_a_batch_of_lists(
    keys: list[bytes | None], data: st.DataObject, codec: Codec
) -> None:
    values = data.draw(st.lists(st.binary(), min_size=len(keys), max_size=len(keys)))
    taken = column(keys)
    made = encode_strings(column(list(values)), taken, taken.hashes(), codec=codec, **FIELDS)
    assert made == encode(values, keys=keys, codec=codec, **FIELDS)
    assert Batch(made).keys() == keys


def test_all_kinds_of_arrow_columns_are_read() -> None:
    chunked = pyarrow.chunked_array([["a", None], ["bc"]])
    for kind in (pyarrow.string(), pyarrow.large_string(), pyarrow.binary(), pyarrow.large_binary()):
        assert from_arrow(chunked.cast(kind)).list() == [b"a", None, b"bc"]
    assert from_arrow(chunked.combine_chunks().dictionary_encode()).list() == [b"a", None, b"bc"]
    assert from_arrow(pyarrow.array([b"ab", b"cd"], pyarrow.binary(2)).slice(1)).list() == [b"cd"]
    assert from_arrow(pyarrow.array([], pyarrow.string())).list() == []
