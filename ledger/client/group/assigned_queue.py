"""Records which messages of one assigned queue were handed out to the program, and which are finished. No I/O.

    finished            in hand              fetched
    | . . . . . . . . |  x . x x . x       | . . . . .
                      ^ finished_up_to     ^ cursor.position

The program can finish messages in any order. The member acknowledges one offset, `finished_up_to`: all messages before
this offset are finished.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from operator import attrgetter
from typing import Any

from ledger.client.consumer.cursor import Cursor, FetchedBlock
from ledger.client.group.group_batch import GroupBatch, group_batch
from ledger.client.records import Message, TopicQueue

_OFFSET = attrgetter("offset")

# How many batches of one queue may be in hand.
MAX_BATCHES_IN_HAND = 16

# What is handed out and finished as a whole.
Unit = Message[Any] | GroupBatch


@dataclass(slots=True)
class QueueRun:
    """Messages of one queue that were taken together."""

    assigned: AssignedQueue
    messages: list[Message]
    # How many messages at the beginning of the run were finished with `finish_next`.
    finished: int = 0


class AssignedQueue:
    """One queue that this member has claimed, with its cursor and its *messages in hand*: those that were handed out
    and are not finished.

    Arguments:

        settled  offsets of messages that were moved to a retry topic or to the dead letters; they are not handed out
        most     how many messages may be in hand
        span     how many offsets may lie between the first message in hand and the next message to hand out
    """

    def __init__(
        self, cursor: Cursor, shard: int, epoch: int, resets: int, settled: Iterable[int], *, most: int, span: int
    ) -> None:
        self.cursor = cursor
        # The shard of the queue.
        self.shard = shard
        self.epoch = epoch
        # How many times the offset had been reset when this member claimed the queue.
        self.resets = resets
        # The offset was reset since this process claimed the queue before. Messages that were handed out under the
        # earlier claim must be consumed again.
        self.was_reset = False
        # The offset that the cluster has acknowledged.
        self.acknowledged = cursor.fetch_offset
        # Not None: the queue is to move to another member. At this time of the loop's clock the member releases it,
        # even if messages are in hand.
        self.leaves_by: float | None = None
        # The program was told that this member owns the queue, and nothing else since.
        self.is_told = False
        self._settled = set(settled)
        # Offset -> id of the message object that was handed out. The offsets are in ascending order. A batch that was
        # handed out as a whole is here with its first offset.
        self._in_hand: dict[int, int] = {}
        # The first offsets of batches in hand.
        self._batches: set[int] = set()
        # The run that `take_run` returned last, while its messages have no entries of their own in `_in_hand`. Its
        # unfinished messages are in hand too, and lie behind those of `_in_hand`. They get entries when one of them is
        # finished by itself, so messages that are finished in order cost nothing each.
        self._latest: QueueRun | None = None
        self._most = most
        self._span = span

    @property
    def place(self) -> TopicQueue:
        return TopicQueue(self.cursor.topic, self.cursor.queue)

    @property
    def is_leaving(self) -> bool:
        """True if the coordinator is moving the queue to another member. While a queue is leaving, none of its
        messages are handed out."""
        return self.leaves_by is not None

    @property
    def is_finished(self) -> bool:
        """True if every message of the queue that was handed out is finished."""
        return self._first_in_hand() is None

    def has_in_hand(self, message: Unit) -> bool:
        """Return True if this message object was handed out and is not finished. For an object that was handed out
        under an earlier claim of the queue, return False."""
        if (latest := self._latest) is not None:  # threads of the program call this
            at = bisect_left(latest.messages, message.offset, lo=latest.finished, key=_OFFSET)
            if at < len(latest.messages) and latest.messages[at] is message:
                return True
        return self._in_hand.get(message.offset) == id(message)

    @property
    def finished_up_to(self) -> int:
        """The highest offset before which all messages are finished."""
        return self.cursor.position if (first := self._first_in_hand()) is None else first

    def _first_in_hand(self) -> int | None:
        if self._in_hand:
            return next(iter(self._in_hand))
        return None if self._latest is None else self._latest.messages[self._latest.finished].offset

    def _enter_latest(self) -> None:
        """Give each unfinished message of the latest run an entry of its own."""
        if self._latest is not None:
            unfinished = self._latest.messages[self._latest.finished :]
            self._in_hand.update(zip(map(_OFFSET, unfinished), map(id, unfinished), strict=True))
            self._latest = None

    def take(self, count: int) -> list[Message]:
        """Return up to `count` fetched messages, and mark them as handed out."""
        run = self.take_run(count)
        self._enter_latest()
        return [] if run is None else run.messages

    def take_run(self, count: int) -> QueueRun | None:
        """Return up to `count` fetched messages as a run, and mark them as handed out. If there are none, return
        None."""
        if self.is_leaving:
            return None
        self._enter_latest()
        taken = self.cursor.take(min(count, self._room()))
        if self._settled:
            taken = [message for message in taken if message.offset not in self._settled]
        self._latest = QueueRun(self, taken) if taken else None
        return self._latest

    def take_batches(self) -> list[GroupBatch]:
        """Return fetched batches, and mark them as handed out. At most MAX_BATCHES_IN_HAND of the queue are in hand."""
        self._enter_latest()
        batches: list[GroupBatch] = []
        while not self.is_leaving and len(self._in_hand) < MAX_BATCHES_IN_HAND:
            taken = self.cursor.take_block()
            if taken is None:
                break
            place = self.place
            batch = group_batch(
                place.topic, place.queue, *taken, tags=self.cursor.tags, settled=self._settled_of(taken[0])
            )
            if batch is not None:
                self._in_hand[batch.offset] = id(batch)
                self._batches.add(batch.offset)
                batches.append(batch)
        return batches

    def _settled_of(self, block: FetchedBlock) -> list[int]:
        return [offset for offset in self._settled if offset >= block.base_offset]

    def units(self, units: Iterable[Unit]) -> Iterable[Unit]:
        """Return `units` without messages of a batch that is in hand, because only finish(batch) finishes them."""
        if not self._batches:
            return units
        return [one for one in units if one.offset not in self._batches or isinstance(one, GroupBatch)]

    def seek(self, offset: int) -> None:
        """Continue the queue at `offset`. Messages before `offset` count as finished. After a seek the queue has no
        messages that were handed out and are not finished."""
        self.cursor.seek(offset)
        self._in_hand.clear()
        self._batches.clear()
        self._latest = None

    def finish(self, offsets: Iterable[int]) -> None:
        """Mark messages as finished, because they were consumed or moved to another topic. The call is idempotent."""
        self._enter_latest()
        deque(map(self._in_hand.pop, offsets, repeat(None)), maxlen=0)  # a loop that runs in C
        if self._batches:
            self._batches.intersection_update(self._in_hand)

    def finish_held(self, messages: Iterable[Unit]) -> None:
        """Mark messages as finished. Messages that were handed out before an administrator reset the offset of the
        queue are ignored, because they must be consumed again."""
        self.finish(map(_OFFSET, filter(self.has_in_hand, messages) if self.was_reset else messages))

    def finish_next(self, run: QueueRun, count: int) -> bool:
        """Mark the next `count` messages of the run as finished, without work for each message. Return False, and mark
        nothing, if the messages of the run have entries of their own by now, or were dropped by a seek."""
        if run is not self._latest:
            return False
        run.finished += count
        if run.finished == len(run.messages):
            self._latest = None
        return True

    def _room(self) -> int:
        first = self._first_in_hand()
        spanned = 0 if first is None else self.cursor.position - first
        in_hand = len(self._in_hand)
        if self._latest is not None:
            in_hand += len(self._latest.messages) - self._latest.finished
        return max(0, min(self._most - in_hand, self._span - spanned))
