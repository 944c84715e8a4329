"""The suspect rule limits a server that may have lost entries that it acknowledged.

The safety proof of Raft (section 5.4) needs servers that keep every entry they acknowledge. A server whose machine
loses power before the log is flushed may lose acknowledged entries. This server is a suspect until the leader has sent
it all entries that it lost.

    started with a suspicion        the leader lifts the suspicion: all entries are here again
    ------------------------> SUSPECT -------------------------------------------------------> trusted
                                 |
                                 +-- or this server was elected, or an operator accepted the loss

- A suspect does not count for a commit, for a read or for an election. Let n be the number of voters, k the number of
  suspects and m a majority. Among the n - k other voters, at least m - k acknowledged a committed entry, and m elect a
  leader. Because (m - k) + m > n - k, at least one voter did both.
- When a leader hears of a suspicion, it forgets all earlier acknowledgements of that suspect. It lifts the suspicion
  when the suspect holds the log up to the last index that the leader had at that time. The suspect cannot have
  acknowledged more than that to this leader.
- If there are too many suspects for an election, a candidate needs the votes of all voters. In such an election
  suspects vote too, and the most up-to-date log wins. The loss of any other entry is accepted.

A suspicion has a random number, which the suspect draws at each start. By this number, a message about an earlier run
of the suspect is never mistaken for a message about the present run.
"""

from __future__ import annotations


class Suspicion:
    """The leader's knowledge about one follower that is a suspect."""

    __slots__ = ("known_since", "number", "owed")

    def __init__(self, number: int, last_index: int, round_number: int) -> None:
        # The random number that the follower sent; never 0.
        self.number = number
        # The leader's last index when it heard of the suspicion. The follower is trusted again when it holds the log up
        # to this index.
        self.owed = last_index
        # The newest round of heartbeats when the leader heard of the suspicion.
        self.known_since = round_number

    def lifted(self, match: int) -> int:
        """Return the number of the suspicion if it is lifted for a follower that holds the log up to `match`. If
        the suspicion is not lifted, return 0. The next heartbeat carries the returned number."""
        return self.number if match >= self.owed else 0

    def is_over(self, round_number: int) -> bool:
        """Return True if an answer to round `round_number` proves that the suspicion is lifted. The answer to a
        heartbeat must contain no suspicion.

        An answer proves this only for rounds that began after the leader heard of the suspicion. An answer to a
        round that began earlier may be older than the suspicion."""
        return round_number > self.known_since
