"""Messages that wait for their time: those of retry topics.

    retry queue 3      o o o o | o o o         append times never fall, and all wait equally long:
                               ^ due up to here        so what is due is a beginning of the queue

Nothing has to be moved when its time comes. A fetch sees the queue only as far as it is due, by the clock of the node
that is asked, and is told when there will be more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ledger.broker.broker_replica import BrokerReplica
from ledger.retries import RETRY
from store.index.time_index import offset_at, position_at


@dataclass(frozen=True, slots=True)
class Due:
    """A queue as far as it is due."""

    end_offset: int
    next_in_s: float | None
    """When the message at `end_offset` is due; None: there is none."""


class Delays:
    """`delays_s`: how long the messages of each step wait; those of further steps as long as of the last."""

    def __init__(self, delays_s: Sequence[float], now_ms: Callable[[], int]) -> None:
        self._delays_ms = [round(delay * 1000) for delay in delays_s]
        self._now_ms = now_ms

    def due(self, replica: BrokerReplica, topic_id: int, queue: int) -> Due | None:
        """None where messages of that queue do not wait."""
        topic = replica.state.topics.get(topic_id)
        if topic is None or not topic.name.startswith(RETRY):
            return None
        end = replica.state.next_offset(topic_id, queue)
        units = replica.queues.get(topic_id, queue)
        if units.first_offset == end:
            return Due(end, None)
        step = sum(shard == topic.shards[queue] for shard in topic.shards[:queue])
        delay_ms = self._delays_ms[min(step, len(self._delays_ms) - 1)]
        appended_before = self._now_ms() - delay_ms + 1
        due = min(end, offset_at(units, position_at(replica.log, appended_before, replica.driver.applied)))
        if due == end:
            return Due(end, None)
        header = replica.log.reading.header_at(int(units.read(due, 1)["position"][0]))
        return Due(due, max(0.0, (header.append_time_ms + delay_ms - self._now_ms()) / 1000))
