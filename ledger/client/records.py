"""What the clients hand to their users: messages, receipts and descriptions.

The one idea: plain frozen values, with nothing of the wire in them.
They must not know protobuf, gRPC or asyncio.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class TopicQueue(NamedTuple):
    """One queue of one topic; equal to the plain tuple `(topic, queue)`."""

    topic: str
    queue: int


@dataclass(frozen=True, slots=True)
class Message:
    """A message as a consumer gets it. `timestamp_ms` is the producer's (ms since 1970), `term` that of its entry."""

    topic: str
    queue: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes
    tag: str | None
    headers: tuple[tuple[str, bytes], ...]
    term: int


@dataclass(frozen=True, slots=True)
class RecordMetadata:
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
    """A topic. Queue i lives in `groups[i]`; `offsets` is empty where they were not asked for."""

    name: str
    topic_id: int
    groups: tuple[int, ...]
    created_ms: int
    offsets: tuple[QueueOffsets, ...] = ()

    @property
    def queues(self) -> int:
        return len(self.groups)


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One node's view of one Raft group; `role` is leader, candidate, follower or waiting (before the first start)."""

    group: int
    role: str
    term: int
    leader: int
    last_index: int
    commit: int
    applied: int
    end_position: int
    chain: int


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
    groups: tuple[GroupStatus, ...] = ()
