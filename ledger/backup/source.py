"""Reads the logs of running nodes over their HTTP ports (cluster/node/http/segment_routes.py).

Each shard is read from one of its replicas. Followers are preferred, because a leader has more work. All replicas have
the same bytes at the same positions, so if a node fails, the copy continues with the next replica. The reader of the
bytes checks the chain, so bytes of another log are noticed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ledger.backup.errors import BackupError
from ledger.client.records import NodeStatus, ShardStatus
from ledger.validation.sources.access import HttpAccess
from ledger.validation.sources.errors import SegmentGoneError, SourceError
from ledger.validation.sources.replica import Segment

T = TypeVar("T")

# How long a copy waits for a replica that knows that the last entry of the backup is committed, in seconds.
_PATIENCE_S = 60.0
_AGAIN_S = 0.1
_MEMBERS = ("leader", "follower", "learner", "candidate", "pre-candidate")
_WILDCARDS = ("0.0.0.0", "[::]", "")


@dataclass(frozen=True, slots=True)
class LogListing:
    """The log of one replica, as its node tells it."""

    # The index and the position of the first entry.
    first_index: int
    start: int
    commit: int
    segments: tuple[Segment, ...]


class LogAccess(Protocol):
    """What this module uses of `HttpAccess`."""

    def read(self, segment: Segment, begin: int, end: int) -> bytes: ...
    def file(self, path: str) -> bytes | None: ...
    def json(self, url: str) -> Any: ...


class ShardSource:
    """The replicas of one shard, of which one is read."""

    def __init__(
        self,
        shard: int,
        urls: Sequence[str],
        nodes: Sequence[int] = (),
        access: Callable[[], LogAccess] = HttpAccess,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`urls` are the HTTP ports of nodes that have a replica, the preferred one first. `nodes` are the numbers of
        all nodes that have one."""
        self.nodes = tuple(nodes)
        self._shard = shard
        self._urls = list(urls)
        self._make_access = access
        self._access = access()
        self._sleep = sleep

    def listing(self, index: int) -> LogListing:
        """Return the listing of a replica that knows that the entry `index` is committed. Raises BackupError."""
        waits = int(_PATIENCE_S / _AGAIN_S)
        while True:
            listing = self._ask(self._listing)
            if listing.commit >= index:
                return listing
            waits -= 1
            if not waits:
                raise BackupError(
                    f"shard {self._shard}: {self._urls[0]} knows commits up to {listing.commit} only, and the backup "
                    f"ends at {index}: look at `ledgermq cluster health`, then start the backup again"
                )
            self._urls.append(self._urls.pop(0))
            self._sleep(_AGAIN_S)

    def snapshot(self) -> bytes | None:
        """Return the snapshot at which the log begins, or None if it begins at entry 1. Raises BackupError."""
        return self._ask(lambda url: self._access.file(f"{url}/snapshot"))

    def read(self, base: int, begin: int, end: int) -> bytes:
        """Return the bytes from position `begin` to `end`, or fewer, of the segment that begins at `base`. Raises
        BackupError."""
        return self._ask(
            lambda url: self._access.read(Segment(f"{url}/segments/{base:020}", base, end - base), begin, end)
        )

    def _listing(self, url: str) -> LogListing:
        said = self._access.json(f"{url}/segments")
        try:
            segments = tuple(
                Segment(f"{url}/segments/{each['name']}", int(each["position"]), int(each["length"]))
                for each in said["segments"]
            )
            return LogListing(int(said["first_index"]), int(said["start"]), int(said["commit"]), segments)
        except (KeyError, TypeError, ValueError) as error:
            raise SourceError(f"{url}/segments: the server there is not a ledgermq node ({error!r})") from error

    def _ask(self, question: Callable[[str], T]) -> T:
        """Ask the present replica. If it cannot answer, ask the next one."""
        reasons = []
        for _ in range(len(self._urls)):
            try:
                return question(f"{self._urls[0]}/shards/{self._shard}")
            except (SourceError, SegmentGoneError) as error:
                reasons.append(str(error))
                self._urls.append(self._urls.pop(0))
                self._access = self._make_access()
        raise BackupError(
            f"shard {self._shard} cannot be read: {'; '.join(dict.fromkeys(reasons)) or 'no node has it'}"
        )


def sources_of(nodes: Iterable[NodeStatus], shards: Iterable[int], *, tls: bool) -> dict[int, ShardSource]:
    """Return the source of each shard. Raises BackupError if no node serves a shard."""
    nodes = list(nodes)
    return {shard: ShardSource(shard, _urls(nodes, shard, tls), _nodes_of(nodes, shard)) for shard in shards}


def _nodes_of(nodes: Sequence[NodeStatus], shard: int) -> list[int]:
    return sorted(
        node.node for node in nodes if any(each.shard == shard and each.role in _MEMBERS for each in node.shards)
    )


def _urls(nodes: Sequence[NodeStatus], shard: int, tls: bool) -> list[str]:
    replicas = [
        (status, node)
        for node in nodes
        if node.reachable and node.http_address
        for status in node.shards
        if status.shard == shard and _is_readable(status)
    ]
    if not replicas:
        raise BackupError(
            f"no node serves the log of shard {shard} over HTTP: set `http` and `serve_segments = true`, and look at "
            "`ledgermq cluster health`"
        )
    replicas.sort(key=lambda each: (each[0].role == "leader", each[1].node))
    scheme = "https" if tls else "http"
    return [f"{scheme}://{_reachable(node)}" for _, node in replicas]


def _is_readable(status: ShardStatus) -> bool:
    return status.role in _MEMBERS and not status.suspect and not status.diverged


def _reachable(node: NodeStatus) -> str:
    """Return the HTTP address of a node. If the node listens on all addresses, take the host of its gRPC address."""
    host, _, port = node.http_address.rpartition(":")
    return node.http_address if host not in _WILDCARDS else f"{node.address.rpartition(':')[0]}:{port}"
