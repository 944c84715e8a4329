"""Linearizable reads that wait at the leader (Raft dissertation, section 6.4).

A read waits for two conditions, one after the other. First, a majority must confirm that this node still leads. After
the majority has confirmed, the node must apply every entry that was committed when the read began.

    begin ──> waiting for a majority ──confirm──> waiting for entries ──applied──> answer(True)
                      └──────────── leadership lost ────────┴──────────────────> answer(False)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from raft.core import Crowded

# The largest number of waiting reads, in both states together.
MAX_READS = 65_536

_Answer = Callable[[bool], None]


class WaitingReads:
    """Holds the reads of one replica that wait for an answer. Each read is in exactly one of two states, not
    confirmed or confirmed, and is answered once."""

    def __init__(self) -> None:
        # By token: reads for which no majority has confirmed the leader yet.
        self._unconfirmed: dict[int, _Answer] = {}
        # (index that must be applied, answer). The indexes never decrease.
        self._confirmed: deque[tuple[int, _Answer]] = deque()
        self._next_token = 1

    def next_token(self) -> int:
        """Return a token that no other read has. Raise Crowded if too many reads wait."""
        if len(self._unconfirmed) + len(self._confirmed) >= MAX_READS:
            raise Crowded("reads", MAX_READS)
        token = self._next_token
        self._next_token += 1
        return token

    def begin(self, token: int, answer: _Answer) -> None:
        """Record that the core has accepted the read with this token."""
        self._unconfirmed[token] = answer

    def confirm(self, token: int, index: int) -> None:
        """Record that a majority has confirmed the leader. From now on, the read waits until the entry `index` is
        applied."""
        self._confirmed.append((index, self._unconfirmed.pop(token)))

    def answer(self, applied: int) -> None:
        """Answer True to the confirmed reads whose entry is applied."""
        while self._confirmed and self._confirmed[0][0] <= applied:
            self._confirmed.popleft()[1](True)

    def give_up(self) -> list[_Answer]:
        """Remove all waiting reads. Return the answer functions of the reads in order. The caller calls each
        returned function with False."""
        answers = [*self._unconfirmed.values(), *(answer for _, answer in self._confirmed)]
        self._unconfirmed.clear()
        self._confirmed.clear()
        return answers
