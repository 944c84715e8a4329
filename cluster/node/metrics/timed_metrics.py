"""The metrics of messages that wait for their delivery times, read at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from prometheus_client.core import Metric

from cluster.node.metrics.definition import SHARDS, counter, gauge
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.timed.applied_timed import cursor_of
from store import StoreError, TimedKey

WAITING = gauge("ledgermq_timed_waiting_messages", "Messages that wait for their delivery times.", ["shard"], SHARDS)
WAITING_BYTES = gauge(
    "ledgermq_timed_waiting_bytes", "Bytes of the messages that wait for their delivery times.", ["shard"], SHARDS
)
OVERDUE = gauge(
    "ledgermq_timed_overdue_seconds",
    "On the leader: how long the oldest due message waits for its delivery.",
    ["shard"],
    SHARDS,
)
UNREADABLE = gauge(
    "ledgermq_timed_unreadable_messages",
    "On the leader: due messages that this node cannot read.",
    ["shard"],
    SHARDS,
)
DROPPED = counter(
    "ledgermq_timed_dropped_total",
    "Due messages that this leader dropped, because their topic was deleted.",
    ["shard"],
    SHARDS,
)

TIMED = (WAITING, WAITING_BYTES, OVERDUE, UNREADABLE, DROPPED)


class Delivering(Protocol):
    """What the delivery of a shard has counted on this node."""

    @property
    def dropped(self) -> int: ...
    @property
    def unreadable(self) -> int: ...


class TimedCollector:
    """A Prometheus collector, for `CollectorRegistry.register`."""

    def __init__(self, shards: Callable[[], Iterable[tuple[BrokerReplica, Delivering]]]) -> None:
        """At each scrape, `shards()` returns the replicas that have started on this node."""
        self._shards = shards

    def collect(self) -> Iterator[Metric]:
        waiting, size, overdue, unreadable, dropped = (definition.family() for definition in TIMED)
        for replica, delivering in self._shards():
            shard = [str(replica.shard)]
            try:
                total = replica.timed.waiting(replica.state)
            except StoreError:
                continue  # the next scrape tries again
            waiting.add_metric(shard, total.messages)
            size.add_metric(shard, total.bytes)
            unreadable.add_metric(shard, delivering.unreadable)
            dropped.add_metric(shard, delivering.dropped)
            if replica.knows_the_end:
                overdue.add_metric(shard, overdue_s(replica))
        yield from (waiting, size, overdue, unreadable, dropped)


def overdue_s(replica: BrokerReplica) -> float:
    """Return how long the first waiting message after the cursor is due, in seconds, by the clocks of a majority. 0: it
    is not due, or the time is not known."""
    now_ms, cursor = replica.driver.passed_ms(), cursor_of(replica.state)
    try:
        first_ms = replica.timed.index.next_ms(TimedKey(cursor.time_ms, cursor.identity), cursor)
    except StoreError:
        return 0.0
    return 0.0 if now_ms is None or first_ms is None else max(0.0, (now_ms - first_ms) / 1000)
