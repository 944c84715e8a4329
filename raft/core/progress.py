"""Tracks the progress of one follower: what the leader knows about the follower's log, and which messages the leader
may send to the follower.

PROBE: the leader sends one empty Append at a time to find the last entry on which the leader's log and the follower's
log agree. REPLICATE: the logs agree, so the leader sends more entries before earlier entries are acknowledged, within
limits. SNAPSHOT: the follower lacks entries from before the leader's log start, so the leader first sends the
snapshot, one piece at a time.

                       agreed at next - 1
        PROBE  -------------------------------->  REPLICATE
         ^  ^                                         |  |
         |  +-----------------------------------------+  |
         |     the stream broke, or an Append was refused   |
         |                                               |
         +-- installed --  SNAPSHOT  <-------------------+  next <= snapshot_index, also from PROBE
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from raft.core.answers import Answers
from raft.core.election_timer import RaftTiming
from raft.core.suspicion import Suspicion

MAX_IN_FLIGHT_MESSAGES = 64
MAX_IN_FLIGHT_BYTES = 8 << 20


class Mode(Enum):
    PROBE = "probe"
    REPLICATE = "replicate"
    SNAPSHOT = "snapshot"


class FollowerProgress:
    """The leader's knowledge about one follower: its state, its acknowledgements, and the messages in flight."""

    __slots__ = (
        "_in_flight",
        "answers",
        "diverges",
        "feature_level",
        "heard_at",
        "in_flight_bytes",
        "match",
        "mode",
        "next",
        "offset",
        "paused",
        "refuses_writes",
        "round",
        "snapshot_index",
        "suspicion",
        "waited",
    )

    def __init__(self, next_index: int) -> None:
        # The follower holds the leader's log up to here. The value falls only if the follower itself reports that a
        # power cut destroyed entries. A value that is too small is always safe.
        self.match = 0
        # The next entry to send; match < next <= last_index + 1.
        self.next = next_index
        self.mode = Mode.PROBE
        # In PROBE and SNAPSHOT: one message is waiting for its answer. It is sent again after the next heartbeat.
        self.paused = False
        # Only in SNAPSHOT: the index of the snapshot that the leader is sending, and the next byte to send.
        self.snapshot_index = 0
        self.offset = 0
        # (last index, bytes) of each Append that was sent and is not acknowledged. Only in REPLICATE; ascending,
        # match < last index < next.
        self._in_flight: deque[tuple[int, int]] = deque()
        # The sum of the bytes in _in_flight; bounded by MAX_IN_FLIGHT_BYTES and one Append.
        self.in_flight_bytes = 0
        # Ticks since the follower acknowledged something, counted while something is in flight.
        self.waited = 0
        # The leader's tick at which the follower was last heard.
        self.heard_at = 0
        # The newest round of heartbeats that the follower answered.
        self.round = 0
        # The highest feature level that the follower's program supports, as it last said.
        self.feature_level = 0
        # Whether the follower's disk takes no new data, as the follower last said.
        self.refuses_writes = False
        # Not None while the follower is a suspect: its acknowledgements do not count (see suspicion.py).
        self.suspicion: Suspicion | None = None
        # The follower's log contradicts a committed entry, so the follower gets no entries (see divergence.py).
        self.diverges = False
        # Whether the follower answers what it is sent (see answers.py).
        self.answers = Answers()

    @property
    def held(self) -> int:
        """Return the index that counts for a commit: `match`, or 0 while the follower is a suspect or diverges."""
        return 0 if self.suspicion or self.diverges else self.match

    @property
    def confirmed(self) -> int:
        """Return the heartbeat round that counts for a read: `round`, or 0 while the follower is a suspect or
        diverges."""
        return 0 if self.suspicion or self.diverges else self.round

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def is_full(self) -> bool:
        return self.in_flight >= MAX_IN_FLIGHT_MESSAGES or self.in_flight_bytes >= MAX_IN_FLIGHT_BYTES

    @property
    def may_stream(self) -> bool:
        return self.mode is Mode.REPLICATE and not self.is_full and not self.diverges

    def must_ask(self, patience: int) -> bool:
        """Return True if the leader should send an empty Append at the index `next - 1`, to ask whether the logs agree
        there. The leader asks before it sends entries. It asks again if Appends in flight were not acknowledged for
        `patience` ticks, because some of them may be lost."""
        if self.diverges:
            return False
        if self.mode is Mode.REPLICATE:
            return self.waited >= patience
        return self.mode is Mode.PROBE and not self.paused

    def asked(self) -> None:
        """Record that the leader has sent an empty Append or a piece of a snapshot."""
        self.paused = self.mode is not Mode.REPLICATE
        self.waited = 0

    def streamed(self, last_index: int, size: int) -> None:
        """Record that the leader has sent this follower the entries from the follower's next index up to
        `last_index`."""
        assert self.may_stream, "entries may be streamed only in REPLICATE, and only within the bounds"
        assert last_index >= self.next, f"an Append to {last_index} carries nothing from {self.next} on"
        self._in_flight.append((last_index, size))
        self.in_flight_bytes += size
        self.next = last_index + 1

    def accepted(self, match: int) -> bool:
        """Record that the follower holds the log up to `match`. Return True if the call raises the follower's
        `match`."""
        rises = match > self.match
        self.match = max(self.match, match)
        self.next = max(self.next, match + 1)
        if self.mode is Mode.PROBE and match == self.next - 1:
            self.mode, self.paused = Mode.REPLICATE, False
        elif self.mode is Mode.SNAPSHOT and match >= self.snapshot_index:
            self.mode, self.paused = Mode.PROBE, False
        self._land()
        return rises

    def must_send(self, snapshot_index: int) -> bool:
        """Return True if the leader should send the next piece of the snapshot at this index now. The piece is sent
        only if the follower lacks entries up to this index and no piece waits for its answer."""
        if self.next > snapshot_index or self.diverges:
            return False
        if self.mode is not Mode.SNAPSHOT or self.snapshot_index != snapshot_index:
            self.restart()
            self.mode, self.snapshot_index, self.offset = Mode.SNAPSHOT, snapshot_index, 0
        return not self.paused

    def received(self, snapshot_index: int, offset: int) -> None:
        """Record that the follower has the first `offset` bytes of the snapshot at this index."""
        if self.mode is Mode.SNAPSHOT and snapshot_index == self.snapshot_index:
            self.offset, self.paused = offset, False

    def rejected(self, rejected_index: int, agreement: int) -> None:
        """Record that the follower has rejected an Append whose entries follow the entry `rejected_index`. The two
        logs can agree at most up to the index `agreement`. The method ignores an answer to an outdated message."""
        if self.mode is Mode.REPLICATE:
            if rejected_index > self.match:
                self.restart()
        elif self.mode is Mode.PROBE and rejected_index == self.next - 1:
            self.next = max(1, min(rejected_index, agreement + 1))
            self.match = min(self.match, self.next - 1)
            self.paused = False

    def suspect(self, number: int, last_index: int, round_number: int) -> None:
        """Forget the acknowledgements of a follower that reports that it may have lost acknowledged entries."""
        self.restart()
        self.match = 0
        self.suspicion = Suspicion(number, last_index, round_number)

    def trust(self) -> None:
        """From now on, count the acknowledgements of this former suspect, because it has received all entries that
        it may have lost."""
        self.suspicion = None
        self.restart()

    def restart(self) -> None:
        """Make the leader ask again where both logs agree, because messages in flight may be lost. In the mode
        PROBE, the follower's next index does not change."""
        if self.mode is Mode.REPLICATE:
            self.mode, self.next = Mode.PROBE, self.match + 1
            self._in_flight.clear()
            self.in_flight_bytes = self.waited = 0
        self.paused = False

    def diverge(self) -> None:
        """Forget the acknowledgements of a follower whose log contradicts a committed entry, and send it nothing."""
        self.restart()
        self.match = 0
        self.diverges = True

    def tick(self, now: int, timing: RaftTiming) -> bool:
        """Count one tick. Return True if the stream to the follower must be opened again, because the follower does not
        answer what it is sent. The progress has then been restarted."""
        self.waited = self.waited + 1 if self._in_flight else 0
        is_due = not self.diverges and (self.paused or bool(self._in_flight))
        if not self.answers.tick(now, timing, is_due=is_due):
            return False
        self.restart()
        return True

    def heartbeat(self) -> None:
        """Allow the leader to repeat a message that was not answered since the last heartbeat."""
        self.paused = False

    def _land(self) -> None:
        """Remove the acknowledged Appends from the list of Appends in flight."""
        while self._in_flight and self._in_flight[0][0] <= self.match:
            self.in_flight_bytes -= self._in_flight.popleft()[1]
            self.waited = 0
