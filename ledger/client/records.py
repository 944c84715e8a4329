"""What the clients hand to their users: messages, receipts and descriptions.

The one idea: plain frozen values, with nothing of the wire in them.
They must not know protobuf, gRPC or asyncio.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ledger.retries import attempts, origin


class TopicQueue(NamedTuple):
    """One queue of one topic; equal to the plain tuple `(topic, queue)`."""

    topic: str
    queue: int


class Message(NamedTuple):
    """A message as a consumer gets it. `timestamp_ms` is the producer's, `append_time_ms` when the leader appended it
    (both in ms since 1970), `term` that of its entry. (A tuple, since millions of them are made a second.)"""

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
        """`topic:queue:offset`: the same on every node, for as long as the message is kept."""
        return f"{self.topic}:{self.queue}:{self.offset}"

    @property
    def origin(self) -> str:
        """`topic:queue:offset` of the place where its producer put it: its own id, unless it was moved to be consumed
        again, or given up."""
        return origin(self.headers) or self.id

    @property
    def attempt(self) -> int:
        """How often a consumer group was given it, this time included."""
        return attempts(self.headers) + 1


class RecordMetadata(NamedTuple):
    """Where a committed message lies.

    `timestamp_ms` is when the leader appended it (ms since 1970); `duplicate` says that an earlier attempt of the same
    send had been committed already, and that these are that one's figures.
    """

    topic: str
    queue: int
    offset: int
    timestamp_ms: int
    term: int
    duplicate: bool


@dataclass(frozen=True, slots=True)
class RecordRange:
    """`count` committed messages that lie at `first_offset` and behind it, in the order they were given."""

    topic: str
    queue: int
    first_offset: int
    count: int


@dataclass(frozen=True, slots=True)
class QueueOffsets:
    """The messages of a queue: [first_offset, end_offset)."""

    queue: int
    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic. Queue i lives in `shards[i]`; `offsets` is empty where they were not asked for."""

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
    """One node's view of one shard. `role` is leader, candidate, pre-candidate, follower, learner, waiting (before
    the first start), joining (until it is added) or removed. `suspect`: it may have lost what it acknowledged, and is
    not counted until it has caught up."""

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
    """One member of a cluster as the leader sees it: a voter, or else a learner. Its lag is what it lacks of what is
    committed; `caught_up` says that it is no more than what is on its way to a node that keeps up."""

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
    """Who belongs to a cluster, by its newest committed configuration. `transferring_to`: to whom the leader is handing
    over; 0: to nobody."""

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
    """What a suspect node may have lost: entries behind `last_index`, for that reason, at `since_ms` (ms since 1970).
    `accepted`: that it may stay lost; the node is suspect no more."""

    node: int
    reason: str
    since_ms: int
    last_index: int
    accepted: bool
    shard: int = 0


@dataclass(frozen=True, slots=True)
class LogCut:
    """What a trim let go of, or, by a dry run, would: so many entries, their bytes and messages, the newest of them
    appended at `newest_ms` (ms since 1970). The log begins with `first_index` then, and `bytes_kept` are left. All but
    that are 0 where nothing goes. `held_by`: who holds the log; as long as anybody does, nothing goes."""

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
    """A named hold of the log, taken at entry `index`: what came before stays until it is released or `expires_ms` (ms
    since 1970) has come, by the times at which entries are appended."""

    name: str
    index: int
    taken_ms: int
    expires_ms: int
    shard: int = 0


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node as it describes itself, or, where `reachable` is false, what is known of it and why it did not
    answer."""

    node: int
    address: str
    reachable: bool
    error: str = ""
    cluster: str = ""
    http_address: str = ""
    data_directory: str = ""
    version: str = ""
    shards: tuple[ShardStatus, ...] = ()
