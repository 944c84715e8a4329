"""A command is a log entry that changes the state and is not a batch.

The leader proposes a command, and every replica applies it (`State.apply_command`). command_encoding.py writes a
command as the body of an entry. Some commands can be committed more than once; the repeated command then changes
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ledger.access.password import Verifier
from ledger.access.rules import Rule
from ledger.state.consumer_group_table import MemberDetails, TopicQueueId
from ledger.state.group_modes import GroupMode
from ledger.state.lease_table import LeaseChange
from ledger.state.placement_table import MoveReason
from ledger.state.timed_table import TimedMessage
from ledger.state.transaction_table import HalfName
from ledger.topics import TopicType

# -- every shard


@dataclass(frozen=True, slots=True)
class RaiseFeatureLevel:
    """Apply the rules of this feature level from this entry on (feature_levels.py)."""

    level: int


@dataclass(frozen=True, slots=True)
class PinLeader:
    """Let the voter `node` lead this shard whenever it can. `incarnation` is its incarnation in the shard. An earlier
    pin is replaced. With `balances`, the cluster itself prefers this leader, and a pin of an operator stays."""

    node: int
    incarnation: bytes
    balances: bool = False


@dataclass(frozen=True, slots=True)
class UnpinLeader:
    """Remove the pin of this shard's leader."""


# -- topics and shards


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create a topic (only in shard 0). Queue i is placed in `shards[i]`; without `shards` every queue is placed in
    shard 0. `type` is the number of a `ledger.topics.TopicType`. A state below feature level 5 ignores the type."""

    name: str
    queues: int
    shards: tuple[int, ...] = ()
    type: int = TopicType.MIXED


@dataclass(frozen=True, slots=True)
class AlterTopic:
    """Add queues to a topic, or give it another type (only in shard 0). `shards` lists the shards of the existing
    queues, followed by the shards of the new queues. `type` is the new type, or None to keep the type. A state below
    feature level 5 ignores it."""

    topic_id: int
    shards: tuple[int, ...]
    type: int | None = None


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
    """Add a shard whose initial members are `nodes` (only in shard 0). `incarnations[i]` is the incarnation of
    `nodes[i]` in shard 0."""

    shard: int
    nodes: tuple[int, ...]
    incarnations: tuple[bytes, ...]


# -- the placement of replicas, in shard 0


@dataclass(frozen=True, slots=True)
class SetReplicas:
    """From now on, each shard shall have so many replicas. With `shard`, only this shard; 0 replicas then mean: as many
    as the other shards."""

    replicas: int
    shard: int = 0


@dataclass(frozen=True, slots=True)
class PausePlacement:
    """Pause all moves of replicas, or go on with them."""

    paused: bool


@dataclass(frozen=True, slots=True)
class BalanceReplicas:
    """Begin to balance the replicas over the nodes, or end it. The leader ends it when nothing is left to move."""

    begins: bool


@dataclass(frozen=True, slots=True)
class DrainNode:
    """Begin to drain a node: its replicas move to other nodes. With `removes`, the node then leaves the cluster."""

    node: int
    removes: bool


@dataclass(frozen=True, slots=True)
class EndDrain:
    """The drain of a node is complete, or an operator has ended it."""

    node: int


@dataclass(frozen=True, slots=True)
class BeginReplicaMove:
    """Begin a move: the shard gets a replica on the node `to`, and then loses the replica on the node `source`."""

    shard: int
    to: int
    source: int
    reason: MoveReason


@dataclass(frozen=True, slots=True)
class EndReplicaMove:
    """The move of the shard is complete, or it was given up."""

    shard: int


# -- holds


@dataclass(frozen=True, slots=True)
class HoldLog:
    """Take a hold that expires `ttl_ms` after the append time of this entry. If a hold of this name exists, set its
    expiry to `ttl_ms` after the append time of this entry."""

    name: str
    ttl_ms: int


@dataclass(frozen=True, slots=True)
class ReleaseLog:
    """Release a hold."""

    name: str


@dataclass(frozen=True, slots=True)
class ForgetHolds:
    """Remove the holds that have expired at the append time of this entry. Batches and all other commands remove
    expired holds too, so this command is needed only while no other entry is appended."""


# -- consumer groups, in the shard of the coordinator


@dataclass(frozen=True, slots=True)
class JoinConsumerGroup:
    """Add a member to a consumer group, or change the details of a member. `rooms` has pairs of a shard and the
    machine room of the shard's leader, as the member knows them."""

    consumer_group: str
    strategy: str
    member: MemberDetails
    rooms: tuple[tuple[int, str], ...] = ()
    # The number under which the leader coordinates the group (coordinator_table.py).
    number: int = 0


