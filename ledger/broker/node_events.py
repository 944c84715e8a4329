"""What happened on one node lately: elections, votes, changes of members, damage and its repair.

The node keeps the newest events in memory, for people who look at the cluster (`GetEvents`). Nothing depends on them:
a restart forgets them, and the log on the disk of the process has the same sentences.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

EventKind = Literal[
    "role",  # this replica has another role, or knows another leader
    "vote",  # this replica saved its vote
    "members",  # a change of the members was applied
    "suspect",  # this replica may have lost entries that it acknowledged, or it has them again
    "diverged",  # the log of another member contradicts this log, or does so no longer
    "stopped",  # this replica applies no more entries
    "disk",  # the disk has failed, is full, or works again
    "damage",  # bytes of the log are damaged
    "repair",  # damaged entries were replaced by those of another replica, or were cut
    "log start",  # entries before a new log start were removed
    "feature level",  # the replicated state has a new feature level
]

# How many events of all shards a node remembers.
MAX_EVENTS = 1_000
MAX_TEXT_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """One event. `number` counts the events of this run of the node, from 1. `time_ms` is the wall clock of the node in
    ms since 1970. `subject` is the node that the event is about: the new leader, or who got the vote; else 0."""

    number: int
    time_ms: int
    shard: int
    kind: EventKind
    text: str
    term: int = 0
    subject: int = 0


class NodeEvents:
    """The newest `MAX_EVENTS` events of one run of a node."""

    def __init__(self, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._events: deque[NodeEvent] = deque(maxlen=MAX_EVENTS)
        self._count = 0

    def happened(self, shard: int, kind: EventKind, text: str, *, term: int = 0, subject: int = 0) -> None:
        self._count += 1
        event = NodeEvent(self._count, self._now_ms(), shard, kind, text[:MAX_TEXT_CHARACTERS], term, subject)
        self._events.append(event)

    def after(self, number: int) -> list[NodeEvent]:
        """Return the events after the event with this number, the oldest first."""
        return [event for event in self._events if event.number > number]
