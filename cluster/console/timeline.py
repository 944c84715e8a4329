"""The recent elections of a shard as a drawing: a lane for each node, coloured by its role, with marks for votes.

node 1  |LLLLLLLLLLLL|FFFFFFFFFFF|
node 2  |FFFFFFFFFFFv|C|LLLLLLLLL|
node 3  |FFFFFFFFFFFFv|FFFFFFFFFF|
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cluster.console.picture import SeenEvent, SeenReplica

WIDTH = 1000.0
SPAN_MS = 10 * 60_000


@dataclass(frozen=True, slots=True)
class RoleSpan:
    """A node had a role from `x` on, for `width`."""

    role: str
    term: int
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class VoteMark:
    x: float
    term: int
    voted_for: int


@dataclass(frozen=True, slots=True)
class Lane:
    node: int
    spans: tuple[RoleSpan, ...]
    votes: tuple[VoteMark, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The lanes, and the time of the drawing's left end, in ms since 1970."""

    since_ms: int
    lanes: tuple[Lane, ...]


def timeline_of(events: Sequence[SeenEvent], replicas: Sequence[SeenReplica], now_ms: int) -> Timeline:
    """Return the elections of the last `SPAN_MS`. `events` are those of one shard, in any order. A replica without a
    known change of role has had its present role all the time."""
    since_ms = now_ms - SPAN_MS
    return Timeline(since_ms, tuple(_lane(events, replica, since_ms, now_ms) for replica in replicas))


def _lane(events: Sequence[SeenEvent], replica: SeenReplica, since_ms: int, now_ms: int) -> Lane:
    own = sorted(
        (event for event in events if event.node == replica.node), key=lambda event: (event.time_ms, event.number)
    )
    changes = [event for event in own if event.kind == "role"]
    ends = [*(event.time_ms for event in changes[1:]), now_ms] if changes else []
    spans = [] if changes else [RoleSpan(replica.status.role, replica.status.term, 0.0, WIDTH)]
    for change, end_ms in zip(changes, ends, strict=True):
        x, end = _place(change.time_ms, since_ms), _place(end_ms, since_ms)
        if end > 0:
            spans.append(RoleSpan(change.text, change.term, x, round(max(1.0, end - x), 1)))
    votes = tuple(
        VoteMark(_place(event.time_ms, since_ms), event.term, event.subject)
        for event in own
        if event.kind == "vote" and event.time_ms >= since_ms
    )
    return Lane(replica.node, tuple(spans), votes)


def _place(time_ms: int, since_ms: int) -> float:
    return round(min(1.0, max(0.0, (time_ms - since_ms) / SPAN_MS)) * WIDTH, 1)
