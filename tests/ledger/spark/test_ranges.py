"""Tests ranges of offsets: cutting neither loses nor doubles a message, and shares are proportional to sizes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ledger.client.records import TopicQueue
from ledger.spark.source.ranges import OffsetRange, limited, split


def whole(queue: int, start: int, size: int) -> OffsetRange:
    return OffsetRange("orders", 1, queue, 0, start, start + size)


SIZES = st.lists(st.integers(1, 1000), min_size=1, max_size=6)


@given(SIZES, st.none() | st.integers(1, 40))
def test_cutting_loses_and_doubles_nothing(sizes: list[int], least: int | None) -> None:
    ranges = [whole(queue, 100 * queue, size) for queue, size in enumerate(sizes)]
    parts = split(ranges, least)
    for each in ranges:
        edges = [(part.start, part.end) for part in parts if part.queue == each.queue]
        assert edges[0][0] == each.start
        assert edges[-1][1] == each.end
        assert all(before[1] == after[0] for before, after in zip(edges, edges[1:], strict=False))  # noqa: RUF007
        assert all(start < end for start, end in edges)
    assert len(parts) >= min(least or 0, sum(sizes))


def test_the_larger_queue_is_cut_into_more() -> None:
    parts = split([whole(0, 0, 900), whole(1, 0, 100)], 10)
    assert [part.queue for part in parts].count(0) == 9


@given(SIZES, st.integers(1, 2000))
def test_a_limit_is_kept_about_and_every_queue_gets_on(sizes: list[int], most: int) -> None:
    starts = {TopicQueue("orders", queue): 10 * queue for queue in range(len(sizes))}
    ends = {place: starts[place] + size for place, size in zip(starts, sizes, strict=True)}
    limits = limited(starts, ends, most)
    taken = {place: limits[place] - starts[place] for place in starts}
    assert all(1 <= taken[place] <= ends[place] - starts[place] for place in starts)
    assert sum(taken.values()) <= max(most, len(sizes)) + len(sizes)
    if sum(sizes) <= most:
        assert limits == ends
