"""The part of the state about consumption: the consumer groups coordinated here, and progress in the queues of this
shard.

Commands go in and results come out. A refusal is a result too, equal on every replica.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from google.protobuf.message import Message

from ledger.consumer_groups import (
    MAX_ROOMS,
    is_broadcast,
    validate_consumed_name,
    validate_group_name,
    validate_member,
    validate_room,
)
from ledger.errors import GroupNotEmptyError, InvalidArgumentError, LedgerError, UnknownMemberError
from ledger.state.consumer_group_table import ConsumerGroupTable, Membership, TopicQueueId
from ledger.state.progress_table import ConsumedQueue, ProgressTable
from ledger.v1 import command_pb2

# (topic id, queue) -> the offset behind its last message. Raises UnknownTopicError, UnknownQueueError.
QueueEnd = Callable[[int, int], int]


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a consumer group stands with one queue."""

    offset: int
    settled: tuple[int, ...]
    # By which it was claimed, where the claim did not say.
    epoch: int = 0
    # Of a claim: how often the offset had been reset.
    resets: int = 0


QueueResults = list[Standing | LedgerError]


P = TypeVar("P", bound=Message)


class Consumption:
    def __init__(self, groups: ConsumerGroupTable | None = None, progress: ProgressTable | None = None) -> None:
        self.groups = groups or ConsumerGroupTable()
        self.progress = progress or ProgressTable()

    # -- as a coordinator

    def join(
        self, wanted: command_pb2.JoinConsumerGroup, index: int, was_deleted: Callable[[int], bool] = lambda _: False
    ) -> bool:
        """Whether that changed anything. `was_deleted(topic id)`: a member that has not heard of it may subscribe to
        such a topic, which does not count. Raises InvalidGroupNameError, InvalidArgumentError, GroupConflictError,
        GroupFullError."""
        validate_group_name(wanted.consumer_group)
        validate_member(
            wanted.member,
            client_id=wanted.client_id,
            strategy=wanted.strategy,
            room=wanted.room,
            session_timeout_ms=wanted.session_timeout_ms,
        )
        rooms = {each.shard: each.room for each in wanted.rooms}
        if len(rooms) > MAX_ROOMS:
            raise InvalidArgumentError(f"A member can tell the rooms of {MAX_ROOMS} shards, not of {len(rooms)}.")
        for room in rooms.values():
            validate_room(room)
        subscriptions = {each.topic_id: each.queues for each in wanted.subscriptions if not was_deleted(each.topic_id)}
        configured = {
            TopicQueueId(each.topic_id, each.queue) for each in wanted.configured if not was_deleted(each.topic_id)
        }
        told = Membership(
            wanted.member,
            wanted.client_id,
            wanted.room,
            wanted.session_timeout_ms,
            tuple(sorted(subscriptions.items())),
            tuple(sorted(configured)),
        )
        return self.groups.join(wanted.consumer_group, wanted.strategy, told, index, rooms)

    def leave(self, wanted: command_pb2.LeaveConsumerGroup, index: int) -> bool:
        """Whether there were such members."""
        return self.groups.leave(wanted.consumer_group, wanted.members, index)

    def assign(self, wanted: command_pb2.AssignQueues, index: int) -> bool:
        """Whether it was of the members as they are."""
        group = self.groups.get(wanted.consumer_group)
        if group is None or group.generation != wanted.generation:
            return False
        targets = {TopicQueueId(each.topic_id, each.queue): each.member for each in wanted.targets}
        group.assign(targets, index, goes_on=wanted.goes_on)
        return True

    def release(self, wanted: command_pb2.ReleaseQueues, index: int) -> bool:
        """Whether that changed anything. Raises UnknownMemberError."""
        group = self.groups.get(wanted.consumer_group)
        if group is None or wanted.member not in group.members:
            raise unknown_member(wanted.consumer_group, wanted.member)
        queues = [(TopicQueueId(each.topic_id, each.queue), each.epoch) for each in wanted.queues]
        return group.release(wanted.member, queues, index)

    # -- where the queues are

    def claim(self, wanted: command_pb2.ClaimQueues, end_of: QueueEnd, index: int) -> QueueResults:
        """What came of each claim, in order. A consumer of a broadcast has no coordinator that gives it epochs: its
        first claim takes the index of its entry. Raises InvalidGroupNameError."""
        validate_consumed_name(wanted.consumer_group)
        own_epoch = index if is_broadcast(wanted.consumer_group) else 0

        def one(each: command_pb2.ClaimedQueue) -> Standing:
            end = end_of(each.topic_id, each.queue)
            key = ConsumedQueue(wanted.consumer_group, each.topic_id, each.queue)
            progress = self.progress.claim(key, each.epoch or own_epoch, min(max(each.start_offset, 0), end))
            epoch = 0 if each.epoch else own_epoch
            return Standing(progress.offset, tuple(progress.settled), epoch, progress.resets)

        return _results(one, wanted.queues)

    def acknowledge(self, wanted: command_pb2.AcknowledgeOffsets, end_of: QueueEnd) -> QueueResults:
        """What came of each, in order."""

        def one(each: command_pb2.AcknowledgedOffset) -> Standing:
            end = end_of(each.topic_id, each.queue)
            key = ConsumedQueue(wanted.consumer_group, each.topic_id, each.queue)
            progress = self.progress.acknowledge(key, each.epoch, each.resets, each.offset, end=end)
            return Standing(progress.offset, ())

        return _results(one, wanted.offsets)

    def forget_topic(self, topic_id: int, index: int) -> None:
        """It has been deleted: nobody is to consume it, and nobody ever did."""
        self.progress.forget_topic(topic_id)
        self.groups.forget_topic(topic_id, index)

    # -- by an operator

    def reset(self, wanted: command_pb2.ResetOffsets, end_of: QueueEnd) -> QueueResults:
        """What came of each, in order. Raises InvalidGroupNameError."""
        validate_consumed_name(wanted.consumer_group)

        def one(each: command_pb2.ResetOffset) -> Standing:
            end = end_of(each.topic_id, each.queue)
            key = ConsumedQueue(wanted.consumer_group, each.topic_id, each.queue)
            return Standing(self.progress.reset(key, max(each.offset, 0), end=end).offset, ())

        return _results(one, wanted.offsets)

    def renew(self, wanted: command_pb2.RenewQueues, index: int) -> bool:
        """Whether anybody owns any of these."""
        group = self.groups.get(wanted.consumer_group)
        queues = [TopicQueueId(each.topic_id, each.queue) for each in wanted.queues]
        return group is not None and group.renew(queues, index)

    def forget(self, consumer_group: str) -> int:
        """Of how many queues it was known how far it had come. Raises GroupNotEmptyError."""
        check_has_no_members(self.groups, consumer_group)
        return self.progress.forget(consumer_group)


def check_has_no_members(groups: ConsumerGroupTable, consumer_group: str) -> None:
    """Raises GroupNotEmptyError."""
    if (group := groups.get(consumer_group)) is not None:
        raise GroupNotEmptyError(
            f"Consumer group {consumer_group!r} has members ({len(group.members)}): stop its consumers first."
        )


def unknown_member(consumer_group: str, member: str) -> UnknownMemberError:
    return UnknownMemberError(
        f"Consumer group {consumer_group!r} has no member {member!r}: nothing was heard of it for too long. Join again."
    )


def _results(one: Callable[[P], Standing], wanted: RepeatedCompositeFieldContainer[P]) -> QueueResults:
    results: QueueResults = []
    for each in wanted:
        try:
            results.append(one(each))
        except LedgerError as refusal:
            results.append(refusal)
    return results
