"""The progress of each consumer group in each queue of this shard.

    consumed            settled        not consumed yet
    | 0 .. offset - 1 |  o . o . . o  . . .                  settled: moved to a retry topic or to the dead letters

One member of a consumer group consumes a queue at a time, and each new owner has a higher *epoch*. When an owner
claims a queue with its epoch, all earlier epochs are fenced. Fencing happens in the same table in which offsets
change, so it needs no clock and no lease.

An offset never decreases, except by `reset`. A reset also ends the claim of the present owner, and the present owner
can claim the queue again with the same epoch. The table counts the resets, so that a request that an owner sent before
a reset is refused after the reset.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ledger.consumer_groups import group_of
from ledger.errors import BusyError, ConsumerFencedError, GroupFullError, OffsetBeyondEndError
from ledger.state.keys_by_topic import KeysByTopic

# Of all consumer groups together: enough for 200 consumer groups with 1,000 queues each.
MAX_CONSUMED_QUEUES = 200_000
# Of one consumer group and its broadcasts. Leaders check it, so that one group does not take the places of all others.
MAX_CONSUMED_QUEUES_OF_GROUP = 100_000
# Of one queue. Above this number the owner must consume the first messages before it may move more.
MAX_SETTLED = 10_000


class ConsumedQueue(NamedTuple):
    """A consumer group, and one queue that the group consumes."""

    consumer_group: str
    topic_id: int
    queue: int


@dataclass(slots=True)
class QueueProgress:
    """The progress of one consumer group in one queue: offset, epoch of the last claim, and settled messages."""

    # Epoch of the last claim; 0 before the first claim.
    epoch: int
    # Offset of the first message that is not consumed.
    offset: int
    # How often the offset was reset. A reset ends the claims before it.
    resets: int = 0
    # Settled offsets, ascending; each > `offset`.
    settled: list[int] = field(default_factory=list)

    def has_settled(self, offset: int) -> bool:
        """Return True if the message at this offset is consumed or settled."""
        at = bisect_left(self.settled, offset)
        return offset < self.offset or (at < len(self.settled) and self.settled[at] == offset)


class ProgressTable:
    """The progress of every consumer group in every queue that it has claimed."""

    def __init__(self, progress: Iterable[tuple[ConsumedQueue, QueueProgress]] = ()) -> None:
        # By the name of a consumer group or of a broadcast's consumer. Never empty. A user can let a group be
        # described, deleted and created again all the time, so none of that may look at other groups.
        self._of_name: dict[str, dict[ConsumedQueue, QueueProgress]] = {}
        self._of_topic = KeysByTopic[ConsumedQueue]()
        self._size = 0
        # By consumer group, its broadcasts included: how many queues it has in this table. Never 0.
        self._counts: Counter[str] = Counter()
        for key, each in progress:
            self._put(key, each)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[tuple[ConsumedQueue, QueueProgress]]:
        """Yield all progress, sorted by consumer group, topic and queue."""
        return (each for name in sorted(self._of_name) for each in self.of(name))

    def get(self, key: ConsumedQueue) -> QueueProgress | None:
        queues = self._of_name.get(key.consumer_group)
        return None if queues is None else queues.get(key)

    def count_of(self, consumer_group: str) -> int:
        """Return in how many queues a consumer group and its broadcasts have progress, each consumer counted."""
        return self._counts[group_of(consumer_group)]

    def in_any_order(self) -> list[tuple[ConsumedQueue, QueueProgress]]:
        return [each for queues in self._of_name.values() for each in queues.items()]

    def of(self, consumer_group: str) -> list[tuple[ConsumedQueue, QueueProgress]]:
        """Return the progress of one consumer group in all its queues, sorted by topic and queue."""
        return sorted(self._of_name.get(consumer_group, {}).items(), key=lambda each: each[0])

    def claim(self, key: ConsumedQueue, epoch: int, start_offset: int) -> QueueProgress:
        """Record a claim of a queue with this epoch, and fence all earlier epochs. A consumer group without
        progress in this queue begins at `start_offset`. Raises ConsumerFencedError if a later epoch has claimed the
        queue, and GroupFullError if the table is full."""
        progress = self.get(key) or self._begin(key, epoch, start_offset)
        if epoch < progress.epoch:
            raise _fenced(key, epoch)
        progress.epoch = epoch
        return progress

    def acknowledge(self, key: ConsumedQueue, epoch: int, resets: int, offset: int, *, end: int) -> QueueProgress:
        """Mark all messages before `offset` as consumed. `end` is the offset that the queue's next message gets.
        Raises OffsetBeyondEndError, or ConsumerFencedError if the request's epoch or count of resets is not that of
        the last claim."""
        progress = self._owned(key, epoch, resets)
        _check_end(key, offset, end)
        self._advance(progress, offset)
        return progress

    def may_settle(self, key: ConsumedQueue, epoch: int, resets: int, offset: int, *, moving: int = 0) -> bool:
        """Return True if the owner of the queue is allowed to move this message to another topic. Returns False if the
        message is consumed or settled already.

        `moving` is the number of other moves from this queue that are not committed yet. Raises BusyError if too
        many messages of the queue are settled or being moved, and ConsumerFencedError if the request's epoch or
        count of resets is not that of the last claim."""
        progress = self._owned(key, epoch, resets)
        if progress.has_settled(offset):
            return False
        # Moving the first message is always allowed, because it frees the settled ones after it.
        if len(progress.settled) + moving >= MAX_SETTLED and offset > progress.offset:
            raise BusyError(
                f"{MAX_SETTLED} messages of queue {key.queue} were moved after message {progress.offset}, "
                "which is not consumed: finish that message first."
            )
        return True

    def settle(self, key: ConsumedQueue, offset: int) -> None:
        """Mark a message as settled. The leader has checked before the append that the owner is allowed to move the
        message."""
        progress = self.get(key)
        if progress is not None and not progress.has_settled(offset):
            insort(progress.settled, offset)
            self._advance(progress, progress.offset)

    def reset(self, key: ConsumedQueue, offset: int, *, end: int) -> QueueProgress:
        """Set the offset of the consumer group, forward or back. `end` is the offset that the queue's next message
        gets. Raises OffsetBeyondEndError, GroupFullError."""
        _check_end(key, offset, end)
        progress = self.get(key) or self._begin(key, 0, offset)
        progress.offset, progress.settled = offset, []
        progress.resets += 1
        return progress

    def forget(self, consumer_group: str) -> int:
        """Remove all progress of the consumer group. Return the number of queues in which the group had progress."""
        return self._remove(list(self._of_name.get(consumer_group, ())))

    def forget_topic(self, topic_id: int) -> None:
        """Remove all progress in the queues of a deleted topic."""
        self._remove(self._of_topic.of(topic_id))

    def _put(self, key: ConsumedQueue, progress: QueueProgress) -> None:
        self._of_name.setdefault(key.consumer_group, {})[key] = progress
        self._of_topic.add(key)
        self._size += 1
        self._counts[group_of(key.consumer_group)] += 1

    def _remove(self, keys: Sequence[ConsumedQueue]) -> int:
        for key in keys:
            queues, group = self._of_name[key.consumer_group], group_of(key.consumer_group)
            del queues[key]
            if not queues:
                del self._of_name[key.consumer_group]
            self._of_topic.remove(key)
            self._counts[group] -= 1
            if not self._counts[group]:
                del self._counts[group]
        self._size -= len(keys)
        return len(keys)

    def _begin(self, key: ConsumedQueue, epoch: int, offset: int) -> QueueProgress:
        if len(self) >= MAX_CONSUMED_QUEUES:
            raise GroupFullError(
                f"This shard stores the progress of consumer groups in {len(self)} queues, which is the "
                f"limit: delete consumer "
                "groups that you no longer need."
            )
        progress = QueueProgress(epoch, offset)
        self._put(key, progress)
        return progress

    def _owned(self, key: ConsumedQueue, epoch: int, resets: int) -> QueueProgress:
        """Return the progress in a queue, for a request of the queue's owner. Raises ConsumerFencedError if the
        last claim had another epoch, or if a reset followed the last claim."""
        progress = self.get(key)
        if progress is None or not epoch or (epoch, resets) != (progress.epoch, progress.resets):
            raise _fenced(key, epoch)
        return progress

    @staticmethod
    def _advance(progress: QueueProgress, offset: int) -> None:
        """Advance the progress to `offset`, and then past all settled messages that follow directly."""
        offset, settled = max(progress.offset, offset), progress.settled
        passed = bisect_left(settled, offset)
        while passed < len(settled) and settled[passed] == offset:
            passed += 1
            offset += 1
        del settled[:passed]
        progress.offset = offset


def _check_end(key: ConsumedQueue, offset: int, end: int) -> None:
    if offset > end:
        raise OffsetBeyondEndError(
            f"Consumer group {key.consumer_group!r} cannot acknowledge or set offset {offset} of queue {key.queue}: "
            f"the queue ends at {end}.",
            end_offset=end,
        )


def _fenced(key: ConsumedQueue, epoch: int) -> ConsumerFencedError:
    return ConsumerFencedError(
        f"This member no longer owns queue {key.queue} of topic {key.topic_id} (epoch {epoch}): another member of "
        f"consumer group {key.consumer_group!r} owns it, or its offset was reset. If you still own it, claim it again."
    )
