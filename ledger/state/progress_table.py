"""How far each consumer group has come with each queue of this shard.

    consumed            settled        in hand or to come
    | 0 .. offset - 1 |  o . o . . o  . . .                  settled: moved to be consumed again later, or given up

A queue of a consumer group is consumed by one member at a time, and each new one comes with a higher *epoch*.
Who claims the queue by an epoch fences all earlier ones, here, where offsets change: no clock and no lease is needed
for that. Offsets never fall, but by `reset`. That ends the present owner's claim too, which may be made again by the
same epoch; so resets are counted, and what an owner sent before one does not count behind it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ledger.errors import BusyError, ConsumerFencedError, GroupFullError, OffsetBeyondEndError

# Of all consumer groups together: for 200 of them on 1,000 queues.
MAX_CONSUMED_QUEUES = 200_000
# Of one queue: its owner has to consume the first ones before more may be moved.
MAX_SETTLED = 10_000


class ConsumedQueue(NamedTuple):
    """A queue, as one consumer group sees it."""

    consumer_group: str
    topic_id: int
    queue: int


@dataclass(slots=True)
class Progress:
    # Of the last claim; 0: none yet.
    epoch: int
    # Of the first message that is not consumed.
    offset: int
    # How often the offset was set; a claim from before the last time has ended.
    resets: int = 0
    # Offsets from `offset` on that are settled, ascending.
    settled: list[int] = field(default_factory=list)

    def has_settled(self, offset: int) -> bool:
        """Whether that message need not be consumed from this queue (any more)."""
        at = bisect_left(self.settled, offset)
        return offset < self.offset or (at < len(self.settled) and self.settled[at] == offset)


class ProgressTable:
    """Of every consumer group and queue that has been claimed once."""

    def __init__(self, progress: Iterable[tuple[ConsumedQueue, Progress]] = ()) -> None:
        self._progress = dict(progress)

    def __len__(self) -> int:
        return len(self._progress)

    def __iter__(self) -> Iterator[tuple[ConsumedQueue, Progress]]:
        """In the order of names, topics and queues."""
        return iter(sorted(self._progress.items(), key=lambda each: each[0]))

    def get(self, key: ConsumedQueue) -> Progress | None:
        return self._progress.get(key)

    def in_any_order(self) -> list[tuple[ConsumedQueue, Progress]]:
        return list(self._progress.items())

    def of(self, consumer_group: str) -> list[tuple[ConsumedQueue, Progress]]:
        """In the order of topics and queues."""
        return sorted(
            ((key, progress) for key, progress in self._progress.items() if key.consumer_group == consumer_group),
            key=lambda each: each[0],
        )

    def claim(self, key: ConsumedQueue, epoch: int, start_offset: int) -> Progress:
        """From now on epochs before this one are fenced. `start_offset`: where a consumer group begins that has not
        begun with this queue. Raises ConsumerFencedError where this one is fenced itself, GroupFullError."""
        progress = self._progress.get(key) or self._begin(key, epoch, start_offset)
        if epoch < progress.epoch:
            raise _fenced(key, epoch)
        progress.epoch = epoch
        return progress

    def acknowledge(self, key: ConsumedQueue, epoch: int, resets: int, offset: int, *, end: int) -> Progress:
        """All before `offset` is consumed, by who claimed the queue by that epoch, after so many resets. `end`: the
        queue's. Raises ConsumerFencedError, OffsetBeyondEndError."""
        progress = self._owned(key, epoch, resets)
        _check_end(key, offset, end)
        self._advance(progress, offset)
        return progress

    def may_settle(self, key: ConsumedQueue, epoch: int, resets: int, offset: int, *, moving: int = 0) -> bool:
        """Whether who claimed the queue by that epoch, after so many resets, may move this message elsewhere, while so
        many others are on their way; False: it is settled, or consumed. Raises ConsumerFencedError, BusyError."""
        progress = self._owned(key, epoch, resets)
        if progress.has_settled(offset):
            return False
        if len(progress.settled) + moving >= MAX_SETTLED and offset > progress.offset:  # the first one frees others
            raise BusyError(
                f"{MAX_SETTLED} messages of queue {key.queue} were moved behind one that is not consumed: consume it."
            )
        return True

    def settle(self, key: ConsumedQueue, offset: int) -> None:
        """This message is somewhere else from now on. Whether it might go there the leader has decided."""
        progress = self._progress.get(key)
        if progress is not None and not progress.has_settled(offset):
            insort(progress.settled, offset)
            self._advance(progress, progress.offset)

    def reset(self, key: ConsumedQueue, offset: int, *, end: int) -> Progress:
        """The consumer group goes on at `offset`, wherever it was. `end`: the queue's. Raises OffsetBeyondEndError,
        GroupFullError."""
        _check_end(key, offset, end)
        progress = self._progress.get(key) or self._begin(key, 0, offset)
        progress.offset, progress.settled = offset, []
        progress.resets += 1
        return progress

    def forget(self, consumer_group: str) -> int:
        """The consumer group has never been. Returns how many queues it had."""
        gone = [key for key in self._progress if key.consumer_group == consumer_group]
        for key in gone:
            del self._progress[key]
        return len(gone)

    def forget_topic(self, topic_id: int) -> None:
        """It has been deleted."""
        for key in [key for key in self._progress if key.topic_id == topic_id]:
            del self._progress[key]

    def _begin(self, key: ConsumedQueue, epoch: int, offset: int) -> Progress:
        if len(self) >= MAX_CONSUMED_QUEUES:
            raise GroupFullError(
                f"It is known of {len(self)} queues how far each consumer group has come, as many as may be: delete "
                "consumer groups that are not needed any more."
            )
        progress = self._progress[key] = Progress(epoch, offset)
        return progress

    def _owned(self, key: ConsumedQueue, epoch: int, resets: int) -> Progress:
        """Raises ConsumerFencedError unless it was claimed by this epoch last, and was not reset since."""
        progress = self._progress.get(key)
        if progress is None or not epoch or (epoch, resets) != (progress.epoch, progress.resets):
            raise _fenced(key, epoch)
        return progress

    @staticmethod
    def _advance(progress: Progress, offset: int) -> None:
        """To there, and over what is settled from there on."""
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
            f"Consumer group {key.consumer_group!r} cannot have come to offset {offset} of queue {key.queue}: "
            f"the queue ends at {end}.",
            end_offset=end,
        )


def _fenced(key: ConsumedQueue, epoch: int) -> ConsumerFencedError:
    return ConsumerFencedError(
        f"Queue {key.queue} of topic {key.topic_id} is not this member's any more (epoch {epoch}): another member of "
        f"consumer group {key.consumer_group!r} has it, or its offset was reset. Claim it again if it is yours."
    )
