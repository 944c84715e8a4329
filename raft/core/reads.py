"""Read index (dissertation, section 6.4): linearizable reads that write nothing.

A read begins with `request`. After a read was requested, `begin` starts a round of heartbeats that covers the read.
After a majority has confirmed the round, and the no-op is committed, the read is answered.

The commit index at the time of the request is a correct answer if the leader still led after that time. A round of
heartbeats that began after the request, and that a majority answered, proves that the leader still led. All reads that
arrive during a round are confirmed together by the next round.
"""

from __future__ import annotations

from collections import deque


class UnconfirmedReads:
    """The reads of one leadership that no majority has confirmed."""

    __slots__ = ("_asked", "_requested")

    def __init__(self) -> None:
        # (token, index) of each read for which no round of heartbeats has begun.
        self._requested: list[tuple[int, int]] = []
        # (round, token, index) of each read that waits for a majority to confirm that round. Rounds ascend.
        self._asked: deque[tuple[int, int, int]] = deque()

    def request(self, token: int, index: int) -> None:
        """Register the read with the token `token`. `index` is the entry that must be applied before the read is
        answered."""
        self._requested.append((token, index))

    @property
    def needs_round(self) -> bool:
        """Return True if the leader should begin a round of heartbeats for new reads now."""
        return bool(self._requested) and not self._asked

    @property
    def in_round(self) -> bool:
        """Return True if some reads wait until a majority confirms the present round."""
        return bool(self._asked)

    def begin(self, number: int) -> None:
        """Record that a round of heartbeats begins now. The round covers all reads requested before this call."""
        self._asked.extend((number, token, index) for token, index in self._requested)
        self._requested.clear()

    def take(self, confirmed_round: int) -> tuple[tuple[int, int], ...]:
        """Remove the reads that the confirmed round covers, and return them as (token, index)."""
        answered = []
        while self._asked and self._asked[0][0] <= confirmed_round:
            _, token, index = self._asked.popleft()
            answered.append((token, index))
        return tuple(answered)
