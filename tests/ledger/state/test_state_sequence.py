"""Tests the sequence check of one producer in one queue: accepted batches, repeats, gaps, and fenced epochs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import DuplicateForgottenError, ProducerFencedError, SequenceGapError
from ledger.state import Accept, BatchRecord, Duplicate, Fenced, Forgotten, SequenceGap
from ledger.state.sequence import REMEMBERED_BATCHES, Sequence


def after(*counts: int, epoch: int = 5) -> Sequence:
    """Return the sequence of a producer that has sent batches with these message counts."""
    sequence = Sequence(epoch)
    for count in counts:
        first = sequence.next_sequence
        sequence.add(epoch, BatchRecord(first, count, base_offset=100 + first))
    return sequence


def test_the_next_batch_is_accepted() -> None:
    assert after(3, 2).check(5, 5, 10) == Accept()
    assert after(3, 2).next_sequence == 5


def test_a_repeat_is_answered_with_the_first_ones_record() -> None:
    sequence = after(3, 2, 4)
    for record in sequence.records:
        decision = sequence.check(5, record.first_sequence, record.count)
        assert isinstance(decision, Duplicate)
        assert decision.record is record


def test_a_batch_behind_a_missing_one_is_a_gap() -> None:
    decision = after(3, 2).check(5, 6, 1)
    assert decision == SequenceGap(expected=5, first_sequence=6)
    assert isinstance(decision, SequenceGap)
    assert isinstance(decision.error(), SequenceGapError)
    assert "sequence 6, but the next sequence of its producer is 5" in decision.error().message


def test_only_the_last_batches_are_remembered() -> None:
    sequence = after(*[1] * (REMEMBERED_BATCHES + 1))
    assert len(sequence.records) == REMEMBERED_BATCHES
    decision = sequence.check(5, 0, 1)
    assert isinstance(decision, Forgotten)
    assert isinstance(decision.error(), DuplicateForgottenError)
    assert decision.error().next_sequence == decision.next_sequence
    assert isinstance(sequence.check(5, 1, 1), Duplicate)


@pytest.mark.parametrize(("first", "count"), [(0, 2), (0, 5), (1, 2), (3, 3), (4, 1), (4, 9)])
def test_used_sequences_in_other_batches_than_before_are_never_accepted(first: int, count: int) -> None:
    assert isinstance(after(3, 2).check(5, first, count), Forgotten)


def test_an_older_epoch_is_fenced_whatever_it_brings() -> None:
    sequence = after(3)
    for first in (0, 3, 9):
        decision = sequence.check(4, first, 3)
        assert decision == Fenced(4, 5)
        assert isinstance(decision, Fenced)
        assert isinstance(decision.error(), ProducerFencedError)


def test_a_new_epoch_begins_at_zero_and_forgets_the_old_one() -> None:
    sequence = after(3)
    assert sequence.check(6, 3, 1) == SequenceGap(0, 3)
    assert sequence.check(6, 0, 3) == Accept()
    sequence.add(6, BatchRecord(0, 2, base_offset=103))
    assert (sequence.epoch, sequence.next_sequence, len(sequence.records)) == (6, 2, 1)
    assert isinstance(sequence.check(5, 3, 1), Fenced)
    assert sequence.check(6, 2, 1) == Accept()


def test_a_copy_goes_on_by_itself() -> None:
    sequence = after(3)
    copy = sequence.copy()
    copy.add(6, BatchRecord(0, 1, 103))
    assert (sequence.epoch, sequence.next_sequence, len(sequence.records)) == (5, 3, 1)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(1, 3)), max_size=60))
def test_every_sequence_of_an_epoch_is_accepted_once_and_in_order(
    attempts: list[tuple[int, int, int]],
) -> None:
    sequence, accepted = Sequence(0), [(0, 0)]  # a naive model: epoch and next sequence
    for epoch, first, count in attempts:
        decision = sequence.check(epoch, first, count)
        current, expected = accepted[-1]
        may = (epoch == current and first == expected) or (epoch > current and first == 0)
        assert (decision == Accept()) == may
        if may:
            sequence.add(epoch, BatchRecord(first, count, 0))
            accepted.append((epoch, first + count))
