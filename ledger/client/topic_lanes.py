"""Which queue a message goes to.

The one idea: a key always picks the same queue; without one, a queue is kept until its batch closes, and then the next
one is taken, so that batches fill while the load still spreads. Queues that had better be left alone are passed over in
this round, while there are others. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ledger.client.lane import Lane
from ledger.errors import UnknownQueueError
from ledger.hashing import queue_of


class TopicLanes:
    """The lanes of a topic's queues, in the order of their numbers. `first`: which one the round begins with.
    `is_available`: whether a lane's shard is not to be passed over."""

    def __init__(
        self,
        topic: str,
        topic_id: int,
        lanes: Sequence[Lane],
        first: int,
        is_available: Callable[[Lane], bool] = lambda _: True,
    ) -> None:
        assert lanes
        self.topic = topic
        self.topic_id = topic_id
        self._is_available = is_available
        self._lanes: list[Lane] = []
        self.extend(lanes)
        self._current = first % len(lanes)
        self._closed_before = lanes[self._current].closed

    @property
    def queues(self) -> int:
        return len(self._lanes)

    def extend(self, lanes: Sequence[Lane]) -> None:
        """The topic has more queues: these come behind those that are here."""
        self._lanes.extend(lanes)
        for lane in lanes:
            lane.siblings = self._lanes

    def pick(self, key: bytes | None, queue: int | None) -> Lane:
        """The lane of the queue asked for, else of the key's queue, else the one whose turn it is."""
        if queue is not None:
            if not 0 <= queue < len(self._lanes):
                raise UnknownQueueError(
                    f'Topic "{self.topic}" has no queue {queue}: its queues are 0 to {len(self._lanes) - 1}.'
                )
            return self._lanes[queue]
        if key is not None:
            return self._lanes[queue_of(key, len(self._lanes))]
        return self._whose_turn()

    def _whose_turn(self) -> Lane:
        lane = self._lanes[self._current]
        if lane.closed != self._closed_before:
            lane = self._go_to(self._current + 1)
        if not self._is_available(lane):
            lane = self._go_to(self._next_available())
        return lane

    def _next_available(self) -> int:
        """The one whose turn it is, where there is none."""
        places = range(self._current, self._current + len(self._lanes))
        available = (place for place in places if self._is_available(self._lanes[place % len(self._lanes)]))
        return next(available, self._current)

    def _go_to(self, place: int) -> Lane:
        self._current = place % len(self._lanes)
        lane = self._lanes[self._current]
        self._closed_before = lane.closed
        return lane
