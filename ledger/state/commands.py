"""The commands: entries of the log that change the state and are not batches.

The leader proposes a command, and every replica applies it (`State.apply_command`). command_encoding.py writes a
command as the body of an entry. Some commands may be committed more than once; a repeated command then changes
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ledger.state.consumer_group_table import MemberDetails, TopicQueueId

# -- topics and shards


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create a topic (only in shard 0). Queue i is placed in `shards[i]`; without `shards` every queue is placed in
    shard 0."""

    name: str
    queues: int
    shards: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterTopic:
    """Add queues to a topic (only in shard 0). `shards` lists the shards of the existing queues and then of the new
    queues."""

    topic_id: int
    shards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OpenTopic:
    """Open a topic's queues of this shard for writing (in every shard except shard 0)."""

    topic_id: int
    name: str
    shards: tuple[int, ...]
    created_ms: int


@dataclass(frozen=True, slots=True)
class TopicOpened:
    """Record that the first `queues` queues of the topic are open in their shards (only in shard 0)."""

    topic_id: int
    queues: int


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Remove the topic and all data of the topic that the shard stores (in any shard)."""

    topic_id: int


@dataclass(frozen=True, slots=True)
class AddShard:
    """Add a shard that begins on these nodes (only in shard 0). `incarnations[i]` is the incarnation of `nodes[i]`
    in shard 0."""

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
    """Expire holds by the append time of this entry. The command is needed only while no other entry is appended."""


# -- consumer groups, in the shard of the coordinator


@dataclass(frozen=True, slots=True)
class JoinConsumerGroup:
    """A member joins, or changes its details. `rooms` has (shard, machine room of the node that leads the shard),
    as the member knows them."""

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
    """The next owner of a queue. The name is empty if the consumer group no longer reads the queue."""

    queue: TopicQueueId
    member: str


@dataclass(frozen=True, slots=True)
class AssignQueues:
    """Set the targets of queues. The command is void if the consumer group has a later generation. `goes_on` means
    that another command with more targets of the same assignment follows."""

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
    """A member releases queues. Each queue has the epoch by which the member owned it."""

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
    """A claim of one queue. The epoch is 0 for a broadcast. `start_offset` is used if the consumer group has no
    progress in the queue yet."""

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
    """All messages before `offset` are consumed. `resets` is the number of resets that the owner's claim returned."""

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
