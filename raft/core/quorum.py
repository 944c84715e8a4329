"""Majorities: computes which index a majority of the voters has reached, and whether an election is won or lost. All
functions of quorum.py are pure. The safety of Raft needs that any two majorities of the same voters share a node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum


class VoteOutcome(Enum):
    """The state of an election: won, lost or open."""

    WON = "won"
    LOST = "lost"
    PENDING = "pending"


def majority(voters: Collection[int]) -> int:
    """Return the smallest number of nodes that is a majority."""
    return len(voters) // 2 + 1


def reached_by_majority(values: Iterable[int]) -> int:
    """Return the largest number that a majority of the voters has reached. `values` has one number for each voter."""
    descending = sorted(values, reverse=True)
    assert descending, "there are no voters, so there is no majority"
    return descending[len(descending) // 2]


def outcome(voters: Collection[int], votes: Mapping[int, bool], needed: int | None = None) -> VoteOutcome:
    """Return the present state of an election: won, lost or open. The election is lost as soon as the candidate can no
    longer get `needed` votes. By default `needed` is a majority.

    Answers of nodes that are not voters do not count."""
    answers = [votes[voter] for voter in voters if voter in votes]
    needed = needed or majority(voters)
    if sum(answers) >= needed:
        return VoteOutcome.WON
    still_possible = len(voters) - (len(answers) - sum(answers))
    return VoteOutcome.PENDING if still_possible >= needed else VoteOutcome.LOST
