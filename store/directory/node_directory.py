"""The data directory of a node: its owner, its lock, and the paths of its files and subdirectories. The indexes may
have their own directory.

    <path>/lock                  held while the node runs
    <path>/identity.json         {"format": 2, "cluster": "dev", "node": 1}; after a restore, "restored_from": ["old"]
    <path>/reserve/              room for the small files on a full disk (see reserve.py)
    <path>/shard-0/log/          the CommitLog's segments
    <path>/shard-0/snapshot      the snapshot at which the CommitLog begins (see snapshot_file.py)
    <path>/shard-0/snapshots/    snapshots at which the CommitLog may begin later (see snapshots.py)
    <path>/shard-0/incoming      a snapshot that arrives from another node (see incoming_snapshot.py)
    <path>/shard-0/checkpoint    the place where the next start continues (see checkpoint.py)
    <path>/shard-0/positions/    positions of the log's entries
    <path>/shard-0/queues/       its ConsumeQueues, unless the indexes have their own directory
    <path>/shard-0/keys/         its key index, unless the indexes have their own directory
    <path>/shard-0/timed/        its timed index, unless the indexes have their own directory
    <path>/shard-0/vote          term, vote, incarnation
    <path>/shard-0/clean         exists only between an orderly stop and the next start
    <path>/shard-0/boot          the run of the machine in which the shard was last written
    <path>/shard-0/distrusted    the same, after a failed sync and until the next start
    <path>/shard-0/suspect       exists only while the node may lack entries it acknowledged
    <path>/shard-0/repair        exists only during a startup repair of its log
    <path>/shard-0/discarding    exists only while the files of a removed replica are deleted (see discarding.py)
    <path>/shard-0/discarded     exists since a removed replica was deleted

    <indexes>/lock               as above
    <indexes>/indexes.json       as identity.json
    <indexes>/shard-0/           queues/, keys/ and timed/: they can be built from the log, so a cheaper disk is enough

`NodeDirectory.open` locks the directory and checks its owner before it reads any other file.

Each small file is replaced as a whole: the new file is written under another name, synced and renamed, and then the
directory is synced. After a kill or a power loss, the disk holds either the old file or the new file, each of them
complete. If a small file cannot be read, this means that the file is damaged. On a full disk the marks (`ShardMarks`)
use the space of the reserve, so a full disk does not prevent a start. A node starts in this order:

    crashed -> open the vote file, the snapshots and the log (mark_suspect before its cut) -> sync the log
            -> finish_reset -> record_boot -> remove_clean_mark -> only now may the node write new data
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from store.directory.discarding import DiscardMarks, is_discarded
from store.directory.format_upgrade import FORMAT, UPGRADABLE, old_shards, upgrade
from store.directory.shard_marks import ShardMarks, has_log
from store.directory.vote_file import VoteFile
from store.disk.disk import Disk, Lock, read_file, replace_file
from store.disk.reserve import Reserve
from store.errors import DamagedError, DirectoryUpgradeError, StoreError, WrongDirectoryError
from store.snapshot.snapshots import Snapshots

_DATA, _INDEXES = "identity.json", "indexes.json"
_SHARD = "shard-"


class NodeDirectory:
    def __init__(self, disk: Disk, path: Path, indexes: Path, locks: Sequence[Lock]) -> None:
        """Use `open`."""
        self._disk = disk
        self._path = path
        self._indexes = indexes
        self._locks = locks
        self._reserve = Reserve(disk, path / "reserve")

    @staticmethod
    def open(disk: Disk, path: Path, *, cluster: str, node: int, indexes: Path | None = None) -> NodeDirectory:
        """Lock the data directory, make it if it is missing, and check that it belongs to this node. If `indexes`
        is given, lock, make and check the directory of the indexes too. Raise `DirectoryInUseError`,
        `WrongDirectoryError`, `DirectoryUpgradeError`, or `DamagedError` if the identity of a directory cannot be
        read."""
        locks = [_locked(disk, path, _DATA, cluster, node)]
        try:
            if indexes is not None:
                locks.append(_locked(disk, indexes, _INDEXES, cluster, node))
            directory = NodeDirectory(disk, path, indexes or path, locks)
            directory._finish_discarding()
            return directory
        except StoreError:
            for lock in locks:
                lock.release()
            raise

    @property
    def path(self) -> Path:
        return self._path

    def shards(self) -> list[int]:
        """Return the numbers of the shards that have a replica in this data directory, ascending."""
        return [shard for shard in self._named() if not is_discarded(self._disk, self._path / f"{_SHARD}{shard}")]

    def _named(self) -> list[int]:
        """Return the numbers of the shards that have a directory, ascending."""
        numbers = (name.removeprefix(_SHARD) for name in self._disk.list(self._path) if name.startswith(_SHARD))
        return sorted(int(number) for number in numbers if number.isdecimal())

    def _finish_discarding(self) -> None:
        for shard in self._named():
            if (marks := self.discard_marks(shard)).is_under_way:
                marks.discard()

    def shard_directory(self, shard: int) -> Path:
        """Return the directory of the shard, and make it if it is missing."""
        return self._made(self._path, shard)

    def log_directory(self, shard: int) -> Path:
        return self.shard_directory(shard) / "log"

    def queues_directory(self, shard: int) -> Path:
        return self._made(self._indexes, shard) / "queues"

    def positions_directory(self, shard: int) -> Path:
        return self.shard_directory(shard) / "positions"

    def keys_directory(self, shard: int) -> Path:
        return self._made(self._indexes, shard) / "keys"

    def timed_directory(self, shard: int) -> Path:
        return self._made(self._indexes, shard) / "timed"

    def vote_path(self, shard: int) -> Path:
        return self.shard_directory(shard) / "vote"

    def votes(self, shard: int, *, new_incarnation: bytes) -> VoteFile:
        """Open the vote file of the shard. If the shard has no files yet, make the vote file first, with
        `new_incarnation`. Raise `DamagedError` if the vote file is damaged, or if it is missing although the shard has
        other files. With a new vote file, the node would have forgotten its vote, and no member would know its new
        incarnation."""
        path = self.vote_path(shard)
        if not self._disk.exists(path) and self._holds_replica(path.parent):
            raise DamagedError(path, 0, "the vote file is missing, and without it the node might vote twice in a term")
        return VoteFile.open(self._disk, path, new_incarnation=new_incarnation)

    def _holds_replica(self, shard: Path) -> bool:
        return has_log(self._disk, shard) or any(
            self._disk.exists(shard / name) for name in ("snapshot", "boot", "clean")
        )

    def snapshots(self, shard: int) -> Snapshots:
        """Return the snapshots of the shard. Raise `DamagedError` if the snapshot at the log start cannot be read."""
        return Snapshots(self._disk, self.shard_directory(shard))

    def marks(self, shard: int) -> ShardMarks:
        """Return the marks of the shard, which say how the shard was stopped and whether it may lack entries."""
        return ShardMarks(self._disk, self.shard_directory(shard), self._reserve)

    def mark_restored(self, earlier: Sequence[str]) -> None:
        """Record durably that the logs were restored from backups of the clusters `earlier`, so that a validation does
        not take their configurations for those of a wrong log."""
        path = self._path / _DATA
        fields = {**json.loads(read_file(self._disk, path)), "restored_from": list(earlier)}
        replace_file(self._disk, path, json.dumps(fields).encode() + b"\n")

    def discard_marks(self, shard: int) -> DiscardMarks:
        """Return the marks that say whether this node discarded a replica of the shard, and the deletion of its
        files."""
        roots = dict.fromkeys(root / f"{_SHARD}{shard}" for root in (self._path, self._indexes))
        return DiscardMarks(self._disk, [*roots])

    def close(self) -> None:
        """Release the locks of the data directory and of the directory of the indexes."""
        for lock in self._locks:
            lock.release()

    def _made(self, root: Path, shard: int) -> Path:
        path = root / f"{_SHARD}{shard}"
        if not self._disk.exists(path):
            self._disk.make_directory(path)
            self._disk.sync_directory(root)
        return path


def _locked(disk: Disk, path: Path, name: str, cluster: str, node: int) -> Lock:
    disk.make_directory(path)
    lock = disk.lock(path / "lock")
    try:
        _check_purpose(disk, path, name)
        _check_identity(disk, path, name, cluster, node)
    except StoreError:
        lock.release()
        raise
    return lock


def _check_purpose(disk: Disk, path: Path, name: str) -> None:
    """Raise `WrongDirectoryError` if the data of one node would be mixed with the indexes of another node. Without
    this check, a start could use a directory of indexes as the data directory, find no log there, and treat the
    node as new."""
    other, what = (_INDEXES, "the indexes") if name == _DATA else (_DATA, "the data")
    expected = "the data" if name == _DATA else "the indexes"
    if disk.exists(path / other):
        raise WrongDirectoryError(path, f"{what} of a node", f"{expected} of a node")


def _check_identity(disk: Disk, path: Path, name: str, cluster: str, node: int) -> None:
    identity_path = path / name
    expected = {"format": FORMAT, "cluster": cluster, "node": node}
    if not disk.exists(identity_path):
        if old_shards(disk, path) or any(name.startswith(_SHARD) for name in disk.list(path)):
            raise DamagedError(identity_path, 0, "it is missing, though the directory holds the data of a node")
        replace_file(disk, identity_path, json.dumps(expected).encode() + b"\n")
        disk.sync_directory(path.parent)
        return
    try:
        found = json.loads(read_file(disk, identity_path))
        layout, found_cluster, found_node = found["format"], found["cluster"], found["node"]
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedError(identity_path, 0, f"it does not say whose directory this is ({error!r})") from error
    if layout not in (UPGRADABLE, FORMAT):
        raise WrongDirectoryError(path, f"a version with directory format {layout}", f"this one with format {FORMAT}")
    if (found_cluster, found_node) != (cluster, node):
        raise WrongDirectoryError(
            path, f"node {found_node} of cluster {found_cluster!r}", f"node {node} of cluster {cluster!r}"
        )
    if layout == UPGRADABLE:
        upgrade(disk, path)
        replace_file(disk, identity_path, json.dumps(expected).encode() + b"\n")
    elif old := old_shards(disk, path):
        raise DirectoryUpgradeError(path, f"it has format 2 already, but also holds group-{old[0]} of format 1")
