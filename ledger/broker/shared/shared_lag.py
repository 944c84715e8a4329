"""What a shared group has not consumed in one queue, and what of it is handed out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.consumer_groups.lag import Lag, append_time
from ledger.broker.shared.lease_clock import are_free
from ledger.state import TopicQueueId
from ledger.state.lease_window import LeaseWindow


@dataclass(frozen=True, slots=True)
class SharedLag:
    """The lag of a shared group in one queue. A message is leased until its lease ends, and else it waits."""

    queue: TopicQueueId
    offset: int
    lag: Lag
    leased: int
    waiting: int
    # The number of offsets in the window.
    window: int
    # How long the lease still lasts that ends first, in ms; 0: no message is leased.
    lease_left_ms: int
    # The largest number of times that a message was handed out.
    most_attempts: int


def shared_lags(replica: BrokerReplica, consumer_group: str) -> Iterator[SharedLag]:
    """Yield the lag of a shared group in each queue of the shard in which it has begun."""
    group = replica.state.shared.leases.get(consumer_group)
    for queue, window in sorted(group.windows.items()) if group is not None else ():
        yield shared_lag(replica, queue, window)


def shared_lag(replica: BrokerReplica, queue: TopicQueueId, window: LeaseWindow) -> SharedLag:
    """Return the lag of a group in one queue, by its window."""
    units = replica.queues.get(*queue)
    first, end = units.first_offset, replica.state.next_offset(*queue)
    slots = window.slots[max(0, first - window.begin) :]
    still_open = slots[slots["is_settled"] == 0]
    now_ms = replica.lease_time_ms
    leased = still_open[(still_open["lease"] > 0) & ~are_free(still_open, now_ms)]
    messages = len(still_open) + end - max(window.end, first)
    oldest = max(window.begin, first)
    while (slot := window.slot(oldest)) is not None and slot["is_settled"]:
        oldest += 1
    return SharedLag(
        queue,
        window.begin,
        Lag(first, end, messages, append_time(replica, units, oldest) if messages else 0),
        len(leased),
        len(still_open) - len(leased),
        len(window),
        int(leased["free_ms"].min()) - now_ms if len(leased) else 0,
        int(np.max(still_open["attempts"], initial=0)),
    )
