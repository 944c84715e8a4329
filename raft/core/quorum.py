"""Majorities: which value a majority of the voters has reached, and how a vote stands.

All functions are pure. They rest on one fact: any two majorities of the same voters share a node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum


class VoteOutcome(Enum):
    """How an election stands."""

    WON = "won"
    LOST = "lost"
    PENDING = "pending"


def majority(voters: Collection[int]) -> int:
    """The smallest number of nodes that is a majority."""
    return len(voters) // 2 + 1


def reached_by_majority(values: Iterable[int]) -> int:
    """The largest number that a majority of the voters has reached. `values` has one number for each voter."""
    descending = sorted(values, reverse=True)
    assert descending, "there are no voters, so there is no majority"
    return descending[len(descending) // 2]


def outcome(voters: Collection[int], votes: Mapping[int, bool], needed: int | None = None) -> VoteOutcome:
    """How a vote stands. It is lost as soon as `needed` votes (default: a majority) are no longer possible.

    Answers of nodes that are not voters do not count."""
    answers = [votes[voter] for voter in voters if voter in votes]
    needed = needed or majority(voters)
    if sum(answers) >= needed:
        return VoteOutcome.WON
    still_possible = len(voters) - (len(answers) - sum(answers))
    return VoteOutcome.PENDING if still_possible >= needed else VoteOutcome.LOST
