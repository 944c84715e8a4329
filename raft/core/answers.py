"""Notices a mute follower: it answers heartbeats, and neither acknowledges nor rejects what the leader sends to it.

Entries and heartbeats use different streams. If the stream of entries, or of the answers to them, loses everything, the
follower looks alive and every write waits for ever.

    something is unanswered, and the heartbeats' answers say that the follower owes nothing
      2 election timeouts ──> the stream is opened again ──> 4 ──> opened again ──> 8 ──> opened again ──> ...
                                                                                             the follower is mute

An answer of any kind ends this. After a stream is opened again, the leader sends only an empty Append until an answer
comes, so a slow network does not look like a mute follower. The wait grows for the whole leadership, so entries that
need long to arrive are not sent in vain again and again.

A follower with a slow or full disk, and a follower that waits for an fsync, are not mute: they say that they owe an
answer. So does a follower with a program from before this rule. If mute followers keep a leader from committing,
together with followers that are not heard or without them, the leader steps down, and for some time does not stand.
"""

from __future__ import annotations

from raft.core.election_timer import RaftTiming

# After this many election timeouts without an answer the stream is opened again; doubles each time.
FIRST_PATIENCE = 2
# While this many heartbeats are not answered, the stream may be as good as the network.
MISSED_HEARTBEATS = 2
# A follower is mute if its stream was opened again this many times, without an answer since the first time.
MUTE_AFTER = 3
# A leader that steps down because of mute followers does not stand again for this many election timeouts.
YIELD_PATIENCE = 4


class Answers:
    """The leader's knowledge about one follower's answers to Appends and to pieces of a snapshot."""

    __slots__ = ("_heard_at", "_owes_nothing", "_patience", "_unanswered", "reopened")

    def __init__(self) -> None:
        # How often the stream was opened again since the follower's last answer.
        self.reopened = 0
        # In election timeouts.
        self._patience = FIRST_PATIENCE
        # The ticks in which an answer was due and heartbeats were answered.
        self._unanswered = 0
        # What the follower's last answer to a heartbeat said, and the leader's tick at that time.
        self._owes_nothing = False
        self._heard_at = 0

    @property
    def are_missing(self) -> bool:
        """Return True if the stream was opened again, and no answer has come since."""
        return self.reopened > 0

    @property
    def is_mute(self) -> bool:
        return self.reopened >= MUTE_AFTER

    def came(self) -> None:
        """Record an answer to an Append or to a piece of a snapshot."""
        self.reopened = self._unanswered = 0

    def heartbeat(self, now: int, *, owes_nothing: bool) -> None:
        """Record an answer to a heartbeat, at the leader's tick `now`."""
        self._heard_at, self._owes_nothing = now, owes_nothing

    def tick(self, now: int, timing: RaftTiming, *, is_due: bool) -> bool:
        """Count one tick. `is_due` says whether the follower was sent something that it has not answered. Return True
        if its stream must be opened again now."""
        if not (is_due and self._owes_nothing):
            self._unanswered = 0
            return False
        if now - self._heard_at > MISSED_HEARTBEATS * timing.heartbeat_ticks:
            return False  # heartbeats are lost, too
        self._unanswered += 1
        if self._unanswered < self._patience * timing.election_ticks:
            return False
        self.reopened += 1
        self._patience *= 2
        self._unanswered = 0
        return True
