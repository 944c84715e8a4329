"""The record of one request that took longer than the setting `slow_request_ms` of its node. Brokers make these
records, and clients read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class RequestPart(NamedTuple):
    """A part of a request's time. The parts of a request follow each other."""

    # One of PARTS.
    name: str
    ms: float


# The parts, in their order. A request has only some of them.
#
#     queue    the request waited for its turn at the node
#     turn     its batches waited for the group write of their turn
#     write    the group write
#     commit   from the group write to the commit: flush and replication
#     apply    from the commit until this node had applied the entry
#     read     a fetch read its batches
#     work     all else that the method did
#     answer   the answer waited for the answers before it, and for the client to accept it
PARTS = ("queue", "turn", "write", "commit", "apply", "read", "work", "answer")
# What can be the slowest part. A commit waits for a flush or for replication.
SLOWEST_PARTS = ("queue", "turn", "write", "flush", "replication", "apply", "read", "work", "answer")


class FollowerPart(NamedTuple):
    """How long after the leader's group write a follower acknowledged the entry. `ms` is None if it did not while the
    request waited."""

    node: int
    ms: float | None


class CallingClient(NamedTuple):
    """The client of a request, as far as the node knows it."""

    # The name that the client states, or "".
    name: str = ""
    # The address of the connection, as gRPC names it.
    peer: str = ""
    # The proven user, or "" on a node without authentication.
    user: str = ""


UNKNOWN_CLIENT = CallingClient()


@dataclass(frozen=True, slots=True)
class SlowRequest:
    """One slow request."""

    # When the request arrived, in ms since 1970.
    began_ms: int
    # From its arrival to its answer, in ms. The wait of a fetch for new messages does not count.
    total_ms: float
    # "Produce", "Fetch", or service and method, such as "ConsumerGroups/Acknowledge".
    method: str
    client: CallingClient
    parts: tuple[RequestPart, ...]
    # "" if the request succeeded, otherwise the code of its error.
    error: str = ""
    # The topic and queue of a produce request's first batch, or of a fetch's first queue; topic "" if there is none.
    topic: str = ""
    queue: int = 0
    consumer_group: str = ""
    # The number of batches of a produce request, or of queues of a fetch.
    count: int = 0
    # The shard and the index of the entry that the parts are about; index 0: there is none.
    shard: int = 0
    index: int = 0
    # From the group write until the entry was as durable on this node as the flush mode promises, in ms; None: unknown.
    flush_ms: float | None = None
    # The part `commit` ends when the flush and followers are a majority.
    followers: tuple[FollowerPart, ...] = ()

    @property
    def slowest_part(self) -> str:
        """The name of the longest part. For `commit` it is `flush` or `replication`: what the commit waited for."""
        name = max(self.parts, key=lambda part: part.ms).name if self.parts else "work"
        if name != "commit":
            return name
        waited = next(part.ms for part in self.parts if part.name == "commit")
        acknowledged = [each.ms for each in self.followers if each.ms is not None and each.ms <= waited]
        flushed = self.flush_ms is not None and self.flush_ms <= waited
        is_flush = flushed and self.flush_ms is not None and self.flush_ms >= max(acknowledged, default=0.0)
        return "flush" if is_flush else "replication"


@dataclass(frozen=True, slots=True)
class NodeSlowRequests:
    """The slow requests that one node keeps. If the node did not answer, `error` says why, and is "" otherwise."""

    node: int
    error: str = ""
    # The node records no faster requests, in ms.
    recorded_from_ms: float = 0.0
    # The newest first.
    requests: tuple[SlowRequest, ...] = ()
