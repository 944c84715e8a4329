"""What the leader knows of one follower, and what it may send it.

The one idea: until the follower has shown where its log agrees, the leader only asks (PROBE, empty Appends, one at a
time); from then on it streams ahead of the acknowledgements (REPLICATE), within bounds.

                       agreed at next - 1
        PROBE  -------------------------------->  REPLICATE
          ^                                           |
          +-------------------------------------------+
             the stream broke, or an Append was refused

Must not know: terms, the log, other followers.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from raft.core.suspicion import Suspicion

MAX_IN_FLIGHT_MESSAGES = 64
MAX_IN_FLIGHT_BYTES = 8 << 20


class Mode(Enum):
    PROBE = "probe"
    REPLICATE = "replicate"


class Progress:
    __slots__ = (
        "_in_flight",
        "heard_at",
        "in_flight_bytes",
        "match",
        "mode",
        "next",
        "paused",
        "round",
        "suspicion",
        "waited",
    )

    def __init__(self, next_index: int) -> None:
        # The follower holds the leader's log up to here. Falls only when the follower itself denies it (it lost what it
        # had not flushed to a power cut); to believe too little is always safe.
        self.match = 0
        # The next entry to send; match < next <= last_index + 1.
        self.next = next_index
        self.mode = Mode.PROBE
        # A question is out; only in PROBE. One at a time, until it is answered or the next heartbeat.
        self.paused = False
        # (last index, bytes) of each Append that was sent and not acknowledged. Only in REPLICATE; ascending,
        # match < last index < next.
        self._in_flight: deque[tuple[int, int]] = deque()
        # The sum of the bytes in _in_flight; bounded by MAX_IN_FLIGHT_BYTES and one Append.
        self.in_flight_bytes = 0
        # Ticks since the follower acknowledged something, counted while something is in flight.
        self.waited = 0
        # The leader's tick at which the follower was last heard.
        self.heard_at = 0
        # The newest round of heartbeats that it answered.
        self.round = 0
        # Not None while the follower is suspect: nothing that it says counts (see suspicion.py).
        self.suspicion: Suspicion | None = None

    @property
    def held(self) -> int:
        """What counts of `match`."""
        return 0 if self.suspicion else self.match

    @property
    def confirmed(self) -> int:
        """What counts of `round`."""
        return 0 if self.suspicion else self.round

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def is_full(self) -> bool:
        return self.in_flight >= MAX_IN_FLIGHT_MESSAGES or self.in_flight_bytes >= MAX_IN_FLIGHT_BYTES

    @property
    def may_stream(self) -> bool:
        return self.mode is Mode.REPLICATE and not self.is_full

    def must_ask(self, patience: int) -> bool:
        """Whether to ask for agreement at next - 1: always before streaming, and again when the follower has kept
        silent about what is in flight for `patience` ticks, for some of it may be lost."""
        return not self.paused if self.mode is Mode.PROBE else self.waited >= patience

    def asked(self) -> None:
        self.paused = self.mode is Mode.PROBE
        self.waited = 0

    def streamed(self, last_index: int, size: int) -> None:
        """The entries next..last_index were sent."""
        assert self.may_stream, "nothing is streamed while probing or beyond the bounds"
        assert last_index >= self.next, f"an Append to {last_index} carries nothing from {self.next} on"
        self._in_flight.append((last_index, size))
        self.in_flight_bytes += size
        self.next = last_index + 1

    def accepted(self, match: int) -> bool:
        """The follower holds the log up to `match`. Returns whether that is news."""
        rises = match > self.match
        self.match = max(self.match, match)
        self.next = max(self.next, match + 1)
        if self.mode is Mode.PROBE and match == self.next - 1:
            self.mode, self.paused = Mode.REPLICATE, False
        self._land()
        return rises

    def rejected(self, rejected_index: int, agreement: int) -> None:
        """The follower's log does not agree at `rejected_index`, and not above `agreement` either. An answer to
        something older than what the progress stands on says nothing and is ignored."""
        if self.mode is Mode.REPLICATE:
            if rejected_index > self.match:
                self.restart()
        elif rejected_index == self.next - 1:
            self.next = max(1, min(rejected_index, agreement + 1))
            self.match = min(self.match, self.next - 1)
            self.paused = False

    def suspect(self, number: int, last_index: int, round_number: int) -> None:
        """The follower says that it may have lost what it acknowledged: nothing of that is believed any more."""
        self.restart()
        self.match = 0
        self.suspicion = Suspicion(number, last_index, round_number)

    def trust(self) -> None:
        """It has been given back all that it may have lost, and knows so."""
        self.suspicion = None
        self.restart()

    def restart(self) -> None:
        """What is in flight may be lost: ask again. A probe that has found no agreement yet goes on where it was."""
        if self.mode is Mode.REPLICATE:
            self.mode, self.next = Mode.PROBE, self.match + 1
            self._in_flight.clear()
            self.in_flight_bytes = self.waited = 0
        self.paused = False

    def tick(self) -> None:
        self.waited = self.waited + 1 if self._in_flight else 0

    def heartbeat(self) -> None:
        """A question that stayed unanswered since the last heartbeat is asked again."""
        self.paused = False

    def _land(self) -> None:
        """Forget what is in flight no more."""
        while self._in_flight and self._in_flight[0][0] <= self.match:
            self.in_flight_bytes -= self._in_flight.popleft()[1]
            self.waited = 0
