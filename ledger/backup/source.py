"""Reads the logs of running nodes over their HTTP ports (cluster/node/http/segment_routes.py).

Each shard is read from one of its replicas. Followers are preferred, because a leader has more work. All replicas have
the same committed bytes at the same positions, so if a node fails, the copy continues with the next replica.

A node serves its log up to the last entry, and the last entries may be uncommitted. A leader that was deposed without
noticing it can even have entries that are never committed, and they continue the committed entries without a flaw. So
no replica is read, not even after a change to another one, before it has said that it knows the commit of the last
entry of the backup. Then all its entries up to that one are committed.
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
from ledger.validation.sources.node_urls import http_url
from ledger.validation.sources.replica import Segment

T = TypeVar("T")

# How long a copy waits for a replica that knows the commit of the last entry of the backup, in seconds.
_PATIENCE_S = 60.0
_AGAIN_S = 0.1
_MEMBERS = ("leader", "follower", "learner", "candidate", "pre-candidate")


@dataclass(frozen=True, slots=True)
class LogListing:
    """The log of one replica, as its node tells it."""

    # The index and the position of the first entry.
    first_index: int
    start: int
    commit: int
    # The last entry in the segments. Entries that the node has not written to its disk yet are not served.
    last_index: int
    segments: tuple[Segment, ...]

    @property
    def committed(self) -> int:
        """Return the last entry that the node serves and knows to be committed."""
        return min(self.commit, self.last_index)

    def continues_after(self, base: int, position: int) -> bool:
        """Return True if the segment that begins at `base` has nothing from `position` on, and the log continues in a
        later segment."""
        ends = any(each.base == base and base + each.length <= position for each in self.segments)
        return ends and self.segments[-1].base > base


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
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`urls` are the HTTP ports of nodes that have a replica, the preferred one first. `nodes` are the numbers of
        all nodes that have one."""
        self.nodes = tuple(nodes)
        self._shard = shard
        self._urls = list(urls)
        self._make_access = access
        self._access = access()
        self._sleep = sleep
        self._monotonic_s = monotonic_s
        # The last entry that is wanted. A replica is read only if it knows that this entry is committed.
        self._last_index = 0
        # What the present replica, `_urls[0]`, has said. None until it was asked.
        self._present: LogListing | None = None

    def listing(self, last_index: int) -> LogListing:
        """Return the listing of a replica that has the committed entry `last_index`. From now on, only such replicas
        are read. Raises BackupError."""
        self._last_index, self._present = last_index, None
        return self._ask(lambda _, listing: listing)

    def snapshot(self) -> bytes | None:
        """Return the snapshot at which the log begins, or None if it begins at entry 1. Raises BackupError."""
        return self._ask(lambda url, _: self._access.file(f"{url}/snapshot"))

    def read(self, base: int, begin: int, end: int) -> bytes:
        """Return the bytes from position `begin` to `end`, or fewer, of the segment that begins at `base`. Return no
        bytes only if the log continues in a later segment. Raises BackupError."""

        def read(url: str, listing: LogListing) -> bytes:
            segment = Segment(f"{url}/segments/{base:020}", base, end - base)
            content = self._access.read(segment, begin, end)
            if not content and not listing.continues_after(base, begin):
                raise SourceError(f"{segment.path}: the node has no entry at position {begin}")
            return content

        return self._ask(read)

    def _listing(self, url: str) -> LogListing:
        said = self._access.json(f"{url}/segments")
        try:
            segments = tuple(
                Segment(f"{url}/segments/{each['name']}", int(each["position"]), int(each["length"]))
                for each in said["segments"]
            )
            last_index = int(said["segments"][-1]["last_index"]) if segments else 0
            return LogListing(int(said["first_index"]), int(said["start"]), int(said["commit"]), last_index, segments)
        except (KeyError, TypeError, ValueError) as error:
            raise SourceError(f"{url}/segments: the server there is not a ledgermq node ({error!r})") from error

    def _ask(self, question: Callable[[str, LogListing], T]) -> T:
        """Ask the present replica. If it cannot answer, ask the next one. While replicas do not know yet that the last
        entry is committed, and the others cannot answer, wait."""
        until = self._monotonic_s() + _PATIENCE_S
        while True:
            reasons, is_behind = [], False
            for _ in range(len(self._urls)):
                url = f"{self._urls[0]}/shards/{self._shard}"
                try:
                    self._present = self._present or self._listing(url)
                    if self._present.committed >= self._last_index:
                        return question(url, self._present)
                    reasons.append(f"{self._urls[0]} knows commits up to {self._present.committed} only")
                    is_behind = True
                except (SourceError, SegmentGoneError) as error:
                    reasons.append(str(error))
                    self._access = self._make_access()
                self._urls.append(self._urls.pop(0))
                self._present = None
            if not is_behind:
                raise BackupError(f"shard {self._shard} cannot be read: {'; '.join(reasons) or 'no node has it'}")
            if self._monotonic_s() > until:
                raise BackupError(
                    f"shard {self._shard}: no replica that can be read knows that entry {self._last_index}, the last "
                    f"one of the backup, is committed ({'; '.join(reasons)}): look at `ledgermq cluster health`, then "
                    "start the backup again"
                )
            self._sleep(_AGAIN_S)


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
    return [http_url(node, tls=tls) for _, node in replicas]


def _is_readable(status: ShardStatus) -> bool:
    return status.role in _MEMBERS and not status.suspect and not status.diverged
