"""Tests the hashes that are stored in logs: their values must never change."""

from __future__ import annotations

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from ledger.hashing import key_hash, queue_of, tag_hash


def test_the_hashes_are_those_of_every_version() -> None:
    assert key_hash(b"") == 0x2D06800538D394C2  # XXH3_64bits of nothing with seed 0, as its specification has it
    assert key_hash(b"key") == 13540649951185429987
    assert tag_hash("tag") == -8827799455852696894
    assert [queue_of(b"%d" % i, 4) for i in range(8)] == [1, 0, 0, 0, 3, 2, 1, 2]


@given(st.text())
def test_a_tags_hash_is_the_signed_form_of_its_utf8s(tag: str) -> None:
    assert tag_hash(tag) % (1 << 64) == key_hash(tag.encode())
    assert -(1 << 63) <= tag_hash(tag) < 1 << 63


def test_zero_means_none_so_nothing_hashes_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xxhash, "xxh3_64_intdigest", lambda data: 0)
    assert (key_hash(b"unlucky"), tag_hash("unlucky")) == (1, 1)


@given(st.binary(), st.integers(1, 1024))
def test_a_key_has_a_queue(key: bytes, queues: int) -> None:
    assert queue_of(key, queues) == (xxhash.xxh3_64_intdigest(key) or 1) % queues
