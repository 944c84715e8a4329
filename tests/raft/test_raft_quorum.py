"""Majorities, compared with plain counting."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from raft.core.quorum import VoteOutcome, majority, outcome, reached_by_majority


@given(st.lists(st.integers(0, 9), min_size=1, max_size=7))
def test_reached_by_majority(values: list[int]) -> None:
    reached = reached_by_majority(values)
    enough = len(values) // 2 + 1
    assert sum(value >= reached for value in values) >= enough
    assert sum(value >= reached + 1 for value in values) < enough


@given(st.integers(1, 7), st.dictionaries(st.integers(1, 9), st.booleans()))
def test_outcome(size: int, votes: dict[int, bool]) -> None:
    """A decided vote stays decided whatever the remaining voters answer. An open vote can still be won or lost."""
    voters = tuple(range(1, size + 1))
    yes = sum(votes.get(voter, False) for voter in voters)
    silent = sum(voter not in votes for voter in voters)
    wins_at_worst, wins_at_best = 2 * yes > size, 2 * (yes + silent) > size
    expected = VoteOutcome.WON if wins_at_worst else VoteOutcome.PENDING if wins_at_best else VoteOutcome.LOST
    assert outcome(voters, votes) is expected


def test_any_two_majorities_meet() -> None:
    assert all(2 * majority(range(size)) > size for size in range(1, 10))
