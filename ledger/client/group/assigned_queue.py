"""One assigned queue from its claim on: which messages were handed out, and which of them are finished. Pure.

    finished            in hand              fetched
    | . . . . . . . . |  x . x x . x       | . . . . .
                      ^ finished_up_to     ^ cursor.position

Messages may finish in any order. The member acknowledges only an offset: all messages before it are finished.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import repeat
from operator import attrgetter

from ledger.client.consumer.cursor import Cursor
from ledger.client.records import Message, TopicQueue

_OFFSET = attrgetter("offset")


class AssignedQueue:
    """`settled`: offsets of messages that are somewhere else by now. `most` messages may be in hand, and they may span
    `span` offsets."""

    def __init__(
        self, cursor: Cursor, shard: int, epoch: int, resets: int, settled: Iterable[int], *, most: int, span: int
    ) -> None:
        self.cursor = cursor
        # The shard in which the queue lives.
        self.shard = shard
        self.epoch = epoch
        # How often the offset had been reset when the queue was claimed.
        self.resets = resets
        # Since this process had the queue before: what it handed out then is to be consumed once more.
        self.was_reset = False
        # What the cluster knows of.
        self.acknowledged = cursor.fetch_offset
        # Not None: it is to go elsewhere, at that time by the loop's clock even if something is in hand.
        self.leaves_by: float | None = None
        self._settled = set(settled)
        # Offset -> id of the object that was handed out, ascending: they come in order.
        self._in_hand: dict[int, int] = {}
        self._most = most
        self._span = span

    @property
    def place(self) -> TopicQueue:
        return TopicQueue(self.cursor.topic, self.cursor.queue)

    @property
    def is_leaving(self) -> bool:
        """Nothing more is handed out."""
        return self.leaves_by is not None

    @property
    def is_finished(self) -> bool:
        """Whether nothing is in hand."""
        return not self._in_hand

    def has_in_hand(self, message: Message) -> bool:
        """Whether this is what was handed out, and not the same message, as it was by an earlier claim."""
        return self._in_hand.get(message.offset) == id(message)

    @property
    def finished_up_to(self) -> int:
        """All before this offset is finished."""
        return next(iter(self._in_hand), self.cursor.position)

    def take(self, count: int) -> list[Message]:
        """Up to so many of the messages that were fetched; they are in hand from now on."""
        if self.is_leaving:
            return []
        taken = self.cursor.take(min(count, self._room()))
        if self._settled:
            taken = [message for message in taken if message.offset not in self._settled]
        self._in_hand.update(zip(map(_OFFSET, taken), map(id, taken), strict=True))
        return taken

    def seek(self, offset: int) -> None:
        """Hand out from there. What lies before it counts as finished, and nothing is in hand any more."""
        self.cursor.seek(offset)
        self._in_hand.clear()

    def finish(self, offsets: Iterable[int]) -> None:
        """Consumed, or somewhere else. To say it twice is harmless."""
        deque(map(self._in_hand.pop, offsets, repeat(None)), maxlen=0)  # a loop, but of C alone

    def finish_held(self, messages: Iterable[Message]) -> None:
        """The same, but what was handed out before a reset finishes nothing: it is to be consumed once more."""
        self.finish(map(_OFFSET, filter(self.has_in_hand, messages) if self.was_reset else messages))

    def _room(self) -> int:
        first = next(iter(self._in_hand), None)
        spanned = 0 if first is None else self.cursor.position - first
        return max(0, min(self._most - len(self._in_hand), self._span - spanned))
