"""The suspect rule: what a node may do that may have lost what it acknowledged.

The arguments of section 5.4 rest on servers that keep what they acknowledge. One that may not have kept
it (its machine lost power before the log was flushed) takes no part in them until its leader has given it back.

    started with a suspicion        a leader found that it holds all that it may have held
    ------------------------> SUSPECT -----------------------------------------------------> trusted
                                 |
                                 +-- or every voter voted for one leader: what is lost is lost

- A suspect neither votes nor counts: not for a commit, not for a read, not for an election. A majority m that committed
  and a majority m that elects still share a node that kept what it acknowledged: with k suspects of n, at least m - k
  others acknowledged the commit, m others elect, and m - k + m is more than the n - k that there are.
- A leader believes nothing that a suspect acknowledged before it heard of the suspicion. It lifts the suspicion once
  the suspect holds the whole log that the leader had then: all that the suspect can ever have acknowledged to it.
- Where too many are suspect for that, every voter must answer: then suspects vote too, and the longest log wins.

A suspicion is a random number, drawn at each start, so that what is said of an earlier life is never taken for this
one's.
"""

from __future__ import annotations


class Suspicion:
    """A leader's view of one follower that is suspect."""

    __slots__ = ("known_since", "number", "owed")

    def __init__(self, number: int, last_index: int, round_number: int) -> None:
        # As the follower gave it; never 0.
        self.number = number
        # The leader's last index when it heard of it: what the follower must hold to be trusted again.
        self.owed = last_index
        # The newest round of heartbeats at that time.
        self.known_since = round_number

    def lifted(self, match: int) -> int:
        """What a heartbeat says to a follower that holds the log up to `match`: the number, if its suspicion is lifted;
        otherwise 0."""
        return self.number if match >= self.owed else 0

    def is_over(self, round_number: int) -> bool:
        """Whether an answer to that round that speaks of no suspicion shows that there is none: it was given after the
        suspicion was heard of, and only the leader of this term could lift it (or it was an old message)."""
        return round_number > self.known_since
