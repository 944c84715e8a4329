"""The data directory of a node: its owner, its lock, and the paths of its parts. The indexes may have their own
directory.

    <path>/lock                  held while the node runs
    <path>/identity.json         {"format": 2, "cluster": "dev", "node": 1}
    <path>/reserve/              room for the small files on a full disk (see reserve.py)
    <path>/shard-0/log/          the CommitLog's segments
    <path>/shard-0/snapshot      the snapshot at which the CommitLog begins (see snapshot_file.py)
    <path>/shard-0/snapshots/    snapshots at which the CommitLog may begin later (see snapshots.py)
    <path>/shard-0/incoming      a snapshot that arrives from another node (see incoming_snapshot.py)
    <path>/shard-0/checkpoint    the place where the next start continues (see checkpoint.py)
    <path>/shard-0/positions/    positions of the log's entries
    <path>/shard-0/queues/       its ConsumeQueues, unless the indexes have their own directory
    <path>/shard-0/keys/         its key index, unless the indexes have their own directory
    <path>/shard-0/vote          term, vote, incarnation
    <path>/shard-0/clean         exists only between an orderly stop and the next start
    <path>/shard-0/boot          the run of the machine in which the shard was last written
    <path>/shard-0/suspect       exists only while the node may lack entries it acknowledged
    <path>/shard-0/repair        exists only during a startup repair of its log

    <indexes>/lock               as above
    <indexes>/indexes.json       as identity.json
    <indexes>/shard-0/           queues/ and keys/: they can be built from the log, so a cheaper disk is enough

`NodeDirectory.open` locks the directory and checks its owner before it reads any other file.

The small files are replaced whole: written under another name, synced, renamed, and the directory synced. So a kill or
a power loss leaves the old file or the new file, and an unreadable file is damage. On a full disk the marks use the
room of the reserve, so a start does not fail for lack of space. A start goes in this order:

    crashed -> open the vote file, the snapshots and the log (mark_suspect before its cut) -> sync the log
            -> finish_reset -> record_boot -> remove_clean_mark -> only now may the node write new data
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from store.directory.boot import decode_boot_record, encode_boot_record
from store.directory.clean_mark import CleanMark
from store.directory.format_upgrade import FORMAT, UPGRADABLE, old_shards, upgrade
from store.directory.suspect import Suspect
from store.disk.disk import Disk, Lock, read_file, replace_file
from store.disk.reserve import Reserve
from store.errors import DamagedError, DirectoryUpgradeError, StoreError, WrongDirectoryError
from store.repair.repair_mark import RepairMark
from store.snapshot.snapshots import Snapshots

_DATA, _INDEXES = "identity.json", "indexes.json"
_Mark = TypeVar("_Mark")
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
        """Lock the directory, make it if it is missing, and check that it belongs to this node. Do the same with
        `indexes`, the directory of the indexes, if it is given.

        Raise `DirectoryInUseError`, `WrongDirectoryError`, `DirectoryUpgradeError`, or `DamagedError` if its identity
        cannot be read."""
        locks = [_locked(disk, path, _DATA, cluster, node)]
        try:
            if indexes is not None:
                locks.append(_locked(disk, indexes, _INDEXES, cluster, node))
            return NodeDirectory(disk, path, indexes or path, locks)
        except StoreError:
            for lock in locks:
                lock.release()
            raise

    @property
    def path(self) -> Path:
        return self._path

    def shards(self) -> list[int]:
        """Return the numbers of the shards that have a directory here, ascending."""
        numbers = (name.removeprefix(_SHARD) for name in self._disk.list(self._path) if name.startswith(_SHARD))
        return sorted(int(number) for number in numbers if number.isdecimal())

    def shard_directory(self, shard: int) -> Path:
        """Return the directory of the shard. It is made if it is missing."""
        return self._made(self._path, shard)

    def log_directory(self, shard: int) -> Path:
        return self.shard_directory(shard) / "log"

    def queues_directory(self, shard: int) -> Path:
        return self._made(self._indexes, shard) / "queues"

    def positions_directory(self, shard: int) -> Path:
        return self.shard_directory(shard) / "positions"

    def keys_directory(self, shard: int) -> Path:
        return self._made(self._indexes, shard) / "keys"

    def vote_path(self, shard: int) -> Path:
        return self.shard_directory(shard) / "vote"

    def snapshots(self, shard: int) -> Snapshots:
        """Return the snapshots of the shard. Raise `DamagedError` if the snapshot at the log start cannot be read."""
        return Snapshots(self._disk, self.shard_directory(shard))

    def write_clean_mark(self, shard: int, mark: CleanMark) -> None:
        """Write the clean mark. This is the last step of an orderly stop, after the log was flushed."""
        self._reserve.replace_file(self._clean_path(shard), mark.encode())

    def clean_mark(self, shard: int) -> CleanMark | None:
        """Return the mark of the last stop, or None if the stop was not orderly. The mark stays until
        `remove_clean_mark`, because a log that disagrees with it must be refused at every start."""
        return self._read_mark(self._clean_path(shard), CleanMark.decode, "clean mark")

    def remove_clean_mark(self, shard: int) -> None:
        """Remove the mark durably. Call this after the log is open and before the first write, because the mark does
        not vouch for later writes."""
        self._remove_mark(self._clean_path(shard))

    def crashed(self, shard: int, boot_id: str) -> bool:
        """Return whether the machine went down, or may have gone down, without an orderly stop since this shard was
        last written. Then unflushed bytes may be missing. Ask before any file of the shard is opened. The answer stays
        the same until `record_boot`."""
        if self._disk.exists(self._clean_path(shard)):
            return False
        recorded = self._read_mark(self._boot_path(shard), decode_boot_record, "boot record")
        if recorded is None:
            log_directory = self.log_directory(shard)
            return self._disk.exists(log_directory) and bool(self._disk.list(log_directory))
        return boot_id == "" or boot_id != recorded

    def record_boot(self, shard: int, boot_id: str) -> None:
        """Record the boot id durably, after the log was flushed and before the first write. From then on the end of the
        process counts as a kill. With an empty id it counts as a crash: staged writes are lost with the process."""
        path = self._boot_path(shard)
        if self._read_mark(path, decode_boot_record, "boot record") != boot_id:
            self._reserve.replace_file(path, encode_boot_record(boot_id))

    def distrust_page_cache(self, shard: int) -> None:
        """Remove the boot record durably, after a failed sync. The page cache may then show bytes as clean that never
        reached the disk, so the next start must treat the stop as a crash. This works on a full disk, because no file
        is written."""
        self._remove_mark(self._boot_path(shard))

    def mark_suspect(self, shard: int, suspect: Suspect) -> Suspect:
        """Write the suspect mark durably. Return the mark as it is now, joined with an earlier mark."""
        before = self.suspect(shard)
        mark = suspect if before is None else before.joined(suspect)
        if mark != before:
            self._reserve.replace_file(self._suspect_path(shard), mark.encode())
        return mark

    def suspect(self, shard: int) -> Suspect | None:
        """Return the suspect mark of the shard, or None if the node is not a suspect."""
        return self._read_mark(self._suspect_path(shard), Suspect.decode, "suspect mark")

    def clear_suspect(self, shard: int) -> None:
        """Remove the suspect mark durably. The node must have caught up, and flushed its log, before."""
        self._remove_mark(self._suspect_path(shard))

    def mark_repair(self, shard: int, mark: RepairMark) -> None:
        """Write the repair mark durably, before entries of another replica are written into a damaged log. An earlier
        mark is joined with this mark: its time stays, and so does the note that the end of the log was given up."""
        before = self.repair(shard)
        if before is not None:
            mark = RepairMark(before.doubt.joined(mark.doubt), before.ends or mark.ends)
        if mark != before:
            replace_file(self._disk, self._repair_path(shard), mark.encode())

    def repair(self, shard: int) -> RepairMark | None:
        """Return the mark of the startup repair in progress, or None if no repair was begun."""
        return self._read_mark(self._repair_path(shard), RepairMark.decode, "repair mark")

    def clear_repair(self, shard: int) -> None:
        """Durably: the log is as it was, or what it may lack is remembered otherwise."""
        self._remove_mark(self._repair_path(shard))

    def close(self) -> None:
        """Release the locks."""
        for lock in self._locks:
            lock.release()

    def _made(self, root: Path, shard: int) -> Path:
        path = root / f"{_SHARD}{shard}"
        if not self._disk.exists(path):
            self._disk.make_directory(path)
            self._disk.sync_directory(root)
        return path

    def _clean_path(self, shard: int) -> Path:
        return self.shard_directory(shard) / "clean"

    def _boot_path(self, shard: int) -> Path:
        return self.shard_directory(shard) / "boot"

    def _suspect_path(self, shard: int) -> Path:
        return self.shard_directory(shard) / "suspect"

    def _repair_path(self, shard: int) -> Path:
        return self.shard_directory(shard) / "repair"

    def _read_mark(self, path: Path, decode: Callable[[bytes], _Mark], what: str) -> _Mark | None:
        if not self._disk.exists(path):
            return None
        try:
            return decode(read_file(self._disk, path))
        except ValueError as error:
            raise DamagedError(path, 0, f"this is no {what} ({error})") from error

    def _remove_mark(self, path: Path) -> None:
        if self._disk.exists(path):
            self._disk.unlink(path)
            self._disk.sync_directory(path.parent)


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
    """Raise `WrongDirectoryError` if the data of one node would be mixed with the indexes of another node. A log inside
    a directory of indexes would look like a new log."""
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
