"""The immutable values that clients return to users: messages, receipts, statuses and descriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, NamedTuple

from typing_extensions import TypeVar

from ledger.retries import attempts, consumer_group_of, origin
from ledger.timed import DELIVER_AT, MAX_DELIVERY_MS, WaitingMessages, moment

# What a producer takes as a value. A serializer changes it.
Sent = TypeVar("Sent", default=bytes | bytearray | memoryview)
# The offset of a message that waits for its delivery time.
NO_OFFSET = -1
# The type of the value of one message that a program sends.
Given = TypeVar("Given", covariant=True, default=bytes | bytearray | memoryview)
# The type of the values that a consumer hands out. A deserializer changes it.
Received = TypeVar("Received", default=bytes)


class TopicQueue(NamedTuple):
    """One queue of one topic. A `TopicQueue` is equal to the plain tuple `(topic, queue)`."""

    topic: str
    queue: int


class Message(NamedTuple, Generic[Received]):
    """A message as a consumer receives it.

    `value` is bytes, or what the consumer's `deserializer` made of them. `timestamp_ms` is the time that the producer
    gave to the message, and `append_time_ms` is the time at which the leader appended the message; both are in
    milliseconds since 1970. `term` is the Raft term of the message's entry. `look_up_keys` are further keys by which
    the message is found. `Message` is a named tuple, because a consumer makes millions of messages a second.
    """

    topic: str
    queue: int
    offset: int
    timestamp_ms: int
    append_time_ms: int
    key: bytes | None
    value: Received
    tag: str | None
    headers: tuple[tuple[str, bytes], ...]
    term: int
    look_up_keys: tuple[bytes, ...] = ()

    @property
    def id(self) -> str:
        """The id of the message, in the form `topic:queue:offset`. The id of a message is equal on all nodes and
        never changes."""
        return f"{self.topic}:{self.queue}:{self.offset}"

    @property
    def origin(self) -> str:
        """The id, in the form `topic:queue:offset`, of the message that the producer sent.

        `origin` differs from `id` if the message was moved to a retry topic or to the dead letters.
        """
        return (origin(self.headers) if self._was_moved else None) or self.id

    @property
    def attempt(self) -> int:
        """The number of times that this message has been delivered to the consumer group, including the present
        delivery. The number of the first delivery is 1."""
        return attempts(self.headers) + 1 if self._was_moved else 1

    @property
    def _was_moved(self) -> bool:
        """True if a broker wrote the message into a retry topic or the dead letters. In other topics the headers of
        moved messages are what a producer sent, and say nothing."""
        return consumer_group_of(self.topic) is not None

    @property
    def deliver_at(self) -> datetime | None:
        """The delivery time of the message in UTC, if it waited for one, otherwise None."""
        text = next((value for name, value in self.headers if name == DELIVER_AT), b"")
        if not text.isdigit() or len(text) > 15 or int(text) > MAX_DELIVERY_MS:
            return None
        return moment(int(text))


class RecordMetadata(NamedTuple):
    """The queue and the offset of one committed message.

    `timestamp_ms` is the time at which the leader appended the message (ms since 1970). `term` is the Raft term of the
    message's entry. `duplicate` is True if an earlier attempt of the same send was committed. If `duplicate` is True,
    the other fields describe the earlier attempt.

    A message with a delivery time waits, and has no offset in its queue yet: `offset` is -1. `deliver_at` is its
    delivery time in UTC, and `handle` is what cancel() takes. For other messages, `deliver_at` is None and `handle`
    is empty.
    """

    topic: str
    queue: int
    offset: int
    timestamp_ms: int
    term: int
    duplicate: bool
    deliver_at: datetime | None = None
    handle: str = ""


@dataclass(frozen=True, slots=True)
class RecordRange:
    """The queue and the offsets of `count` committed messages of one send. The offsets of the messages are
    consecutive and begin at `first_offset`; the messages are in the order in which they were sent.

    `indexes` says which messages these are: message `first_offset + i` is item `indexes[i]` of the messages that were
    passed to the call, counted from 0.

    Messages with delivery times wait, and have no offsets in their queue yet: `first_offset` is -1. `deliver_at` and
    `handles` have the delivery time and the handle of each message. For other messages these lists are empty.
    """

    topic: str
    queue: int
    first_offset: int
    count: int
    indexes: Sequence[int] = field(default=range(0), compare=False, repr=False)
    _waiting: WaitingMessages | None = field(default=None, compare=False, repr=False)

    @property
    def deliver_at(self) -> list[datetime]:
        """The delivery time of each message, in UTC."""
        return [] if self._waiting is None else [self._waiting.deliver_at(place) for place in range(self.count)]

    @property
    def handles(self) -> list[str]:
        """The handle of each message, which cancel() takes."""
        return [] if self._waiting is None else [self._waiting.handle(place) for place in range(self.count)]


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message that waits for its delivery time.

    `handle` is what cancel() of a producer takes. `topic` and `queue` are the queue to which the message will be
    delivered; `topic` is "" if it was deleted. `deliver_at` is in UTC, and `size` is the number of bytes of the value.
    `value`, `headers` and `look_up_keys` are empty in lists. `unreadable` says why a node cannot read the message, and
    is "" if it can.
    """

    handle: str
    topic: str
    queue: int
    deliver_at: datetime
    timestamp_ms: int
    key: bytes | None
    tag: str | None
    size: int
    value: bytes = b""
    headers: tuple[tuple[str, bytes], ...] = ()
    unreadable: str = ""
    look_up_keys: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueOffsets:
    """The offsets of one queue: the first kept message has `first_offset`, and the next new message gets `end_offset`.

    If the two offsets are equal, the queue has no messages. `about_bytes` is about how many bytes the messages take in
    the log, or 0 if the node was not asked for it.
    """

    queue: int
    first_offset: int
    end_offset: int
    about_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic. Queue i of the topic is in shard `shards[i]`. `created_ms` is the time of the topic's creation, in ms
    since 1970. `offsets` is empty unless the description was returned by `describe_topic`. `type` says what producers
    may send to the topic: mixed, normal, fifo, delay or transaction.
    """

    name: str
    topic_id: int
    shards: tuple[int, ...]
    created_ms: int
    offsets: tuple[QueueOffsets, ...] = ()
    type: str = "mixed"

    @property
    def queues(self) -> int:
        """The number of queues of the topic."""
        return len(self.shards)


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """The state of one shard's replica, as its node reports it.

    `role` is leader, candidate, pre-candidate, follower, learner, waiting (before the first start), joining (until the
    node is added) or removed. `suspect` is True if this replica may have lost entries that it acknowledged. A suspect
    replica is not counted in majorities until it has caught up. `feature_level` is the level of the replicated state,
    which rises when all members of the shard run a newer version. `stopped` says why this replica applies no more
    entries, and is empty while it applies entries. `diverged` says how the logs of other members contradict this log,
    and is empty if none does. `unacknowledged_by` names the followers that keep this leader from committing: they
    answer heartbeats and acknowledge no entries. `no_writes` says why this replica takes no writes of clients, for
    example because its disk is nearly full, and is empty if it takes writes when it leads. `clock_offsets_ms`, which
    only a leader tells, says by how many ms the wall clock of each voter is ahead of the clocks of a majority, or
    behind them (negative). `first_index` is the first entry of the log. The positions are in bytes since the first
    entry that the shard ever had: the log begins at `start_position`, and is flushed to the disk, committed and applied
    up to the other positions. `voted_for` is the node for which this replica voted in this term, or 0. `pinned_leader`
    is the voter that an operator has pinned as the leader, and `preferred_leader` the voter that takes leadership
    whenever it can (the pinned leader, if there is one), as this replica knows them; 0: none.
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
    feature_level: int = 0
    stopped: str = ""
    diverged: str = ""
    unacknowledged_by: tuple[int, ...] = ()
    rebuilt: str = ""
    no_writes: str = ""
    clock_offsets_ms: Mapping[int, int] = field(default_factory=dict)
    first_index: int = 0
    start_position: int = 0
    flushed_position: int = 0
    commit_position: int = 0
    applied_position: int = 0
    voted_for: int = 0
    pinned_leader: int = 0
    preferred_leader: int = 0


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a shard, a voter or a learner, as the shard's leader reports it.

    `lag_entries` and `lag_bytes` count the committed entries that the member does not have yet. `caught_up` is True if
    the member lacks only as many entries as are normally in flight to a node. `suspect` is True if the member may have
    lost entries that it acknowledged.
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

    `transferring_to` is the node to which the leader hands over the leadership now, or 0 if there is no handover.
    `pinned_leader` is the voter that an operator has pinned as the leader, and `preferred_leader` the voter that takes
    leadership whenever it can (the pinned leader, if there is one); 0: none. Another leader leads for `preference_ms`
    at least before it hands leadership to the preferred leader; 0: the leader runs a version that does not tell.
    """

    cluster: str
    term: int
    leader: int
    transferring_to: int
    last_index: int
    commit: int
    configuration_index: int
    members: tuple[Member, ...]
    preferred_leader: int = 0
    pinned_leader: int = 0
    preference_ms: int = 0

    def get(self, node: int) -> Member | None:
        """Return the member with this node number, or None."""
        return next((member for member in self.members if member.node == node), None)


@dataclass(frozen=True, slots=True)
class Doubt:
    """The reason why a node is suspect in one shard.

    The node may have lost the entries after `last_index`. The node has been suspect since `since_ms` (ms since 1970),
    because of `reason`. `accepted` is True if the loss of the missing entries was accepted. After the loss was
    accepted, the node is no longer suspect.
    """

    node: int
    reason: str
    since_ms: int
    last_index: int
    accepted: bool
    shard: int = 0


@dataclass(frozen=True, slots=True)
class LogCut:
    """The entries of a log that a trim removed, or that the trim would remove without `dry_run`.

    `entries`, `bytes` and `messages` say how many entries, bytes and messages were removed. The newest removed entry
    was appended at `newest_ms` (ms since 1970). After the trim the log starts at entry `first_index` and has
    `bytes_kept` bytes. If nothing is removed, `entries`, `bytes`, `messages` and `newest_ms` are 0. `held_by` has the
    names of the holds of the log; nothing is removed while the log has a hold.

    After a trim of several shards, `by_shard` has the `LogCut` of each shard. In a `LogCut` of several shards, the
    counts and `bytes_kept` are sums, `newest_ms` is the latest time, and `first_index` is 0.
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
    """A named hold, which prevents the removal of entries from the log of one shard. The hold was taken at entry
    `index`, at `taken_ms` (ms since 1970).

    The shard removes no entry of the log until the hold is released or expires. The hold expires at `expires_ms` (ms
    since 1970). A hold expires when the shard applies an entry with an append time after `expires_ms`.
    """

    name: str
    index: int
    taken_ms: int
    expires_ms: int
    shard: int = 0


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """The status of one node, as the node reports it. If `reachable` is False, `error` says why the node did not
    answer, and the fields after `error` are empty.
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
