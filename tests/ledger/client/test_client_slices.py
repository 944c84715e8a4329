"""Tests how `send_many` cuts lists into batches: every message is in one batch, in order, and limits are kept."""

from __future__ import annotations

from itertools import count, islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.client.producer.producer_batch import MESSAGE_OVERHEAD_BYTES
from ledger.client.producer.slices import blocks, check_many, checked_lengths, cuts
from ledger.errors import InvalidArgumentError, MessageTooLargeError


@given(
    lengths=st.lists(st.integers(0, 300), max_size=60),
    max_bytes=st.integers(1, 500),
    max_count=st.integers(1, 9),
    each=st.integers(0, 40),
)
def test_slices_cover_the_list_and_fill_their_batches(
    lengths: list[int], max_bytes: int, max_count: int, each: int
) -> None:
    def cost(start: int, stop: int) -> int:
        return sum(lengths[start:stop]) + (stop - start) * (MESSAGE_OVERHEAD_BYTES + each)

    end = 0
    for start, stop, size in cuts(np.array(lengths, np.int64), max_bytes=max_bytes, max_count=max_count, each=each):
        assert start == end
        assert size == sum(lengths[start:stop])
        assert 1 <= stop - start <= max_count
        assert stop - start == 1 or cost(start, stop) <= max_bytes
        full = stop == len(lengths) or stop - start == max_count or cost(start, stop + 1) > max_bytes
        assert full
        end = stop
    assert end == len(lengths)


def test_an_endless_iterable_is_drawn_in_blocks() -> None:
    numbers = (b"%d" % number for number in count())
    first, second = islice(blocks(numbers), 2)
    assert first[0] == b"0"
    assert second[0] == b"%d" % len(first)


def test_a_list_is_one_block_that_the_caller_may_change() -> None:
    values = [b"a"] * 100_000
    [block] = blocks(values)
    assert len(block) == len(values)
    assert block is not values


@pytest.mark.parametrize("empty", [[], (), iter([])])
def test_nothing_is_no_block(empty: list[bytes]) -> None:
    assert list(blocks(empty)) == []


@pytest.mark.parametrize("values", [b"one message", "text", bytearray(b"x"), memoryview(b"x"), None, 5])
def test_one_value_is_not_many(values: object) -> None:
    with pytest.raises(InvalidArgumentError, match="use send"):
        check_many(values)


@pytest.mark.parametrize("values", [[b"x"], (b"x",), iter([b"x"]), np.array([b"x"]), {b"x": 1}.keys()])
def test_an_iterable_is_many(values: object) -> None:
    check_many(values)


def test_text_is_refused_with_advice() -> None:
    with pytest.raises(InvalidArgumentError, match=r"not str: encode it first"):
        checked_lengths([b"a", "b"], 0)  # type: ignore[list-item]


def test_a_message_over_the_limit_is_refused() -> None:
    assert list(checked_lengths([b"", b"abcd"], 4)) == [0, 4]
    with pytest.raises(MessageTooLargeError, match="5 bytes is over the cluster's limit of 4"):
        checked_lengths([b"abcd", b"abcde"], 4)