@dataclass(frozen=True, slots=True)
class LeaveConsumerGroup:
    """Remove members that leave a consumer group, or that sent no heartbeat for longer than their session timeout."""

    consumer_group: str
    members: tuple[str, ...]


class QueueTarget(NamedTuple):
    """The target of a queue, which is the member that becomes its next owner. `member` is empty if the consumer
    group no longer reads the queue."""

    queue: TopicQueueId
    member: str


@dataclass(frozen=True, slots=True)
class AssignQueues:
    """Set the targets of queues, which are their next owners. The command changes nothing if the consumer group has
    a later generation. `goes_on` means that another command with more targets of the same assignment follows."""

    consumer_group: str
    generation: int
    targets: tuple[QueueTarget, ...]
    goes_on: bool = False


class QueueEpoch(NamedTuple):
    """A queue, and the consumer epoch under which a member owns the queue."""

    queue: TopicQueueId
    epoch: int


@dataclass(frozen=True, slots=True)
class ReleaseQueues:
    """Release queues that a member owns. Each queue has the consumer epoch by which the member owns the queue."""

    consumer_group: str
    member: str
    queues: tuple[QueueEpoch, ...]


@dataclass(frozen=True, slots=True)
class RenewQueues:
    """Give the owners of `queues` new epochs, so that they claim the queues again."""

    consumer_group: str
    queues: tuple[TopicQueueId, ...]


@dataclass(frozen=True, slots=True)
class PlaceCoordinator:
    """Let a shard coordinate a consumer group (only in shard 0). With `only_new`, a group that has a place or members
    stays where it is."""

    consumer_group: str
    shard: int
    only_new: bool = False


@dataclass(frozen=True, slots=True)
class HostGroup:
    """Note that this shard coordinates a consumer group under this number. `placed_at` is the index of the entry of
    shard 0 that gave the number."""

    consumer_group: str
    number: int
    placed_at: int


@dataclass(frozen=True, slots=True)
class CloseGroup:
    """Remove the members of a consumer group that this shard coordinated under this number, and does not any more."""

    consumer_group: str
    number: int


# -- progress of consumer groups, in the shard of the queue


class ClaimedQueue(NamedTuple):
    """The claim of one queue by a consumer. The epoch is 0 for a broadcast. `start_offset` is used if the consumer
    group has no progress in the queue yet."""

    topic_id: int
    queue: int
    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class ClaimQueues:
    """Claim queues for a consumer, and fence their earlier owners."""

    consumer_group: str
    queues: tuple[ClaimedQueue, ...]


class AcknowledgedOffset(NamedTuple):
    """All messages before `offset` are consumed. `resets` is the count of resets that the owner received as the
    answer to its claim."""

    topic_id: int
    queue: int
    epoch: int
    resets: int
    offset: int


@dataclass(frozen=True, slots=True)
class AcknowledgeOffsets:
    """Store the offsets that several members of one consumer group have acknowledged."""

    consumer_group: str
    offsets: tuple[AcknowledgedOffset, ...]


class ResetOffset(NamedTuple):
    """The new offset of a consumer group in one queue."""

    topic_id: int
    queue: int
    offset: int


@dataclass(frozen=True, slots=True)
class ResetOffsets:
    """Set the offsets from which a consumer group goes on. The present owners are fenced and claim their queues
    again."""

    consumer_group: str
    offsets: tuple[ResetOffset, ...]


@dataclass(frozen=True, slots=True)
class ForgetConsumerGroup:
    """Remove the progress of a consumer group in every queue of this shard."""

    consumer_group: str


# -- users and their rights, in shard 0


@dataclass(frozen=True, slots=True)
class BeginAccess:
    """Add the first administrator, once in the life of a cluster. `salt_key` has 32 random bytes."""

    name: str
    verifier: Verifier
    salt_key: bytes


@dataclass(frozen=True, slots=True)
class AddUser:
    """Add a user. Without `verifier` the user authenticates with a client certificate only."""

    name: str
    verifier: Verifier | None


@dataclass(frozen=True, slots=True)
class RotateUser:
    """Replace the verifier of a user. The tokens of the user end."""

    name: str
    verifier: Verifier | None


@dataclass(frozen=True, slots=True)
class RemoveUser:
    """Remove a user, its rules and its tokens."""

    name: str


