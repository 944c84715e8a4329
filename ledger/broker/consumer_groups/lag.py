"""How far a consumer group is behind the end of a queue: in messages, and since when.

consumed         settled           end
| . . . . . . |  x x o x x x x |         lag: the six x; waiting since the first of them was appended
              ^ offset
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from ledger.broker.broker_replica import BrokerReplica
from ledger.state.progress_table import ConsumedQueue, Progress
from store import ConsumeQueue, RangeDamagedError


@dataclass(frozen=True, slots=True)
class Lag:
    first_offset: int
    end_offset: int
    messages: int
    """Those that are kept, and neither consumed nor settled."""
    waiting_since_ms: int
    """When the first of them was appended, in ms since 1970; 0: there is none, or it lies where the log is damaged."""


def lag_of(replica: BrokerReplica, key: ConsumedQueue, progress: Progress) -> Lag:
    """As this node knows it."""
    units = replica.queues.get(key.topic_id, key.queue)
    first, end = units.first_offset, replica.state.next_offset(key.topic_id, key.queue)
    at = max(progress.offset, first)
    settled = len(progress.settled) - bisect_left(progress.settled, at)
    messages = max(0, end - at - settled)
    if not messages:
        return Lag(first, end, 0, 0)
    while progress.has_settled(at):
        at += 1
    return Lag(first, end, messages, _append_time(replica, units, at))


def _append_time(replica: BrokerReplica, units: ConsumeQueue, offset: int) -> int:
    try:
        return replica.log.reading.header_at(int(units.read(offset, 1)["position"][0])).append_time_ms
    except RangeDamagedError:  # it is being repaired
        return 0
