"""Chooses the queue of a message: the given queue, the queue of the message's key, or one queue after another. No I/O.

All messages with the same key go to the same queue. Messages without a key go to one queue until its open batch is
closed, and then to the next queue. Because a queue is used until its batch is closed, batches become full, and the
messages are spread over the queues. Messages without a key do not go to a queue of an avoided shard if another queue
is available.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ledger.client.producer.queue_sequencer import QueueSequencer
from ledger.errors import UnknownQueueError
from ledger.hashing import queue_of


class TopicQueueSelector:
    """The sequencers of all queues of one topic, in the order of the queue numbers.

    `first` is the queue for the first messages without a key. The function `is_available` returns False for a
    sequencer if the producer avoids its shard.
    """

    def __init__(
        self,
        topic: str,
        topic_id: int,
        sequencers: Sequence[QueueSequencer],
        first: int,
        is_available: Callable[[QueueSequencer], bool] = lambda _: True,
    ) -> None:
        assert sequencers
        self.topic = topic
        self.topic_id = topic_id
        self._is_available = is_available
        self._sequencers: list[QueueSequencer] = []
        self.extend(sequencers)
        self._current = first % len(sequencers)
        self._closed_before = sequencers[self._current].closed

    @property
    def queues(self) -> int:
        return len(self._sequencers)

    @property
    def current(self) -> int:
        """The queue to which messages without a key go now."""
        return self._current

    @property
    def is_idle(self) -> bool:
        """True if no sequencer has unfinished messages."""
        return all(sequencer.idle for sequencer in self._sequencers)

    def sequencer(self, queue: int) -> QueueSequencer:
        return self._sequencers[queue]

    def extend(self, sequencers: Sequence[QueueSequencer]) -> None:
        """Add the sequencers of new queues after the sequencers of the existing queues."""
        self._sequencers.extend(sequencers)
        for sequencer in sequencers:
            sequencer.siblings = self._sequencers

    def replace(self, queue: int, sequencer: QueueSequencer) -> None:
        """Replace the sequencer of a queue. Its messages without a result stay with the old one."""
        self._sequencers[queue] = sequencer
        sequencer.siblings = self._sequencers

    def pick(self, key: bytes | None, queue: int | None) -> QueueSequencer:
        """Return the sequencer of `queue`. If `queue` is None, return the sequencer of the queue for the key. If
        `queue` and `key` are both None, return the sequencer of the queue to which messages without a key go now.

        Raises UnknownQueueError if the topic has no such queue.
        """
        if queue is not None:
            if not 0 <= queue < len(self._sequencers):
                raise UnknownQueueError(
                    f'Topic "{self.topic}" has no queue {queue}: its queues are 0 to {len(self._sequencers) - 1}.'
                )
            return self._sequencers[queue]
        if key is not None:
            return self._sequencers[queue_of(key, len(self._sequencers))]
        sequencer = self._sequencers[self._current]
        if sequencer.closed != self._closed_before:
            sequencer = self._go_to(self._current + 1)
        if not self._is_available(sequencer):
            sequencer = self._go_to(self._next_available())
        return sequencer

    def _next_available(self) -> int:
        """Return the index of the first available sequencer, searching from the present index on. If no sequencer
        is available, return the present index."""
        places = range(self._current, self._current + len(self._sequencers))
        available = (place for place in places if self._is_available(self._sequencers[place % len(self._sequencers)]))
        return next(available, self._current)

    def _go_to(self, place: int) -> QueueSequencer:
        self._current = place % len(self._sequencers)
        sequencer = self._sequencers[self._current]
        self._closed_before = sequencer.closed
        return sequencer
