"""Makes one backup of a running cluster.

1. take a hold of each shard, of shard 0 last: the entries of the holds are the ends of the backup
   if a shard was added meanwhile, take a hold of it too, and then a later one of shard 0
2. copy each shard from where the last backup ended, shard 0 last
3. write the manifest, and release the holds
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from ledger.backup.catalogue import last_whole_manifest, stored_parts
from ledger.backup.errors import BackupError
from ledger.backup.hold import BackupHold, LogHolder
from ledger.backup.manifest import Manifest, ShardBackup, encode_manifest, manifest_name
from ledger.backup.progress import Progress, furthest
from ledger.backup.rate import RateLimit
from ledger.backup.shard_copy import ShardCopy
from ledger.backup.source import ShardSource, sources_of
from ledger.backup.targets.target import BackupTarget
from ledger.client.records import NodeStatus
from ledger.errors import PermissionDeniedError
from ledger.topics import TOPICS_SHARD
from ledger.version import VERSION

# Copying faster than this costs producers more than a tenth of their throughput on a small machine (docs/BACKUP.md).
DEFAULT_RATE = 16 << 20
_RIGHTS = "A user needs the rights `administer` and `read-log` on the cluster to make backups"


class ClusterAdmin(LogHolder, Protocol):
    """What a backup uses of `Admin`."""

    def cluster(self) -> list[NodeStatus]: ...
    def shards(self, *, linearizable: bool) -> list[int]: ...


class MakeSources(Protocol):
    """Returns the source of each shard, as `sources_of` does. Raises BackupError."""

    def __call__(self, nodes: Sequence[NodeStatus], shards: Sequence[int], *, tls: bool) -> dict[int, ShardSource]: ...


@dataclass(frozen=True, slots=True)
class CopyState:
    """How far a backup is. Bytes are those that this run copied."""

    shard: int
    index: int
    last_index: int
    copied: int


@dataclass(frozen=True, slots=True)
class BackupSettings:
    # In bytes a second; 0: no limit.
    max_rate: int = DEFAULT_RATE
    # Whether the nodes serve HTTP with TLS.
    tls: bool = False


def create_backup(
    admin: ClusterAdmin,
    target: BackupTarget,
    settings: BackupSettings,
    *,
    on_progress: Callable[[CopyState], None] = lambda _: None,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    sources: MakeSources = sources_of,
) -> Manifest:
    """Make a backup of all shards, and return its manifest. If the process ends before, the next call continues.
    Raises BackupError or LedgerError."""
    with target.lock():
        return _Backup(admin, target, settings, on_progress, now_ms, sources).run()


class _Backup:
    def __init__(
        self,
        admin: ClusterAdmin,
        target: BackupTarget,
        settings: BackupSettings,
        on_progress: Callable[[CopyState], None],
        now_ms: Callable[[], int],
        sources: MakeSources,
    ) -> None:
        self._admin = admin
        self._target = target
        self._settings = settings
        self._on_progress = on_progress
        self._now_ms = now_ms
        self._make_sources = sources
        self._begun_ms = now_ms()
        self._limit = RateLimit(settings.max_rate)
        self._copied = 0

    def run(self) -> Manifest:
        try:
            nodes = self._admin.cluster()
        except PermissionDeniedError as error:
            raise BackupError(f"{error.message} {_RIGHTS}.") from error
        cluster = cluster_of(nodes)
        progress = Progress(self._target, cluster)
        last = self._last_backup(cluster)
        if last is not None:  # the newest backup has the last name, also if the clock was set back
            self._begun_ms = max(self._begun_ms, last.begun_ms + 1)
        name = name_of(self._begun_ms)
        hold = BackupHold(self._admin, f"backup-{name}")
        earlier = {shard.shard: shard for shard in last.shards} if last is not None else {}
        if progress.load():
            earlier = furthest(earlier, progress.shards)
        earlier = stored_parts(self._target, earlier)
        progress.shards = dict(earlier)
        try:
            ends = hold.take(self._admin.shards(linearizable=True))
            # Shards are never removed, and a cluster has at most MAX_SHARDS of them, so this ends.
            while added := set(self._admin.shards(linearizable=True)) - ends.keys():
                ends = hold.take(added)
                nodes = self._admin.cluster()
            sources = self._make_sources(nodes, sorted(ends), tls=self._settings.tls)
            done: dict[int, ShardBackup] = {}
            for shard in sorted(ends, reverse=True):
                end = ends[shard].index

                def on_copied(now: ShardBackup, count: int, end: int = end) -> None:
                    self._copied += count
                    progress.copied(now)
                    hold.renew()
                    self._on_progress(CopyState(now.shard, now.tail.index, end, self._copied))

                copy = ShardCopy(sources[shard], self._target, self._limit, on_copied)
                done[shard] = copy.run(shard, earlier.get(shard), end)
            manifest = self._manifest(name, cluster, done, ends[TOPICS_SHARD].taken_ms)
            self._target.put(manifest_name(name), encode_manifest(manifest))
            progress.forget()
            return manifest
        finally:
            hold.release()

    def _last_backup(self, cluster: str) -> Manifest | None:
        """Return the newest backup whose manifest is whole, or None if there is none. Raises BackupError if it is of
        another cluster."""
        manifest = last_whole_manifest(self._target)
        if manifest is not None and manifest.cluster != cluster:
            raise BackupError(
                f"{self._target.title} has backups of cluster {manifest.cluster!r}, not of {cluster!r}: choose another "
                "target"
            )
        return manifest

    def _manifest(self, name: str, cluster: str, done: dict[int, ShardBackup], taken_ms: int) -> Manifest:
        return Manifest(
            name=name,
            cluster=cluster,
            version=VERSION,
            begun_ms=self._begun_ms,
            taken_ms=taken_ms,
            finished_ms=self._now_ms(),
            copied=self._copied,
            shards=tuple(done[shard] for shard in sorted(done)),
        )


def name_of(begun_ms: int) -> str:
    """Return the name of a backup that began at this time. Names sort by time."""
    moment = datetime.fromtimestamp(begun_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S")
    return f"{moment}.{begun_ms % 1000:03}Z"


def cluster_of(nodes: Sequence[NodeStatus]) -> str:
    """Return the name of the cluster. Raises BackupError if no node tells its status."""
    for node in nodes:
        if node.reachable and node.cluster:
            return node.cluster
    reasons = "; ".join(dict.fromkeys(f"node {node.node}: {node.error}" for node in nodes if node.error))
    raise BackupError(f"no node tells its status ({reasons or 'no node is known'}). {_RIGHTS}")
