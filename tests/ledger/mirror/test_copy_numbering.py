"""The numbers of copied batches name their offsets at the source."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import InvalidArgumentError
from ledger.mirror.numbering import MAX_OFFSET, CopiedRange, CopyNumbering

OFFSETS = st.integers(0, MAX_OFFSET)
OURS = CopyNumbering.of("mirror", "here", 7, 1_700_000_000_000, 3)


@dataclass(frozen=True)
class Batch:
    producer_id: int
    epoch: int
    first_sequence: int
    count: int = 5


@given(run=OFFSETS, more=st.integers(0, 1 << 40))
def test_the_numbers_tell_the_offsets(run: int, more: int) -> None:
    number = OURS.number(run, run + more)
    assert 0 < number.producer_id < 1 << 64
    assert 0 <= number.epoch < 1 << 32
    assert OURS.copied(Batch(*number)) == CopiedRange(run, run + more, run + more + 5)


@given(run=st.integers(0, MAX_OFFSET - 1), more=st.integers(1, 1 << 20))
def test_a_later_run_fences_an_earlier_one(run: int, more: int) -> None:
    """Unless 2^32 messages lie between: then it is another producer."""
    later = min(run + more, MAX_OFFSET)
    before, after = OURS.number(run, run), OURS.number(later, later)
    if run >> 32 == later >> 32:
        assert before.producer_id == after.producer_id
        assert before.epoch < after.epoch
    else:
        assert before.producer_id != after.producer_id


def test_other_sources_have_other_numbers() -> None:
    given = [
        CopyNumbering.of(*source)
        for source in [
            ("mirror", "here", 7, 1, 3),
            ("other", "here", 7, 1, 3),
            ("mirror", "there", 7, 1, 3),
            ("mirror", "here", 8, 1, 3),
            ("mirror", "here", 7, 2, 3),
            ("mirror", "here", 7, 1, 4),
        ]
    ]
    assert len({each.identity for each in given}) == len(given)
    batch = Batch(*given[0].number(0, 0))
    assert [each.copied(batch) is None for each in given] == [False, *[True] * 5]
    assert given[0].copied(Batch(123, 0, 0)) is None


@pytest.mark.parametrize(("run", "offset"), [(-1, 0), (5, 4), (MAX_OFFSET + 1, MAX_OFFSET + 2)])
def test_wrong_places_are_refused(run: int, offset: int) -> None:
    with pytest.raises(InvalidArgumentError):
        OURS.number(run, offset)
