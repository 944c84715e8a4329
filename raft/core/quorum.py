"""Majorities: what most of the voters have, and how a vote stands.

The one idea: any two majorities of the same voters share a node. Pure functions. Must not know: roles, terms, logs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum


class VoteOutcome(Enum):
    WON = "won"
    LOST = "lost"
    PENDING = "pending"


def majority(voters: Collection[int]) -> int:
    """How many of them are a majority."""
    return len(voters) // 2 + 1


def reached_by_majority(values: Iterable[int]) -> int:
    """The largest number that a majority has reached. One value for each voter."""
    descending = sorted(values, reverse=True)
    assert descending, "nobody votes, so nothing is reached"
    return descending[len(descending) // 2]


def outcome(voters: Collection[int], votes: Mapping[int, bool], needed: int | None = None) -> VoteOutcome:
    """How a vote stands: lost once `needed` votes (a majority, by default) are not possible any more. Answers of others
    than voters count nothing."""
    answers = [votes[voter] for voter in voters if voter in votes]
    needed = needed or majority(voters)
    if sum(answers) >= needed:
        return VoteOutcome.WON
    still_possible = len(voters) - (len(answers) - sum(answers))
    return VoteOutcome.PENDING if still_possible >= needed else VoteOutcome.LOST
