"""Which queue a message goes to.

The one idea: a key always picks the same queue; without one, a queue is kept until its batch closes, and then the next
one is taken, so that batches fill while the load still spreads. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger.client.lane import Lane
from ledger.errors import UnknownQueueError
from ledger.hashing import queue_of


class TopicLanes:
    """The lanes of a topic's queues, in the order of their numbers. `first`: which one the round begins with."""

    def __init__(self, topic: str, lanes: Sequence[Lane], first: int) -> None:
        assert lanes
        self.topic = topic
        self._lanes = lanes
        self._current = first % len(lanes)
        self._closed_before = lanes[self._current].closed

    @property
    def queues(self) -> int:
        return len(self._lanes)

    def extend(self, lanes: Sequence[Lane]) -> None:
        """The topic has more queues: these come behind those that are here."""
        self._lanes = [*self._lanes, *lanes]

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
            self._current = (self._current + 1) % len(self._lanes)
            lane = self._lanes[self._current]
            self._closed_before = lane.closed
        return lane
