"""What happens to one replica, told to the operator: lines of the log, and events that `ledgermq` and the console show.

What callers or other nodes can cause without end is logged at most once a minute.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from ledger.broker.node_events import NodeEvents
from raft.configuration_entry import ShardConfiguration
from raft.core import Divergences, RoleChange
from raft.errors import CannotApplyError
from raft.transport.rare_log import RareLog
from store import StoreError, Suspect

log = logging.getLogger("ledgermq.broker.replica")


class ReplicaNews:
    """Tells what happens to this node's replica of `shard`. `events` remembers it. `monotonic_s` is a clock in
    seconds."""

    def __init__(self, shard: int, events: NodeEvents, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._shard = shard
        self._events = events
        # The last disk failure that was told; None after a success.
        self._told_failure: StoreError | None = None
        self._divergence_log = RareLog(log, monotonic_s)
        self._unacknowledged_log = RareLog(log, monotonic_s)

    def role_changed(self, change: RoleChange, doubt: Suspect | None) -> None:
        """Tell of a new role, a new leader, or an election. `doubt` is the suspect mark of this node, if it has one."""
        leader = change.leader or "?"
        log.info("shard %d: %s in term %d, leader %s", self._shard, change.role.value, change.term, leader)
        self._events.happened(self._shard, "role", change.role.value, term=change.term, subject=change.leader)
        if change.accepts_loss:
            loss = _loss_accepted(change.term, doubt)
            log.error("shard %d: %s", self._shard, loss)
            self._events.happened(self._shard, "suspect", loss, term=change.term)

    def stepped_down_unacknowledged(self) -> None:
        log.error("shard %d: stopped leading, because a majority acknowledged nothing", self._shard)

    def members_changed(self, configuration: ShardConfiguration) -> None:
        self._events.happened(self._shard, "members", _members_of(configuration))

    def log_starts(self, index: int) -> None:
        self._events.happened(self._shard, "log start", f"the log begins after entry {index}")

    def writes_failed(self, failure: StoreError) -> None:
        """Tell of a failure of the disk, once: the driver tries a full disk again and again, each time with another
        file."""
        if type(failure) is not type(self._told_failure):
            self._told_failure = failure
            log.error("shard %d: no writes on this node: %s", self._shard, failure)
            self._events.happened(self._shard, "disk", f"no writes on this node: {failure}")

    def writes_work(self) -> None:
        """Tell that the disk works again, if its failure was told."""
        if self._told_failure is not None:
            log.info("shard %d: this node accepts writes again", self._shard)
            self._events.happened(self._shard, "disk", "this node accepts writes again")
            self._told_failure = None

    def room_changed(self, why: str) -> None:
        """Tell why the disk has no room, or, with "", that it has room again."""
        self._events.happened(self._shard, "disk", why or "there is room again")

    def diverged(self, divergence: str, term: int) -> None:
        """Tell that other members contradict this log, with the text of `divergence_of`, or, with "", that none does
        any more."""
        text = divergence or "no member contradicts this log any more"
        self._events.happened(self._shard, "diverged", text, term=term)
        if divergence:
            self.refused_as_diverged(divergence)
        else:
            log.warning("shard %d: no member contradicts this log any more: writes are accepted again", self._shard)

    def refused_as_diverged(self, divergence: str) -> None:
        self._divergence_log.error("%s", divergence)

    def unacknowledged(self, peer: int) -> None:
        self._unacknowledged_log.warning(
            "shard %d: node %d answers heartbeats and acknowledges no entries: opening the stream to it again",
            self._shard,
            peer,
        )

    def failed_at(self, index: int) -> None:
        """Log the present exception, a defect of this program, with its traceback."""
        log.critical("shard %d: the program failed at entry %d", self._shard, index, exc_info=True)

    def stopped_applying(self, reason: CannotApplyError) -> None:
        self._events.happened(self._shard, "stopped", f"this replica applies no more entries: {reason}")
        log.error(
            "shard %d: this node applies no more entries, does not lead, and can be read up to the entry before: %s",
            self._shard,
            reason,
        )


def divergence_of(shard: int, divergences: Divergences) -> str:
    """Return the text that tells operators and clients of a divergence, and what to do."""
    told = "; ".join(str(each) for _, each in sorted(divergences.items()))
    return (
        f"the replicas of shard {shard} have diverged, although one of the two logs is committed ({told}). The shard "
        "takes no writes until an operator decides which nodes are right, removes the other nodes (`ledgermq cluster "
        'remove-node`), and adds them again with empty directories: see "Diverged replicas" in OPERATING.md'
    )


def _loss_accepted(term: int, doubt: Suspect | None) -> str:
    since = ""
    if doubt is not None:
        at = datetime.fromtimestamp(doubt.since_ms / 1000, UTC).isoformat(timespec="seconds")
        since = f" (on this node since {at}, after entry {doubt.last_index}: {doubt.reason})"
    return (
        f"this node leads term {term} by the votes of nodes that may have lost acknowledged entries{since}: entries "
        "that no other node stored are lost, and acknowledged messages may be missing"
    )


def _members_of(configuration: ShardConfiguration) -> str:
    voters = ", ".join(map(str, sorted(configuration.voters)))
    learners = ", ".join(map(str, sorted(configuration.learners)))
    return f"voters {voters}" + (f"; learners {learners}" if learners else "")
