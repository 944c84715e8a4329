"""Delays of retry topics: a fetch returns a message of a retry topic only after its delay.

    retry queue 3      o o o o | o o o         append times never decrease, and all messages wait equally long,
                               ^ due up to here        so the due messages are the first ones of the queue

A message stays in its queue when its delay has passed. A fetch reads the queue only up to the first message that is
not due yet, by the clock of this node. `Due` tells the fetch how long it must wait until the next message is due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ledger.broker.broker_replica import BrokerReplica
from ledger.errors import StorageFailedError
from ledger.retries import RETRY
from store import UNREADABLE
from store.index.time_index import offset_at, position_at


@dataclass(frozen=True, slots=True)
class Due:
    """The offset at which the due messages of a queue end, and the time until the next message is due."""

    end_offset: int
    # Seconds until the message at `end_offset` is due; None: there is no such message.
    next_in_s: float | None


class Delays:
    """Says when each message of a retry topic is due, by the clock that dates the entries of its shard."""

    def __init__(self, delays_s: Sequence[float]) -> None:
        """`delays_s` has the delay of each retry queue in a shard, in seconds; further queues have the last delay."""
        self._delays_ms = [round(delay * 1000) for delay in delays_s]

    def due(self, replica: BrokerReplica, topic_id: int, queue: int) -> Due | None:
        """Return the offset at which the due messages of a retry queue end, and the time until the next message is
        due. Return None if the queue is not in a retry topic. Raises StorageFailedError if an entry whose append time
        is needed is damaged on this node."""
        topic = replica.state.topics.get(topic_id)
        if topic is None or not topic.name.startswith(RETRY):
            return None
        end = replica.state.next_offset(topic_id, queue)
        units = replica.queues.get(topic_id, queue)
        if units.first_offset == end:
            return Due(end, None)
        step = sum(shard == topic.shards[queue] for shard in topic.shards[:queue])
        delay_ms = self._delays_ms[min(step, len(self._delays_ms) - 1)]
        now_ms = replica.driver.now_ms()
        appended_before = now_ms - delay_ms + 1
        try:
            due = min(end, offset_at(units, position_at(replica.log, appended_before, replica.driver.applied)))
            if due == end:
                return Due(end, None)
            header = replica.log.reading.header_at(int(units.read(due, 1)["position"][0]))
        except UNREADABLE as damage:
            raise StorageFailedError(f"this node cannot read when messages are due: {damage}") from damage
        return Due(due, max(0.0, (header.append_time_ms + delay_ms - now_ms) / 1000))
