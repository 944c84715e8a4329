"""Makes backups of a simulated cluster with the product's `create_backup`, and checks each of them.

The target is in memory, and survives the programs that write to it. The logs are read as over HTTP, from nodes whose
process runs: a read takes some milliseconds, and fails while the process is down or its log is closed. The check reads
the backup as a restore does. The chain of an entry depends on all entries before it, so a backup whose last chain is
that of the cluster has the entries of the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from chaos.sim.engine.sync_program import SyncProgram
from chaos.sim.stack.node import StackNode
from chaos.sim.stack.node_part import NodePart
from chaos.sim.stack.roster import Rosters
from ledger.backup.catalogue import load_manifest
from ledger.backup.create import BackupSettings, create_backup
from ledger.backup.errors import DamagedBackupError
from ledger.backup.manifest import Manifest
from ledger.backup.reading import ranges_of, read_snapshot
from ledger.backup.source import ShardSource
from ledger.backup.targets.target import StoredObject
from ledger.broker.broker_replica import BrokerReplica
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.records import LogHold, NodeStatus
from ledger.validation.sources.errors import SegmentGoneError, SourceError
from ledger.validation.sources.replica import Segment

# How long one read of a node takes, in seconds.
READ_S = (0.001, 0.02)


class MemoryTarget:
    """A target that keeps its objects in memory. Implements `BackupTarget`."""

    title = "memory"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put(self, name: str, content: bytes) -> None:
        self.objects[name] = content

    def get(self, name: str) -> bytes | None:
        return self.objects.get(name)

    def list(self, prefix: str = "") -> list[StoredObject]:
        names = sorted(name for name in self.objects if name.startswith(prefix))
        return [StoredObject(name, len(self.objects[name])) for name in names]

    def delete(self, name: str) -> None:
        self.objects.pop(name, None)

    @contextmanager
    def lock(self) -> Iterator[None]:
        yield


class SimulatedBackups:
    """The backups of one cluster. `fail(invariant, what)` records a violation."""

    def __init__(self, rosters: Rosters, fail: Callable[[str, str], None], now_ms: Callable[[], int]) -> None:
        self.target = MemoryTarget()
        self._rosters = rosters
        self._fail = fail
        self._now_ms = now_ms

    async def make(self, admin: AsyncAdmin, random: Random) -> None:
        """Make a backup, and check it. Raises BackupError or LedgerError."""
        committed = {roster.shard: _commit(roster.parts) for roster in self._rosters}

        def program(asks: SyncProgram[Manifest]) -> Manifest:
            def sources(nodes: Sequence[NodeStatus], shards: Sequence[int], *, tls: bool) -> dict[int, ShardSource]:
                return {shard: self._source(shard, asks, random) for shard in shards}

            settings = BackupSettings(max_rate=0)
            return create_backup(_Admin(asks, admin), self.target, settings, now_ms=self._now_ms, sources=sources)

        made = await SyncProgram(program).run()
        self._check(load_manifest(self.target, made.name), committed)

    def _source(self, shard: int, asks: SyncProgram[Manifest], random: Random) -> ShardSource:
        def access() -> _LogsOfNodes:
            return _LogsOfNodes(asks, self._rosters, random)

        def sleep(seconds: float) -> None:
            asks.ask(lambda: asyncio.sleep(seconds))

        nodes = [part.node for part in self._rosters.of(shard).parts]
        urls = [f"sim://{node}" for node in nodes]
        return ShardSource(shard, urls, nodes, access, sleep, lambda: self._now_ms() / 1000)

    def _check(self, manifest: Manifest, committed: Mapping[int, int]) -> None:
        """Check that a backup can be read, has what was committed before it began, and has no other entries."""
        for shard, before in committed.items():
            backup = next((each for each in manifest.shards if each.shard == shard), None)
            if backup is None or backup.tail.index < before:
                reached = 0 if backup is None else backup.tail.index
                told = f"shard {shard} had committed {before}, and backup {manifest.name} ends at {reached}"
                self._fail("a backup has all that was committed before it", told)
        for backup in manifest.shards:
            try:
                if backup.snapshot is not None:
                    read_snapshot(self.target, backup.shard, backup.snapshot)
                for _ in ranges_of(self.target, backup):
                    pass
            except DamagedBackupError as error:
                self._fail("a backup can be read", f"backup {manifest.name}: {error}")
            tail, part = backup.tail, _knowing(self._rosters.of(backup.shard).parts, backup.tail.index)
            if part is not None and part.log is not None and part.log.header(tail.index).chain != tail.chain:
                told = f"backup {manifest.name} has another entry {tail.index} of shard {backup.shard} than {part.node}"
                self._fail("a backup has the entries of the log", told)


def _commit(parts: Sequence[NodePart]) -> int:
    """Return the largest commit index that a living node knows."""
    return max((part.raft.commit for part in parts if part.raft is not None and part.alive), default=0)


def _knowing(parts: Sequence[NodePart], index: int) -> NodePart | None:
    """Return a node that knows that the entry is committed, or None."""
    alive = [part for part in parts if part.alive and part.log is not None and part.raft is not None]
    return next((part for part in alive if part.raft is not None and part.raft.commit >= index), None)


class _Admin:
    """What a backup uses of `Admin`."""

    def __init__(self, asks: SyncProgram[Manifest], admin: AsyncAdmin) -> None:
        self._asks = asks
        self._admin = admin

    def cluster(self) -> list[NodeStatus]:
        return self._asks.ask(self._admin.cluster)

    def shards(self, *, linearizable: bool) -> list[int]:
        return self._asks.ask(lambda: self._admin.shards(linearizable=linearizable))

    def hold_log(self, name: str, *, ttl_ms: int, shard: int | None) -> LogHold:
        return self._asks.ask(lambda: self._admin.hold_log(name, ttl_ms=ttl_ms, shard=shard))

    def release_log(self, name: str, *, shard: int | None) -> bool:
        return self._asks.ask(lambda: self._admin.release_log(name, shard=shard))


class _LogsOfNodes:
    """Reads the logs of nodes, with paths such as sim://3/shards/0/segments. Implements `LogAccess`."""

    def __init__(self, asks: SyncProgram[Manifest], rosters: Rosters, random: Random) -> None:
        self._asks = asks
        self._rosters = rosters
        self._random = random

    def json(self, url: str) -> Any:
        _, replica = self._served(url)
        log, raft = replica.log, replica.driver.raft
        spans = log.reading.spans()
        segments = [
            {"name": span.path.name, "position": span.base, "length": span.length, "last_index": span.last_index}
            for span in spans
        ]
        return {"first_index": log.first_index, "start": log.start, "commit": raft.commit, "segments": segments}

    def file(self, path: str) -> bytes | None:
        _, replica = self._served(path)
        start = replica.driver.log_start
        snapshot = start.snapshot if start is not None else None
        return None if snapshot is None else snapshot.encode()

    def read(self, segment: Segment, begin: int, end: int) -> bytes:
        node, replica = self._served(segment.path)
        reading, base = replica.log.reading, int(segment.path.rpartition("/")[2])
        spans = reading.spans()
        span = next((span for span in spans if span.base == base), None)
        if span is None and spans and base < spans[0].base:
            raise SegmentGoneError(f"{segment.path} is gone")
        if span is None:
            raise SourceError(f"{segment.path} does not exist")
        if reading.damaged and base < reading.damaged.stop and base + span.length > reading.damaged.start:
            raise SourceError(f"{segment.path} is being repaired")
        return node.disk.content(span.path)[begin - base : min(end - base, span.length)]

    def _served(self, url: str) -> tuple[StackNode, BrokerReplica]:
        """Return the node of a URL, and its replica of the shard, after the time that a request takes. Raises
        SourceError."""
        self._asks.ask(lambda: asyncio.sleep(self._random.uniform(*READ_S)))
        _, _, number, _, shard, *_ = url.split("/")
        node = next((node for node in self._rosters.present if node.node == int(number)), None)
        part = next((part for part in self._rosters.of(int(shard)).parts if part.node == int(number)), None)
        if node is None or part is None or not part.alive or part.log is None or part.replica is None:
            raise SourceError(f"node {number} does not serve shard {shard}")
        return node, part.replica
