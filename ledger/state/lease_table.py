"""The leases of shared consumer groups in the queues of this shard.

Members of a shared consumer group receive from every queue of their topics, and each message is leased by itself. All
changes of one turn of the leader are one entry (`ChangeLeases`): acknowledgements, put off messages, longer leases, and
new leases. This table decides whether a change counts, so replicas agree about it, and a leader that was replaced
cannot hand a message out that another member has.

Leases end at a *lease time*: milliseconds that the leaders of this shard have counted one after another, each on its
steady clock. Every change carries the lease time at which the leader made it. A new leader counts on from the lease
time of the state, so the lease time never runs faster than a steady clock, whoever leads. Wall clocks do not matter.

A consumer group is created in the shard of its coordinator, and the index of that entry travels with every change. A
newer index replaces everything that the table knows of the group, and an older index is refused. So a leader that has
not heard of a deletion cannot bring the old group back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from ledger.errors import ConsumerFencedError, GroupFullError, LedgerError
from ledger.state.consumer_group_table import TopicQueueId
from ledger.state.lease_window import MAX_WINDOW, Lease, LeaseWindow

# About 285,000 years. A float holds it exactly, and the end of the longest lease is far from the limit of 64 bits.
MAX_LEASE_TIME_MS = (1 << 53) - 1
# Windows of all consumer groups together.
MAX_LEASED_QUEUES = 50_000
# Offsets in all windows of the shard together. The memory of a slot is 32 bytes.
MAX_OPEN_OFFSETS = 200_000
# Of one consumer group. Leaders check it, so that one group does not take the room of all others.
MAX_OPEN_OFFSETS_OF_GROUP = 100_000


class ChangeKind(IntEnum):
    """What a change of leases does with its messages."""

    ACKNOWLEDGE = 1
    PUT_OFF = 2
    GIVE_BACK = 3
    EXTEND = 4
    LEASE = 5
    SKIP = 6


class LeaseChange(NamedTuple):
    """A change of the messages [first, first + size) of one queue. `lease` and `resets` are those of the handle, for
    the kinds that need one. `duration_ms` is the length of the lease, or of the delay, from the lease time of
    the command on. `receipt` is the attempt id of a receive."""

    kind: ChangeKind
    first: int
    size: int
    lease: int = 0
    resets: int = 0
    duration_ms: int = 0
    receipt: int = 0


# For each change of a queue how many messages it changed, or the error that refused all of them.
LeaseResult = tuple[int, ...] | LedgerError


@dataclass(frozen=True, slots=True)
class LeaseResults:
    """The result of `ChangeLeases`, with one item for each queue of the command. `index` is that of the entry, and
    `time_ms` the lease time at which it was applied."""

    queues: tuple[LeaseResult, ...]
    index: int
    time_ms: int


@dataclass(slots=True)
class LeasedGroup:
    """A shared consumer group in this shard. `created` is the index of its creation in the shard of its coordinator."""

    created: int
    windows: dict[TopicQueueId, LeaseWindow] = field(default_factory=dict)

    def open_offsets(self) -> int:
        """Return the number of offsets in the windows of the group."""
        return sum(map(len, self.windows.values()))


class LeaseTable:
    """The windows of all shared consumer groups."""

    def __init__(self, time_ms: int = 0) -> None:
        self._groups: dict[str, LeasedGroup] = {}
        # The lease time of the last `ChangeLeases`.
        self.time_ms = time_ms
        # No lease or delay of an open message ends after this lease time. It may be too late, and is not in a snapshot.
        self._latest_end_ms = 0
        # Sums over all windows: how many there are, and their offsets.
        self._windows = 0
        self._offsets = 0

    def __iter__(self) -> Iterator[tuple[str, LeasedGroup]]:
        """Yield the groups, sorted by name."""
        return iter(sorted(self._groups.items()))

    def get(self, consumer_group: str) -> LeasedGroup | None:
        return self._groups.get(consumer_group)

    def window(self, consumer_group: str, queue: TopicQueueId) -> LeaseWindow | None:
        group = self._groups.get(consumer_group)
        return None if group is None else group.windows.get(queue)

    @property
    def open_offsets(self) -> int:
        """The number of offsets in all windows."""
        return self._offsets

    @property
    def has_running_leases(self) -> bool:
        """False if every lease and every delay of an open message has ended. Then it does not matter how far the lease
        time of the state is behind."""
        return self._offsets > 0 and self._latest_end_ms > self.time_ms

    def advance(self, time_ms: int) -> None:
        """Move the lease time. It never goes back."""
        self.time_ms = max(self.time_ms, time_ms)

    def put(self, consumer_group: str, created: int, queue: TopicQueueId, window: LeaseWindow) -> None:
        """Add a window that a snapshot contains."""
        self._groups.setdefault(consumer_group, LeasedGroup(created)).windows[queue] = window
        self._windows += 1
        self._offsets += len(window)
        self._latest_end_ms = max(self._latest_end_ms, int(window.slots["free_ms"].max(initial=0)))

    def put_group(self, consumer_group: str, created: int) -> None:
        """Add a group without windows that a snapshot contains."""
        self._groups.setdefault(consumer_group, LeasedGroup(created))

    def open(self, consumer_group: str, created: int, queue: TopicQueueId, start_offset: int) -> LeaseWindow:
        """Return the window of a group in a queue. A group that is new in the queue begins at `start_offset`. Raises
        ConsumerFencedError if the group was deleted and created again after `created`, and GroupFullError."""
        group = self._groups.get(consumer_group)
        if group is not None and group.created > created:
            raise ConsumerFencedError(
                f"Consumer group {consumer_group!r} was deleted and created again: its members must begin anew."
            )
        if group is not None and group.created < created:
            self.forget(consumer_group)
            group = None
        window = None if group is None else group.windows.get(queue)
        if window is not None:
            return window
        if self._windows >= MAX_LEASED_QUEUES:
            raise GroupFullError(
                f"This shard stores the leases of consumer groups in {self._windows} queues, which is the limit: "
                "delete consumer groups that you no longer need."
            )
        window = LeaseWindow(start_offset)
        self.put(consumer_group, created, queue, window)
        return window

    def change(self, window: LeaseWindow, changes: Iterable[LeaseChange], *, index: int, end: int) -> tuple[int, ...]:
        """Apply changes to a window, in their order, at the present lease time. Return for each change how many
        messages it changed: 0 means that the change does not count. `index` is that of the entry, and `end` is the
        offset that the queue's next message gets."""
        before = len(window)
        most = min(MAX_OPEN_OFFSETS - self._offsets + before, MAX_WINDOW)
        results = tuple([self._apply(window, each, index, end, most) for each in changes])
        window.changed()
        self._offsets += len(window) - before
        return results

    def settle(self, consumer_group: str, queue: TopicQueueId, offset: int) -> None:
        """Settle a message that was moved to the dead letters."""
        if (window := self.window(consumer_group, queue)) is not None and window.slot(offset) is not None:
            self._resized(window, lambda: window.skip(offset, 1))

    def reset(self, window: LeaseWindow, offset: int) -> None:
        """Let the group begin anew at this offset. All its leases in the queue end."""
        self._resized(window, lambda: window.reset(offset))

    def forget(self, consumer_group: str) -> int:
        """Remove a group. Return the number of queues in which it had a window."""
        group = self._groups.pop(consumer_group, None)
        if group is None:
            return 0
        self._windows -= len(group.windows)
        self._offsets -= group.open_offsets()
        return len(group.windows)

    def forget_topic(self, topic_id: int) -> None:
        """Remove all windows in the queues of a deleted topic."""
        for group in self._groups.values():
            for queue in [queue for queue in group.windows if queue.topic_id == topic_id]:
                self._offsets -= len(group.windows.pop(queue))
                self._windows -= 1

    def _resized(self, window: LeaseWindow, change: Callable[[], object]) -> None:
        before = len(window)
        change()
        window.changed()
        self._offsets += len(window) - before

    def _apply(self, window: LeaseWindow, change: LeaseChange, index: int, end: int, most: int) -> int:
        kind, first, size, lease, resets, duration_ms, receipt = change
        now_ms, until_ms = self.time_ms, self.time_ms + duration_ms
        self._latest_end_ms = max(self._latest_end_ms, until_ms)
        if kind in (ChangeKind.LEASE, ChangeKind.SKIP):
            if first + size > end:
                return 0
            window.changed()
            passes_all = kind is ChangeKind.SKIP and first <= window.begin and first + size >= window.end
            if not passes_all and first + size - window.begin > most:
                return 0
            if kind is ChangeKind.SKIP:
                return window.skip(first, size)
            return window.lease(first, size, Lease(index, until_ms, receipt), now_ms)
        if resets != window.resets:
            return 0
        match kind:
            case ChangeKind.ACKNOWLEDGE:
                return window.acknowledge(first, size, lease)
            case ChangeKind.PUT_OFF:
                return window.put_off(first, size, lease, until_ms)
            case ChangeKind.GIVE_BACK:
                return window.give_back(first, size, lease, now_ms)
            case _:
                return window.extend(first, size, lease, until_ms)
