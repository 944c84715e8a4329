"""Makes the data directories of a new cluster from a backup.

    DIRECTORY/node-1/         the data directory of node 1, with all shards that it gets
    DIRECTORY/node-2/ ...
    DIRECTORY/cluster.secret  the new cluster secret

The new cluster has another name, and its data directories have new incarnations. So nodes of the old and of the new
cluster never take each other for members. Each directory is as after an orderly stop.

Everything is written into DIRECTORY/partial, and moved to its place when all of it is complete. A restore that fails
removes this directory. If the process is killed, the next restore removes it.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ledger.backup.cut import ShardCut, TopicsCut
from ledger.backup.errors import BackupError, DamagedBackupError
from ledger.backup.manifest import Manifest, ShardBackup, missing_shards
from ledger.backup.reading import EntryRange, ranges_of, read_snapshot
from ledger.backup.shard_writer import ShardWriter, configuration_of
from ledger.backup.targets.target import BackupTarget
from ledger.private_file import make_private
from ledger.topics import TOPICS_SHARD
from raft.configuration_entry import InvalidConfigurationError, ShardConfiguration, decode_configuration
from raft.transport.cluster_secret import new_secret
from store import EntryKind, NodeDirectory, PosixDisk, Snapshot, StoreError
from store.log.entry import HEADER_SIZE

# A shard other than shard 0 gets as many replicas, if there are as many nodes.
_REPLICAS = 3
# Shard 0 gets at most as many voters. Start further nodes with `join = true`.
MAX_NODES = 5
_SECRET = "cluster.secret"
_PARTIAL = "partial"
# The file in `partial` that a running restore has locked.
_LOCK = "lock"
# What a restore makes in `partial`.
_OWN = re.compile(rf"node-[0-9]+|{re.escape(_SECRET)}|{_LOCK}")


@dataclass(frozen=True, slots=True)
class RestoreSettings:
    # The name of the new cluster.
    cluster: str
    # The addresses "host:port" of the new nodes, by number.
    nodes: Mapping[int, str]
    directory: Path
    # The point in time, in ms since 1970; None: the end of the backup.
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RestoredShard:
    shard: int
    nodes: tuple[int, ...]
    # The last entry that was taken from the backup, and its append time in ms since 1970.
    last_index: int
    last_ms: int
    bytes: int


# Called with the bytes of the backup that were read.
OnRead = Callable[[int], None]


def restore_backup(
    target: BackupTarget,
    manifest: Manifest,
    settings: RestoreSettings,
    *,
    on_read: OnRead = lambda _: None,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> list[RestoredShard]:
    """Write the data directories. Raises BackupError, and DamagedBackupError if the backup is damaged."""
    _check(manifest, settings)
    try:
        with _partial(settings.directory) as partial:
            restored = _Restoration(target, manifest, settings, partial, on_read, now_ms()).run()
            _write_secret(partial / _SECRET)
            for name in (*(f"node-{node}" for node in settings.nodes), _SECRET):
                (partial / name).rename(settings.directory / name)
    except (OSError, StoreError) as error:
        raise BackupError(f"the data directories cannot be written: {error}") from error
    return restored


def _check(manifest: Manifest, settings: RestoreSettings) -> None:
    if not 1 <= len(settings.nodes) <= MAX_NODES:
        raise BackupError(f"{len(settings.nodes)} nodes were named: name 1 to {MAX_NODES}, and add others later")
    if settings.cluster == manifest.cluster:
        raise BackupError(
            f"the new cluster cannot have the name {manifest.cluster!r} of the old one, whose nodes could then connect "
            "to it: choose another name"
        )
    _check_is_free(settings.directory)
    if manifest.shard(TOPICS_SHARD) is None:
        raise DamagedBackupError(f"backup {manifest.name} has no shard 0")
    if settings.until_ms is not None and settings.until_ms > manifest.taken_ms:
        raise BackupError(
            f"backup {manifest.name} ends before this time: choose a later backup, or leave the time out for its end"
        )


def _check_is_free(directory: Path) -> None:
    """Raise BackupError if the directory has anything but what a restore left that was killed."""
    if not directory.exists():
        return
    partial = directory / _PARTIAL
    is_ours = partial.is_dir() and not partial.is_symlink()
    others = [path for path in directory.iterdir() if path != partial or not is_ours]
    if is_ours:
        others += [path for path in partial.iterdir() if not _OWN.fullmatch(path.name)]
    if others:
        raise BackupError(
            f"{directory} is not empty, it has {min(others).relative_to(directory)}: name a directory that is empty or "
            "does not exist"
        )


@contextmanager
def _partial(directory: Path) -> Iterator[Path]:
    """Make and lock an empty directory for a restore into `directory`. Remove it at the end, with what is still in it.
    Raises OSError, StoreError if another restore runs there, and BackupError."""
    disk, partial = PosixDisk(), directory / _PARTIAL
    directory.mkdir(parents=True, exist_ok=True)
    disk.make_directory(partial)
    with ExitStack() as stack:
        stack.callback(disk.lock(partial / _LOCK).release)
        _check_is_free(directory)  # another restore may have ended meanwhile
        for path in partial.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != _LOCK:
                path.unlink()
        stack.callback(shutil.rmtree, partial, ignore_errors=True)
        yield partial


class _Restoration:
    def __init__(
        self,
        target: BackupTarget,
        manifest: Manifest,
        settings: RestoreSettings,
        root: Path,
        on_read: OnRead,
        now_ms: int,
    ) -> None:
        self._target = target
        self._manifest = manifest
        self._settings = settings
        self._root = root
        self._on_read = on_read
        self._now_ms = now_ms
        self._disk = PosixDisk()
        self._newest_topic = 0
        # The shards that began after the point in time.
        self._left_out: list[int] = []
        # The clusters that configurations in the logs name.
        self._earlier_clusters = {manifest.cluster}

    def run(self) -> list[RestoredShard]:
        """Write all shards that there were at the point in time, shard 0 last, because its cut depends on the
        others."""
        with ExitStack() as stack:
            directories = {}
            for node in self._settings.nodes:
                path = self._root / f"node-{node}"
                directories[node] = NodeDirectory.open(self._disk, path, cluster=self._settings.cluster, node=node)
                stack.callback(directories[node].close)
            shards = sorted(self._manifest.shards, key=lambda shard: -shard.shard)
            self._left_out = [shard.shard for shard in shards if self._begins_later(shard)]
            kept = [shard for shard in shards if shard.shard not in self._left_out]
            restored = [self._restore(shard, directories) for shard in kept][::-1]
            for directory in directories.values():
                directory.mark_restored(sorted(self._earlier_clusters))
            return restored

    def _begins_later(self, shard: ShardBackup) -> bool:
        """Return True if the shard was added after the point in time, so that no entry of its log is kept."""
        until_ms = self._settings.until_ms
        if until_ms is None or shard.shard == TOPICS_SHARD or shard.snapshot is not None or not shard.pieces:
            return False
        return shard.pieces[0].first_ms > until_ms

    def _restore(self, shard: ShardBackup, directories: Mapping[int, NodeDirectory]) -> RestoredShard:
        snapshot = self._snapshot(shard)
        nodes = placed(shard.shard, shard.nodes, sorted(self._settings.nodes))
        writers = {
            node: ShardWriter(self._disk, directories[node], shard.shard, shard.segment_bytes, snapshot)
            for node in nodes
        }
        try:
            return self._fill(shard, snapshot, writers)
        finally:
            for writer in writers.values():
                writer.close()

    def _fill(self, shard: ShardBackup, snapshot: Snapshot | None, writers: Mapping[int, ShardWriter]) -> RestoredShard:
        cut: ShardCut | TopicsCut = ShardCut(self._settings.until_ms)
        if shard.shard == TOPICS_SHARD:
            cut = TopicsCut(self._settings.until_ms, self._newest_topic, snapshot)
        last = None
        if snapshot is not None:
            last = decode_configuration(snapshot.configuration)
            self._earlier_clusters.add(last.cluster)
        tail, written = shard.start, 0
        for entries in ranges_of(self._target, shard):
            kept = cut.kept(entries)
            for writer in writers.values():
                writer.write(entries, kept)
            self._on_read(len(entries.content))
            for configuration in _configurations(entries, kept):
                last = configuration
                self._earlier_clusters.add(configuration.cluster)
            if kept:
                header = entries.headers[kept - 1]
                tail = type(tail).of(header)
                written += header.end - entries.headers[0].position
            if kept < len(entries.headers):
                break
        if isinstance(cut, ShardCut):
            self._newest_topic = max(self._newest_topic, cut.newest_topic)
        elif flaw := missing_shards(self._manifest, cut.shards):
            raise DamagedBackupError(f"{flaw}: choose another backup, or a time before the shard was added (`--until`)")
        elif missing := set(cut.shards).intersection(self._left_out):
            # Shard 0 has the entry that added the shard, and the log of the shard begins a little later.
            raise BackupError(f"shard {min(missing)} began after this time: choose a later time")
        if last is None:
            raise BackupError(f"shard {shard.shard} began after this time: choose a later time")
        new = configuration_of(
            last,
            self._settings.cluster,
            self._settings.nodes,
            {node: writer.incarnation for node, writer in writers.items()},
        )
        for writer in writers.values():
            writer.finish(new, self._now_ms)
        return RestoredShard(shard.shard, tuple(writers), tail.index, tail.append_time_ms, written)

    def _snapshot(self, shard: ShardBackup) -> Snapshot | None:
        if shard.snapshot is None:
            return None
        snapshot = read_snapshot(self._target, shard.shard, shard.snapshot)
        until_ms = self._settings.until_ms
        if until_ms is not None and snapshot.append_time_ms > until_ms:
            raise BackupError(
                f"the log of shard {shard.shard} begins after this time in backup {self._manifest.name}: choose an "
                "earlier backup, or a later time"
            )
        return snapshot


def placed(shard: int, before: Sequence[int], nodes: Sequence[int]) -> list[int]:
    """Return the nodes that get a replica. Nodes whose numbers had a replica before come first."""
    if shard == TOPICS_SHARD:
        return list(nodes)
    turn = shard % len(nodes)
    others = [node for node in (*nodes[turn:], *nodes[:turn]) if node not in before]
    kept = [node for node in nodes if node in before]
    return sorted(kept + others[: max(0, _REPLICAS - len(kept))])


def _configurations(entries: EntryRange, kept: int) -> Iterator[ShardConfiguration]:
    begin = entries.headers[0].position
    for header in entries.headers[:kept]:
        if header.kind is EntryKind.CONFIGURATION:
            at = header.position - begin
            try:
                yield decode_configuration(bytes(entries.content[at + HEADER_SIZE : at + header.size]))
            except InvalidConfigurationError as error:
                raise DamagedBackupError(f"entry {header.index} is no configuration: {error}") from error


def _write_secret(path: Path) -> None:
    make_private(path, f"{new_secret()}\n".encode())
