"""The commands: entries of the log that change the state and are not batches.

The leader proposes a command, and every replica applies it (`State.apply_command`). command_encoding.py writes a
command as the body of an entry. Several commands may be applied more than once; the repetition then changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ledger.state.consumer_group_table import MemberDetails, TopicQueueId

# -- topics and shards


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """In shard 0: create a topic. Queue i is placed in `shards[i]`; without `shards` every queue is placed in shard
    0."""

    name: str
    queues: int
    shards: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterTopic:
    """In shard 0: add queues to a topic. `shards` lists the shards of the existing queues and of the new ones."""

    topic_id: int
    shards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OpenTopic:
    """In any shard but 0: open the topic's queues of this shard for writing."""

    topic_id: int
    name: str
    shards: tuple[int, ...]
    created_ms: int


@dataclass(frozen=True, slots=True)
class TopicOpened:
    """In shard 0: the first `queues` queues of the topic are open in their shards."""

    topic_id: int
    queues: int


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """In any shard: remove the topic and everything that the shard stores of it."""

    topic_id: int


@dataclass(frozen=True, slots=True)
class AddShard:
    """In shard 0: add a shard that begins on these nodes. `incarnations[i]` is that of `nodes[i]` in shard 0."""

    shard: int
    nodes: tuple[int, ...]
    incarnations: tuple[bytes, ...]


# -- holds


@dataclass(frozen=True, slots=True)
class HoldLog:
    """Take a hold, or change the expiry of an existing hold to `ttl_ms` after the append time of this entry."""

    name: str
    ttl_ms: int


@dataclass(frozen=True, slots=True)
class ReleaseLog:
    """Release a hold."""

    name: str


@dataclass(frozen=True, slots=True)
class ForgetHolds:
    """Expire holds by the append time of this entry. Needed only while no other entry is appended."""


# -- consumer groups, in the shard of the coordinator


@dataclass(frozen=True, slots=True)
class JoinConsumerGroup:
    """A member joins, or changes its details. `rooms`: (shard, machine room of the node that leads the shard), as the
    member knows them."""

    consumer_group: str
    strategy: str
    member: MemberDetails
    rooms: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class LeaveConsumerGroup:
    """Members leave, or the coordinator removes silent members."""

    consumer_group: str
    members: tuple[str, ...]


class QueueTarget(NamedTuple):
    """The next owner of a queue; the empty name if the consumer group no longer reads the queue."""

    queue: TopicQueueId
    member: str


@dataclass(frozen=True, slots=True)
class AssignQueues:
    """Set the targets of queues. The command is void if the consumer group has a later generation. `goes_on`: another
    command with more targets of the same assignment follows."""

    consumer_group: str
    generation: int
    targets: tuple[QueueTarget, ...]
    goes_on: bool = False


class QueueEpoch(NamedTuple):
    """A queue and the epoch by which a member owns it."""

    queue: TopicQueueId
    epoch: int


@dataclass(frozen=True, slots=True)
class ReleaseQueues:
    """A member releases queues that it owned by these epochs."""

    consumer_group: str
    member: str
    queues: tuple[QueueEpoch, ...]


@dataclass(frozen=True, slots=True)
class RenewQueues:
    """Give the owners of these queues new epochs, so that they claim the queues again."""

    consumer_group: str
    queues: tuple[TopicQueueId, ...]


# -- progress of consumer groups, in the shard of the queue


class ClaimedQueue(NamedTuple):
    """A claim of one queue. The epoch is 0 for a broadcast. `start_offset` counts if the queue has no progress yet."""

    topic_id: int
    queue: int
    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class ClaimQueues:
    """A consumer claims queues and fences their earlier owners."""

    consumer_group: str
    queues: tuple[ClaimedQueue, ...]


class AcknowledgedOffset(NamedTuple):
    """All messages before `offset` are consumed. `resets`: the number of resets that the owner's claim returned."""

    topic_id: int
    queue: int
    epoch: int
    resets: int
    offset: int


@dataclass(frozen=True, slots=True)
class AcknowledgeOffsets:
    """Acknowledged offsets of several members of one consumer group."""

    consumer_group: str
    offsets: tuple[AcknowledgedOffset, ...]


class ResetOffset(NamedTuple):
    """The new offset of a consumer group in one queue."""

    topic_id: int
    queue: int
    offset: int


@dataclass(frozen=True, slots=True)
class ResetOffsets:
    """Set offsets of a consumer group. The present owners are fenced and claim their queues again."""

    consumer_group: str
    offsets: tuple[ResetOffset, ...]


@dataclass(frozen=True, slots=True)
class ForgetConsumerGroup:
    """Remove the progress of a consumer group in every queue of this shard."""

    consumer_group: str


TopicCommand = CreateTopic | AlterTopic | OpenTopic | TopicOpened | DeleteTopic
LogCommand = AddShard | HoldLog | ReleaseLog | ForgetHolds
GroupCommand = JoinConsumerGroup | LeaveConsumerGroup | AssignQueues | ReleaseQueues | RenewQueues
ProgressCommand = ClaimQueues | AcknowledgeOffsets | ResetOffsets | ForgetConsumerGroup
Command = TopicCommand | LogCommand | GroupCommand | ProgressCommand
