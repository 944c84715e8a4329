"""The shared consumer groups of a shard: the modes of the groups that the shard coordinates, and the leases of groups
in the shard's queues. The methods apply commands, and refuse to mix shared groups with queue groups."""

from __future__ import annotations

from dataclasses import replace

from ledger.errors import GroupConflictError, LedgerError, OffsetBeyondEndError
from ledger.state.commands import ChangeLeases, CreateConsumerGroup, QueueLeases, ResetOffset, ResetOffsets
from ledger.state.consumer_group_table import TopicQueueId
from ledger.state.consumption import Consumption, ProgressResult, QueueEnd, QueueResults
from ledger.state.group_modes import GroupMode, GroupModes
from ledger.state.lease_table import LeaseResult, LeaseResults, LeaseTable
from ledger.state.progress_table import ConsumedQueue


class SharedGroups:
    """The modes of consumer groups, and the leases of shared groups."""

    def __init__(self, modes: GroupModes | None = None, leases: LeaseTable | None = None) -> None:
        self.modes = GroupModes() if modes is None else modes
        self.leases = LeaseTable() if leases is None else leases

    def create(self, wanted: CreateConsumerGroup, consumption: Consumption, index: int) -> GroupMode:
        """Apply the command `CreateConsumerGroup`. Raises GroupConflictError if the group exists with another mode, or
        has members or progress of the other mode in this shard, and GroupFullError."""
        mode, name = wanted.mode, wanted.mode.consumer_group
        if mode.is_shared and (consumption.groups.get(name) is not None or consumption.progress.of(name)):
            raise is_queue_group(name)
        if not mode.is_shared:
            self.check_queue_group(name)
        return self.modes.create(replace(mode, created=index))

    def check_queue_group(self, consumer_group: str) -> None:
        """Raise GroupConflictError if this shard knows the group as a shared group."""
        self.modes.check_queue_group(consumer_group)
        if self.leases.get(consumer_group) is not None:
            raise GroupConflictError(
                f"Consumer group {consumer_group!r} is a shared group: read it with a SharedConsumer, or choose "
                "another name for a group whose members own queues."
            )

    def change(self, wanted: ChangeLeases, consumption: Consumption, end_of: QueueEnd, *, index: int) -> LeaseResults:
        """Apply the command `ChangeLeases`. `index` is that of the entry."""
        self.leases.advance(wanted.time_ms)

        def one(each: QueueLeases) -> LeaseResult:
            name, queue = each.consumer_group, each.queue
            try:
                end = end_of(*queue)
                if consumption.progress.get(ConsumedQueue(name, *queue)) is not None:
                    raise is_queue_group(name)
                window = self.leases.open(name, each.created, queue, min(each.start_offset, end))
            except LedgerError as refusal:
                return refusal
            return self.leases.change(window, each.changes, index=index, end=end)

        return LeaseResults(tuple(map(one, wanted.queues)), index, self.leases.time_ms)

    def reset(self, wanted: ResetOffsets, end_of: QueueEnd) -> QueueResults | None:
        """Let a shared group begin anew in queues, where all its leases end. Return one result for each queue, or None
        if this shard does not know the group as a shared group."""
        group = self.leases.get(wanted.consumer_group)
        if group is None:
            return None
        created = group.created

        def one(each: ResetOffset) -> ProgressResult | LedgerError:
            offset, queue = max(each.offset, 0), TopicQueueId(each.topic_id, each.queue)
            try:
                _check_end(wanted.consumer_group, queue, offset, end_of(*queue))
                self.leases.reset(self.leases.open(wanted.consumer_group, created, queue, offset), offset)
            except LedgerError as refusal:
                return refusal
            return ProgressResult(offset, ())

        return list(map(one, wanted.offsets))

    def forget(self, consumer_group: str) -> int:
        """Remove a group. Return the number of queues in which it had leases."""
        self.modes.forget(consumer_group)
        return self.leases.forget(consumer_group)


def _check_end(consumer_group: str, queue: TopicQueueId, offset: int, end: int) -> None:
    if offset > end:
        raise OffsetBeyondEndError(
            f"Consumer group {consumer_group!r} cannot begin at offset {offset} of queue {queue.queue}: the queue ends "
            f"at {end}.",
            end_offset=end,
        )


def is_queue_group(consumer_group: str) -> GroupConflictError:
    """Return the error for a shared group with the name of a queue group."""
    return GroupConflictError(
        f"Consumer group {consumer_group!r} is a queue group: its members own queues. Delete the group first "
        "(`ledgermq group delete`), or choose another name for a shared group."
    )
