"""The consumption state of a shard: the consumer groups that the shard coordinates, and the progress of consumer
groups in the shard's queues.

The methods apply commands and return their results. If a command is refused, the result is an error, which is equal on
every replica.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from ledger.consumer_groups import (
    MAX_ROOMS,
    is_broadcast,
    validate_consumed_name,
    validate_group_name,
    validate_member,
    validate_room,
)
from ledger.errors import (
    CoordinatedElsewhereError,
    GroupNotEmptyError,
    InvalidArgumentError,
    LedgerError,
    UnknownMemberError,
)
from ledger.state.commands import (
    AcknowledgedOffset,
    AcknowledgeOffsets,
    AssignQueues,
    ClaimedQueue,
    ClaimQueues,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    ReleaseQueues,
    RenewQueues,
    ResetOffset,
    ResetOffsets,
)
from ledger.state.consumer_group_table import ConsumerGroupTable, MemberDetails
from ledger.state.progress_table import ConsumedQueue, ProgressTable

# (topic id, queue) -> the offset after the queue's last message. Raises UnknownTopicError, UnknownQueueError.
QueueEnd = Callable[[int, int], int]


@dataclass(frozen=True, slots=True)
class ProgressResult:
    """The progress of a consumer group in one queue after a claim, an acknowledgement or a reset."""

    offset: int
    settled: tuple[int, ...]
    # The epoch that a broadcast's claim received; 0 if the claim brought its own epoch.
    epoch: int = 0
    # After a claim: how often the offset had been reset.
    resets: int = 0


# One result for each queue of the command, in the order of the command.
QueueResults = list[ProgressResult | LedgerError]


P = TypeVar("P")


class Consumption:
    """The consumer groups that this shard coordinates, and the progress of consumer groups in the shard's queues."""

    def __init__(self, groups: ConsumerGroupTable | None = None, progress: ProgressTable | None = None) -> None:
        self.groups = groups or ConsumerGroupTable()
        self.progress = progress or ProgressTable()

    # -- in the shard of the coordinator

    def join(self, wanted: JoinConsumerGroup, index: int, was_deleted: Callable[[int], bool] = lambda _: False) -> bool:
        """Apply the command `JoinConsumerGroup`. Return True if the command changed the consumer group. A member that
        does not know of a deletion can subscribe to a deleted topic. The join ignores subscriptions to topics for
        which `was_deleted(topic id)` is True. Raises InvalidGroupNameError, InvalidArgumentError, GroupConflictError,
        GroupFullError.
        """
        check_join(wanted)
        existing = _of_existing_topics(wanted.member, was_deleted)
        return self.groups.join(wanted.consumer_group, wanted.strategy, existing, index, dict(wanted.rooms))

    def leave(self, wanted: LeaveConsumerGroup, index: int) -> bool:
        """Apply the command `LeaveConsumerGroup`. Returns True if any of the command's members existed."""
        return self.groups.leave(wanted.consumer_group, wanted.members, index)

    def assign(self, wanted: AssignQueues, index: int) -> bool:
        """Apply the command `AssignQueues`. If members have changed since the assignment was computed, change
        nothing and return False."""
        group = self.groups.get(wanted.consumer_group)
        if group is None or group.generation != wanted.generation:
            return False
        group.assign(dict(wanted.targets), index, goes_on=wanted.goes_on)
        return True

    def release(self, wanted: ReleaseQueues, index: int) -> bool:
        """Apply the command `ReleaseQueues`. Return True if the command changed the consumer group. Raises
        UnknownMemberError."""
        group = self.groups.get(wanted.consumer_group)
        if group is None or wanted.member not in group.members:
            raise unknown_member(wanted.consumer_group, wanted.member)
        return group.release(wanted.member, wanted.queues, index)

    def renew(self, wanted: RenewQueues, index: int) -> bool:
        """Apply the command `RenewQueues`, which gives the owners of queues new epochs. Returns True if any of the
        queues has an owner."""
        group = self.groups.get(wanted.consumer_group)
        return group is not None and group.renew(wanted.queues, index)

    # -- in the shard of the queues

    def claim(self, wanted: ClaimQueues, end_of: QueueEnd, index: int) -> QueueResults:
        """Apply the command `ClaimQueues`. Returns one result for each queue, in the order of the command. No
        coordinator gives epochs for a broadcast, so a broadcast's claim without an epoch uses the index of its
        entry as epoch. Raises InvalidGroupNameError."""
        validate_consumed_name(wanted.consumer_group)
        own_epoch = index if is_broadcast(wanted.consumer_group) else 0

        def one(each: ClaimedQueue) -> ProgressResult:
            end = end_of(each.topic_id, each.queue)
            key = ConsumedQueue(wanted.consumer_group, each.topic_id, each.queue)
            progress = self.progress.claim(key, each.epoch or own_epoch, min(max(each.start_offset, 0), end))
            epoch = 0 if each.epoch else own_epoch
            return ProgressResult(progress.offset, tuple(progress.settled), epoch, progress.resets)

        return _results(one, wanted.queues)

    def acknowledge(self, wanted: AcknowledgeOffsets, end_of: QueueEnd) -> QueueResults:
        """Apply the command `AcknowledgeOffsets`. Returns one result for each offset, in the order of the command."""

        def one(each: AcknowledgedOffset) -> ProgressResult:
            end = end_of(each.topic_id, each.queue)
            key = ConsumedQueue(wanted.consumer_group, each.topic_id, each.queue)
            progress = self.progress.acknowledge(key, each.epoch, each.resets, each.offset, end=end)
            return ProgressResult(progress.offset, ())

        return _results(one, wanted.offsets)

    def reset(self, wanted: ResetOffsets, end_of: QueueEnd) -> QueueResults:
        """Apply the command `ResetOffsets`. Returns one result for each queue, in the order of the command. Raises
        InvalidGroupNameError."""
        validate_consumed_name(wanted.consumer_group)

        def one(each: ResetOffset) -> ProgressResult:
            end = end_of(each.topic_id, each.queue)
            key = ConsumedQueue(wanted.consumer_group, each.topic_id, each.queue)
            return ProgressResult(self.progress.reset(key, max(each.offset, 0), end=end).offset, ())

        return _results(one, wanted.offsets)

    def forget(self, consumer_group: str) -> int:
        """Remove the progress of a consumer group. Return the number of queues in which the group had progress.
        Raises GroupNotEmptyError if the consumer group has members in this shard."""
        check_has_no_members(self.groups, consumer_group)
        return self.progress.forget(consumer_group)

    def forget_topic(self, topic_id: int, version: Callable[[str], int]) -> None:
        """Remove every subscription, assignment and progress of a deleted topic. `version(name)` is that of a consumer
        group after this entry."""
        self.progress.forget_topic(topic_id)
        self.groups.forget_topic(topic_id, version)


