"""The values that clients return to users: messages, receipts and descriptions. All are immutable."""

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
    are milliseconds since 1970. `term` is the Raft term of the message's entry. (A tuple, because a consumer makes
    millions of messages a second.)
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
        """`topic:queue:offset`, which is the same on every node for as long as the message is kept."""
        return f"{self.topic}:{self.queue}:{self.offset}"

    @property
    def origin(self) -> str:
        """`topic:queue:offset` of the place where the producer put the message.

        It differs from `id` if the message was moved to a retry topic or to the dead letters.
        """
        return origin(self.headers) or self.id

    @property
    def attempt(self) -> int:
        """How many times the consumer group was given this message, including this time; at least 1."""
        return attempts(self.headers) + 1


class RecordMetadata(NamedTuple):
    """The place of one committed message.

    `timestamp_ms` is when the leader appended the message (ms since 1970). `duplicate` means that an earlier attempt of
    the same send was committed already; the other fields then describe that attempt.
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
    """The offsets of the messages that a queue has: [first_offset, end_offset)."""

    queue: int
    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic and the shard of each queue: queue i is in `shards[i]`. `offsets` is empty if the caller did not ask for
    offsets.
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
    """One member of a cluster as the leader sees it: a voter or a learner.

    The lag counts the committed entries and bytes that the member lacks. `caught_up` means that the lag is no larger
    than the entries that are normally on their way to a node.
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
    """The members of a cluster, by its newest committed configuration.

    `transferring_to` is the node to which the leader is handing over leadership; 0 means that no handover is under way.
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
        return next((member for member in self.members if member.node == node), None)


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a node is suspect: it may have lost entries after `last_index`, for `reason`, since `since_ms` (ms since
    1970).

    `accepted` means that the loss was accepted, so the node is no longer suspect.
    """

    node: int
    reason: str
    since_ms: int
    last_index: int
    accepted: bool
    shard: int = 0


@dataclass(frozen=True, slots=True)
class LogCut:
    """The part of a log that a trim removed, or that it would remove if this was a dry run.

    `entries`, `bytes` and `messages` count the removed part; its newest entry was appended at `newest_ms` (ms since
    1970). The log then starts at `first_index` and keeps `bytes_kept` bytes. If nothing is removed, the counts and
    `newest_ms` are 0. `held_by` names the holds of the log; nothing is removed while the log has a hold.
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
    # Of a trim in several shards: each of them. All the rest are sums then, and `first_index` is 0.
    by_shard: tuple[LogCut, ...] = ()


@dataclass(frozen=True, slots=True)
class LogHold:
    """A named hold of the log, taken at entry `index`.

    Earlier entries are kept until the hold is released or expires at `expires_ms` (ms since 1970). Append times of
    entries decide when the hold expires.
    """

    name: str
    index: int
    taken_ms: int
    expires_ms: int
    shard: int = 0


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node as it describes itself. If `reachable` is false, `error` says why the node did not answer."""

    node: int
    address: str
    reachable: bool
    error: str = ""
    cluster: str = ""
    http_address: str = ""
    data_directory: str = ""
    version: str = ""
    shards: tuple[ShardStatus, ...] = ()
