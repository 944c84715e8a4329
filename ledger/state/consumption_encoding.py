"""Encodes the consumption state for a snapshot, in protobuf (`ledger.v1.ConsumptionState`). Consumer groups,
members and queues are sorted by names and numbers."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from ledger.errors import InternalError
from ledger.state.consumer_group_table import (
    ConsumerGroup,
    ConsumerGroupTable,
    MemberDetails,
    MemberRecord,
    QueueShare,
    TopicQueueId,
)
from ledger.state.consumption import Consumption
from ledger.state.progress_table import ConsumedQueue, ProgressTable, QueueProgress
from ledger.v1 import state_pb2


def encode_consumption(consumption: Consumption) -> bytes:
    """Encode a consumption state. Equal states have equal bytes."""
    state = state_pb2.ConsumptionState(
        groups=map(_group_state, consumption.groups),
        progress=(_progress_state(key, progress) for key, progress in consumption.progress),
    )
    return state.SerializeToString(deterministic=True)


def decode_consumption(data: bytes) -> Consumption:
    """Return the consumption state that `data` encodes. Raises InternalError if the bytes are damaged."""
    try:
        state = state_pb2.ConsumptionState.FromString(data)
        groups, progress = map(_group, state.groups), map(_progress, state.progress)
        return Consumption(ConsumerGroupTable(groups), ProgressTable(progress))
    except (DecodeError, ValueError) as error:
        raise InternalError("The consumer groups of a snapshot of the state are damaged: fetch it again.") from error


def _group_state(group: ConsumerGroup) -> state_pb2.ConsumerGroupState:
    return state_pb2.ConsumerGroupState(
        name=group.name,
        strategy=group.strategy,
        generation=group.generation,
        assigned=group.assigned,
        members=(_member_state(group.members[name]) for name in sorted(group.members)),
        shares=(
            state_pb2.ShareState(
                topic_id=queue.topic_id, queue=queue.queue, owner=share.owner, epoch=share.epoch, target=share.target
            )
            for queue, share in sorted(group.shares.items())
        ),
        rooms=(state_pb2.RoomState(shard=each, room=room) for each, room in sorted(group.rooms.items())),
    )


def _member_state(member: MemberRecord) -> state_pb2.MemberState:
    details = member.details
    return state_pb2.MemberState(
        member=details.member,
        client_id=details.client_id,
        room=details.room,
        session_timeout_ms=details.session_timeout_ms,
        version=member.version,
        subscriptions=(number for pair in details.subscriptions for number in pair),
        configured=(number for queue in details.configured for number in queue),
    )


def _progress_state(key: ConsumedQueue, progress: QueueProgress) -> state_pb2.ProgressState:
    return state_pb2.ProgressState(
        consumer_group=key.consumer_group,
        topic_id=key.topic_id,
        queue=key.queue,
        epoch=progress.epoch,
        offset=progress.offset,
        resets=progress.resets,
        settled=progress.settled,
    )


def _group(state: state_pb2.ConsumerGroupState) -> ConsumerGroup:
    group = ConsumerGroup(state.name, state.strategy)
    group.generation, group.assigned = state.generation, state.assigned
    group.rooms = {each.shard: each.room for each in state.rooms}
    for member in state.members:
        group.put(_member(member))
    for each in state.shares:
        queue = TopicQueueId(each.topic_id, each.queue)
        group.shares[queue] = QueueShare(each.owner, each.epoch, each.target)
        if each.owner:
            group.members[each.owner].owned[queue] = None
    return group


def _member(state: state_pb2.MemberState) -> MemberRecord:
    numbers, configured = state.subscriptions, state.configured
    details = MemberDetails(
        state.member,
        state.client_id,
        state.room,
        state.session_timeout_ms,
        tuple(zip(numbers[::2], numbers[1::2], strict=True)),
        tuple(map(TopicQueueId, configured[::2], configured[1::2])),
    )
    return MemberRecord(details, state.version)


def _progress(state: state_pb2.ProgressState) -> tuple[ConsumedQueue, QueueProgress]:
    key = ConsumedQueue(state.consumer_group, state.topic_id, state.queue)
    return key, QueueProgress(state.epoch, state.offset, state.resets, list(state.settled))
