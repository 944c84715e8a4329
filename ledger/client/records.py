"""The values that clients return to users: messages, receipts and descriptions. All these values are immutable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ledger.retries import attempts, origin


class TopicQueue(NamedTuple):
    """One queue of one topic; equal to the plain tuple `(topic, queue)`."""

    topic: str
    queue: int


class Message(NamedTuple):
    """A message as a consumer receives it.

    `timestamp_ms` is the producer's time and `append_time_ms` the time at which the leader appended the message; both
    are milliseconds since 1970. `term` is the Raft term of the message's entry. The class is a tuple, because a
    consumer makes millions of messages a second.
    """

    topic: str
    queue: int
    offset: int
    timestamp_ms: int
    append_time_ms: int
    key: bytes | None
    value: bytes
    tag: str | None
    headers: tuple[tuple[str, bytes], ...]
    term: int

    @property
    def id(self) -> str:
        """`topic:queue:offset`. The id of a message is equal on all nodes and never changes."""
        return f"{self.topic}:{self.queue}:{self.offset}"

    @property
    def origin(self) -> str:
        """`topic:queue:offset` of the message that the producer sent.

        The origin differs from `id` if the message was moved to a retry topic or to the dead letters.
        """
        return origin(self.headers) or self.id

    @property
    def attempt(self) -> int:
        """The number of deliveries of this message to the consumer group, including this one; at least 1."""
        return attempts(self.headers) + 1


class RecordMetadata(NamedTuple):
    """The place of one committed message.

    `timestamp_ms` is the time at which the leader appended the message (ms since 1970). `term` is the Raft term of the
    message's entry. `duplicate` is True if an earlier attempt of the same send was committed; the other fields then
    describe that attempt.
    """

    topic: str
    queue: int
    offset: int
    timestamp_ms: int
    term: int
    duplicate: bool


@dataclass(frozen=True, slots=True)
class RecordRange:
    """The place of `count` committed messages: consecutive offsets from `first_offset`, in the order of the send."""

    topic: str
    queue: int
    first_offset: int
    count: int


@dataclass(frozen=True, slots=True)
class QueueOffsets:
    """The offsets of one queue: the first kept message has `first_offset`, and the next new message gets `end_offset`.

    If both offsets are equal, the queue has no messages.
    """

    queue: int
    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic. Queue i of the topic is in shard `shards[i]`. `created_ms` is in ms since 1970. `offsets` is empty if
    the caller did not ask for offsets.
    """

    name: str
    topic_id: int
    shards: tuple[int, ...]
    created_ms: int
    offsets: tuple[QueueOffsets, ...] = ()

    @property
    def queues(self) -> int:
        return len(self.shards)


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """One node's view of one shard.

    `role` is leader, candidate, pre-candidate, follower, learner, waiting (before the first start), joining (until the
    node is added) or removed. `suspect` means that this replica may have lost entries that it acknowledged; the replica
    is not counted until it has caught up.
    """

    shard: int
    role: str
    term: int
    leader: int
    last_index: int
    commit: int
    applied: int
    end_position: int
    chain: int
    suspect: bool = False


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a shard as the leader sees it: a voter or a learner.

    `lag_entries` and `lag_bytes` count the committed entries that the member does not have yet. `caught_up` is True if
    the lag is no larger than the entries that are normally on their way to a node. `suspect` is True if the member may
    have lost entries that it acknowledged.
    """

    node: int
    address: str
    incarnation: bytes
    voter: bool
    suspect: bool
    lag_entries: int
    lag_bytes: int
    caught_up: bool


@dataclass(frozen=True, slots=True)
class Members:
    """The members of a shard in its newest committed configuration.

    `transferring_to` is the node to which the leader is handing over leadership, or 0 if there is no handover.
    """

    cluster: str
    term: int
    leader: int
    transferring_to: int
    last_index: int
    commit: int
    configuration_index: int
    members: tuple[Member, ...]

    def get(self, node: int) -> Member | None:
        """Return the member with this node number, or None."""
        return next((member for member in self.members if member.node == node), None)


@dataclass(frozen=True, slots=True)
class Doubt:
    """The reason why a node is suspect in one shard.

    The node may have lost the entries after `last_index`. The node has been suspect since `since_ms` (ms since 1970),
    because of `reason`. `accepted` is True if the loss was accepted; the node is then no longer suspect.
    """

    node: int
    reason: str
    since_ms: int
    last_index: int
    accepted: bool
    shard: int = 0


@dataclass(frozen=True, slots=True)
class LogCut:
    """The part of a log that a trim removed, or, in a dry run, would remove.

    `entries`, `bytes` and `messages` count the removed part; its newest entry was appended at `newest_ms` (ms since
    1970). After the trim the log starts at entry `first_index` and has `bytes_kept` bytes. If nothing is removed, the
    counts and `newest_ms` are 0. `held_by` names the holds of the log; nothing is removed while the log has a hold.

    After a trim of several shards, `by_shard` has the result of each shard. The other fields are sums, `newest_ms` is
    the latest time, and `first_index` is 0.
    """

    first_index: int
    entries: int
    bytes: int
    messages: int
    newest_ms: int
    bytes_kept: int
    held_by: tuple[str, ...]
    dry_run: bool
    shard: int = 0
    by_shard: tuple[LogCut, ...] = ()


@dataclass(frozen=True, slots=True)
class LogHold:
    """A named hold of the log of one shard. The hold was taken at entry `index`, at `taken_ms` (ms since 1970).

    The shard removes no entry until the hold is released or expires at `expires_ms` (ms since 1970). A hold expires
    when an entry with a later append time is applied.
    """

    name: str
    index: int
    taken_ms: int
    expires_ms: int
    shard: int = 0


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """The status of one node, as the node reports it. If `reachable` is False, `error` says why the node did not answer
    and the fields after it are empty.
    """

    node: int
    address: str
    reachable: bool
    error: str = ""
    cluster: str = ""
    http_address: str = ""
    data_directory: str = ""
    version: str = ""
    shards: tuple[ShardStatus, ...] = ()