def check_join(wanted: JoinConsumerGroup) -> None:
    """Raise InvalidGroupNameError or InvalidArgumentError if a value of a join is impossible, whatever the state is."""
    member, rooms = wanted.member, dict(wanted.rooms)
    validate_group_name(wanted.consumer_group)
    validate_member(
        member.member,
        client_id=member.client_id,
        strategy=wanted.strategy,
        room=member.room,
        session_timeout_ms=member.session_timeout_ms,
    )
    if len(rooms) > MAX_ROOMS:
        raise InvalidArgumentError(f"A member can report the rooms of {MAX_ROOMS} shards, not of {len(rooms)}.")
    for room in rooms.values():
        validate_room(room)


def check_has_no_members(groups: ConsumerGroupTable, consumer_group: str) -> None:
    """Raise GroupNotEmptyError if the consumer group has members."""
    if (group := groups.get(consumer_group)) is not None:
        raise GroupNotEmptyError(
            f"Consumer group {consumer_group!r} has members ({len(group.members)}): stop its consumers first."
        )


def unknown_member(consumer_group: str, member: str) -> UnknownMemberError:
    """Return the error for a member that the coordinator has removed."""
    return UnknownMemberError(
        f"Consumer group {consumer_group!r} has no member {member!r}: the member was silent for "
        "longer than its session timeout. A consumer joins again by itself."
    )


def elsewhere(consumer_group: str, shard: int | None) -> CoordinatedElsewhereError:
    """Return the error for a request to a shard that does not coordinate the group. `shard` coordinates it; None: the
    shard is not known here."""
    where = "another shard" if shard is None else f"shard {shard}"
    return CoordinatedElsewhereError(
        f"Consumer group {consumer_group!r} is coordinated in {where}. Clients of this version find it by themselves; "
        "upgrade older ones."
    )


def _of_existing_topics(member: MemberDetails, was_deleted: Callable[[int], bool]) -> MemberDetails:
    """Return a copy of a member's details without deleted topics. The subscriptions in the copy are sorted and
    unique."""
    subscriptions = {topic_id: queues for topic_id, queues in member.subscriptions if not was_deleted(topic_id)}
    configured = {queue for queue in member.configured if not was_deleted(queue.topic_id)}
    return replace(member, subscriptions=tuple(sorted(subscriptions.items())), configured=tuple(sorted(configured)))


def _results(one: Callable[[P], ProgressResult], wanted: Iterable[P]) -> QueueResults:
    results: QueueResults = []
    for each in wanted:
        try:
            results.append(one(each))
        except LedgerError as refusal:
            results.append(refusal)
    return results