@dataclass(frozen=True, slots=True)
class GrantRules:
    """Add rules to users."""

    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class RevokeRules:
    """Remove rules of users."""

    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class DelegateToken:
    """Add a token that expires `ttl_ms` after the append time of this entry. `digest` is the SHA-256 of the token."""

    digest: bytes
    user: str
    rules: tuple[Rule, ...]
    ttl_ms: int


@dataclass(frozen=True, slots=True)
class SetRocketmqSecret:
    """Replace the RocketMQ secret of a user. `encrypted` is encrypted with a key that is not in the log; if it is
    empty, the user has no RocketMQ secret any more."""

    name: str
    encrypted: bytes


# -- waiting messages, in the shard of their target queue


@dataclass(frozen=True, slots=True)
class SettleTimed:
    """End a turn of delivery: the cursor becomes (`through_ms`, `through_identity`, `seen`). `settled` has the
    identities that the turn settles without delivery, in rising order."""

    through_ms: int
    through_identity: int
    seen: int
    settled: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CancelTimed:
    """Cancel waiting messages. Messages that were delivered or cancelled before stay as they are."""

    items: tuple[TimedMessage, ...]


# -- transactions


@dataclass(frozen=True, slots=True)
class CommitTransaction:
    """Commit the transaction `transaction` of this shard, whose first half batch waits here. `halves` has all its half
    batches, with the shard HERE for those of this shard. A commit of one half batch is a decided batch instead."""

    transaction: int
    halves: tuple[HalfName, ...]


@dataclass(frozen=True, slots=True)
class RollBackHalves:
    """Roll back half batches of this shard. The first half batch of a transaction ends the transaction."""

    numbers: tuple[int, ...]


class SettledHalf(NamedTuple):
    """A half batch of another shard that was settled there, and its transaction in this shard."""

    transaction: int
    half: HalfName


@dataclass(frozen=True, slots=True)
class ConfirmHalves:
    """Note that other shards have carried out a commit, or that they have deleted the topic."""

    settled: tuple[SettledHalf, ...]


@dataclass(frozen=True, slots=True)
class CountUnknown:
    """Count for each of these transactions one answer of a producer that does not know the outcome."""

    transactions: tuple[int, ...]


# -- shared consumer groups


@dataclass(frozen=True, slots=True)
class CreateConsumerGroup:
    """Create a consumer group with a mode, in the shard of its coordinator. The `created` of the mode is not used: it
    becomes the index of this entry."""

    mode: GroupMode


class QueueLeases(NamedTuple):
    """Changes of the leases of one consumer group in one queue. `created` is the index of the group's creation. A group
    that is new in the queue begins at `start_offset`."""

    consumer_group: str
    created: int
    queue: TopicQueueId
    start_offset: int
    changes: tuple[LeaseChange, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangeLeases:
    """Move the lease time of the shard to `time_ms`, and change the leases of consumer groups in queues of this shard,
    in the order of `queues`. Without queues only the lease time moves."""

    queues: tuple[QueueLeases, ...]
    # The lease time at which the leader made the command.
    time_ms: int


TopicCommand = CreateTopic | AlterTopic | OpenTopic | TopicOpened | DeleteTopic
LogCommand = RaiseFeatureLevel | PinLeader | UnpinLeader | AddShard | HoldLog | ReleaseLog | ForgetHolds
PlacementCommand = (
    SetReplicas | PausePlacement | BalanceReplicas | DrainNode | EndDrain | BeginReplicaMove | EndReplicaMove
)
GroupCommand = JoinConsumerGroup | LeaveConsumerGroup | AssignQueues | ReleaseQueues | RenewQueues
CoordinatorCommand = PlaceCoordinator | HostGroup | CloseGroup
ProgressCommand = ClaimQueues | AcknowledgeOffsets | ResetOffsets | ForgetConsumerGroup
AccessCommand = (
    BeginAccess | AddUser | RotateUser | RemoveUser | GrantRules | RevokeRules | DelegateToken | SetRocketmqSecret
)
TimedCommand = SettleTimed | CancelTimed
TransactionCommand = CommitTransaction | RollBackHalves | ConfirmHalves | CountUnknown
SharedCommand = CreateConsumerGroup | ChangeLeases
Command = (
    TopicCommand
    | LogCommand
    | PlacementCommand
    | GroupCommand
    | CoordinatorCommand
    | ProgressCommand
    | AccessCommand
    | TimedCommand
    | TransactionCommand
    | SharedCommand
)
