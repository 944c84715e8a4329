"""Finds the parts of the time of a request that appended an entry, by what the driver remembers of its entries."""

from __future__ import annotations

from typing import NamedTuple

from ledger.slow_request import FollowerPart, RequestPart
from raft.entry_times import EntryTimes


class EntryParts(NamedTuple):
    """The parts of a request from its proposal to its answer, and what the part `commit` waited for."""

    parts: tuple[RequestPart, ...]
    flush_ms: float | None
    followers: tuple[FollowerPart, ...]


def entry_parts(times: EntryTimes, index: int, proposed_ms: float, ended_ms: float) -> EntryParts:
    """Return the parts of a request whose last entry is `index`. Both times are of the driver's steady clock, in ms.

    A step that is not remembered has no part: its time counts for the next part. The parts together are the time from
    `proposed_ms` to `ended_ms`."""
    steps = (
        ("turn", times.begun),
        ("write", times.written),
        ("commit", times.committed),
        ("apply", times.applied),
    )
    parts, at = [], proposed_ms
    for name, step in steps:
        reached = step.time_of(index)
        if reached is not None:
            until = min(max(reached, at), ended_ms)
            parts.append(RequestPart(name, until - at))
            at = until
    parts.append(RequestPart("answer", ended_ms - at))
    written = times.written.time_of(index)
    if written is None:
        return EntryParts(tuple(parts), None, ())
    held = times.held.time_of(index)
    followers = []
    for node, acknowledged in sorted(times.acknowledged.items()):
        reached = acknowledged.time_of(index)
        late = reached is None or reached > ended_ms
        followers.append(FollowerPart(node, None if late or reached is None else max(0.0, reached - written)))
    return EntryParts(tuple(parts), None if held is None else max(0.0, held - written), tuple(followers))
