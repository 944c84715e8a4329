"""The lag of a consumer group in a queue has two values: the number of messages that the group has not consumed, and
the age of the oldest of them.

    consumed      |  not consumed  |
    | . . . . . . |  x x o x x x x |         lag: the six x (o is settled); the first x is the oldest
                  ^ offset         ^ end
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from ledger.broker.broker_replica import BrokerReplica
from ledger.state.progress_table import ConsumedQueue, QueueProgress
from store import UNREADABLE, ConsumeQueue


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag in one queue, with the first and the end offset of the queue."""

    first_offset: int
    end_offset: int
    # Messages that are in the log, and neither consumed nor settled.
    messages: int
    # Append time of the first of them in ms since 1970; 0: there is none, or the log is damaged there.
    waiting_since_ms: int


def lag_of(replica: BrokerReplica, key: ConsumedQueue, progress: QueueProgress) -> Lag:
    """Return the lag of a consumer group in one queue, according to the applied state of this replica."""
    units = replica.queues.get(key.topic_id, key.queue)
    first, end = units.first_offset, replica.state.next_offset(key.topic_id, key.queue)
    at = max(progress.offset, first)
    settled = len(progress.settled) - bisect_left(progress.settled, at)
    messages = max(0, end - at - settled)
    if not messages:
        return Lag(first, end, 0, 0)
    while progress.has_settled(at):
        at += 1
    return Lag(first, end, messages, append_time(replica, units, at))


def append_time(replica: BrokerReplica, units: ConsumeQueue, offset: int) -> int:
    try:
        return replica.log.reading.header_at(int(units.read(offset, 1)["position"][0])).append_time_ms
    except UNREADABLE:  # scrub repair replaces the damaged bytes
        return 0
