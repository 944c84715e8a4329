"""The modes of the consumer groups that were created by a command, in the shard of their coordinator.

A *queue* group gives each queue to one member at a time. A *shared* group leases each message by itself, so it can have
more members than its topics have queues. The mode of a group is fixed until the group is deleted. A group that was
never created by a command is a queue group, and this table does not know it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ledger.errors import GroupConflictError, GroupFullError

MAX_GROUP_MODES = 10_000
MIN_ATTEMPTS, MAX_ATTEMPTS, DEFAULT_ATTEMPTS = 1, 1_000, 16


@dataclass(frozen=True, slots=True)
class GroupMode:
    """The mode of a consumer group."""

    consumer_group: str
    is_shared: bool
    # Messages with the same key are handed out one after another.
    by_key: bool = False
    # A message that was handed out so often, and not acknowledged, goes to the dead letters.
    max_attempts: int = DEFAULT_ATTEMPTS
    # Index of the entry that created the group.
    created: int = 0

    def describe(self) -> str:
        """Return the mode in words, for error messages."""
        if not self.is_shared:
            return "a queue group"
        return "a shared group" + (" with order by key" if self.by_key else "")


class GroupModes:
    """The modes of all created consumer groups, by name."""

    def __init__(self, modes: Iterable[GroupMode] = ()) -> None:
        self._modes = {mode.consumer_group: mode for mode in modes}

    def __len__(self) -> int:
        return len(self._modes)

    def __iter__(self) -> Iterator[GroupMode]:
        """Yield the modes, sorted by the names of their groups."""
        return iter(sorted(self._modes.values(), key=lambda mode: mode.consumer_group))

    def get(self, consumer_group: str) -> GroupMode | None:
        return self._modes.get(consumer_group)

    def create(self, mode: GroupMode) -> GroupMode:
        """Add a consumer group. If it exists with the same mode, return it. Raises GroupConflictError if it exists with
        another mode, and GroupFullError."""
        known = self._modes.get(mode.consumer_group)
        if known is None:
            if len(self) >= MAX_GROUP_MODES:
                raise GroupFullError(
                    f"{len(self)} consumer groups were created already, which is the limit: delete some that you no "
                    "longer need."
                )
            self._modes[mode.consumer_group] = mode
            return mode
        if _settings(known) != _settings(mode):
            raise GroupConflictError(
                f"Consumer group {mode.consumer_group!r} exists as {known.describe()} with {known.max_attempts} "
                "attempts for a message: the mode of a group cannot be changed. Delete the group first, or choose "
                "another name."
            )
        return known

    def forget(self, consumer_group: str) -> bool:
        """Remove a consumer group. Return True if it was created by a command."""
        return self._modes.pop(consumer_group, None) is not None

    def check_queue_group(self, consumer_group: str) -> None:
        """Raise GroupConflictError if the group is shared, because only queue groups have members that own queues."""
        mode = self._modes.get(consumer_group)
        if mode is not None and mode.is_shared:
            raise GroupConflictError(
                f"Consumer group {consumer_group!r} is {mode.describe()}: read it with a SharedConsumer, or choose "
                "another name for a group whose members own queues."
            )


def _settings(mode: GroupMode) -> tuple[bool, bool, int]:
    return mode.is_shared, mode.by_key, mode.max_attempts
