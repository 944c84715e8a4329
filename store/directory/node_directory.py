"""The data directory of a node: who owns it, and where its parts lie; and that of its indexes, where it has one.

    <path>/lock                  held while the node runs
    <path>/identity.json         {"format": 2, "cluster": "dev", "node": 1}
    <path>/reserve/              room for the small files on a full disk (see reserve.py)
    <path>/shard-0/log/          the CommitLog's segments
    <path>/shard-0/base          where the CommitLog begins, unless at its first entry (see snapshot_file.py)
    <path>/shard-0/incoming      a base on its way from another node (see incoming_snapshot.py)
    <path>/shard-0/checkpoint    where the next start goes on (see checkpoint.py)
    <path>/shard-0/positions/    where the entries of the log lie
    <path>/shard-0/queues/       its ConsumeQueues, unless they have a directory of their own
    <path>/shard-0/vote          term, vote, incarnation
    <path>/shard-0/clean         only between an orderly stop and the next start
    <path>/shard-0/boot          in which run of the machine the group was last written
    <path>/shard-0/suspect       only while the node may lack what it acknowledged
    <path>/shard-0/repair        only while its log is being repaired from others

    <indexes>/lock               as above
    <indexes>/indexes.json       as identity.json
    <indexes>/shard-0/           queues/ and keys/: what can be built from the CommitLog may lie on a cheaper disk

Whoever opens it gets it alone and knows that it is theirs, before reading anything else in it.

The small files are replaced whole (written under another name, synced, renamed, the directory synced), so that a kill
or a power loss leaves the old one or the new one, and one that cannot be read is damage. On a full disk the marks take
the place of the reserve, so a start needs no room that it does not have. A start, in this order:

    crashed -> open the vote file, the base file and the log (mark_suspect before its cut) -> sync the log
            -> finish_reset -> record_boot -> remove_clean_mark -> only now is anything new written
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
        """Lock the directory, which is made if it is missing, and see that it is this node's; and the one of its
        `indexes`, where they are to lie in another one.

        Raises `DirectoryInUseError`, `WrongDirectoryError`, or `DamagedError` if its identity cannot be read."""
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
        """The numbers of the shards that there is something of, ascending."""
        numbers = (name.removeprefix(_SHARD) for name in self._disk.list(self._path) if name.startswith(_SHARD))
        return sorted(int(number) for number in numbers if number.isdecimal())

    def shard_directory(self, shard: int) -> Path:
        """Made if it is missing."""
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
        """Where the log begins. Raises `DamagedError`."""
        return Snapshots(self._disk, self.shard_directory(shard))

    def write_clean_mark(self, shard: int, mark: CleanMark) -> None:
        """The last thing that an orderly stop does with a shard, once its log is flushed."""
        self._reserve.replace_file(self._clean_path(shard), mark.encode())

    def clean_mark(self, shard: int) -> CleanMark | None:
        """The mark of the last stop if it was orderly. It stays until `remove_clean_mark`: a log that does not agree
        with it must be refused at every start, not only at the first."""
        return self._read_mark(self._clean_path(shard), CleanMark.decode, "clean mark")

    def remove_clean_mark(self, shard: int) -> None:
        """Durably, once the log is open and before anything is written: it cannot vouch for what comes after."""
        self._remove_mark(self._clean_path(shard))

    def crashed(self, shard: int, boot_id: str) -> bool:
        """Whether the machine went down (or may have) since this shard was last written, without an orderly stop: what
        was not flushed may be missing. To be asked before anything of the shard is opened; the answer stays the same
        until `record_boot`."""
        if self._disk.exists(self._clean_path(shard)):
            return False
        recorded = self._read_mark(self._boot_path(shard), decode_boot_record, "boot record")
        if recorded is None:
            log_directory = self.log_directory(shard)
            return self._disk.exists(log_directory) and bool(self._disk.list(log_directory))
        return boot_id == "" or boot_id != recorded

    def record_boot(self, shard: int, boot_id: str) -> None:
        """Durably, once what was found is flushed and before anything is written: from now on a kill is a kill. With
        an empty id it is a crash: where what is written waits in the process, a kill takes it."""
        path = self._boot_path(shard)
        if self._read_mark(path, decode_boot_record, "boot record") != boot_id:
            self._reserve.replace_file(path, encode_boot_record(boot_id))

    def distrust_page_cache(self, shard: int) -> None:
        """After a failed sync, durably: the kernel may call clean what never reached the disk, so the next start is one
        after a crash, whichever run of the machine it is in. Works on a full disk: nothing is written."""
        self._remove_mark(self._boot_path(shard))

    def mark_suspect(self, shard: int, suspect: Suspect) -> Suspect:
        """Durably; returns the mark as it stands now, joined with one that was there before."""
        before = self.suspect(shard)
        mark = suspect if before is None else before.joined(suspect)
        if mark != before:
            self._reserve.replace_file(self._suspect_path(shard), mark.encode())
        return mark

    def suspect(self, shard: int) -> Suspect | None:
        """Why this node may lack what it acknowledged in this shard; None while there is no doubt."""
        return self._read_mark(self._suspect_path(shard), Suspect.decode, "suspect mark")

    def clear_suspect(self, shard: int) -> None:
        """Durably. What the node has caught up with must have been flushed before."""
        self._remove_mark(self._suspect_path(shard))

    def mark_repair(self, shard: int, mark: RepairMark) -> None:
        """Durably, before anything of others is written into a damaged log. That its end was given up, and since when,
        stays as it was said first."""
        before = self.repair(shard)
        if before is not None:
            mark = RepairMark(before.doubt.joined(mark.doubt), before.ends or mark.ends)
        if mark != before:
            replace_file(self._disk, self._repair_path(shard), mark.encode())

    def repair(self, shard: int) -> RepairMark | None:
        """What the repair that was begun last may cost; None where none is under way."""
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
    """A log that came to lie among another one's indexes would look like a new one."""
    other, what = (_INDEXES, "the indexes") if name == _DATA else (_DATA, "the data")
    expected = "the data" if name == _DATA else "the indexes"
    if disk.exists(path / other):
        raise WrongDirectoryError(path, f"{what} of a node", f"{expected} of one")


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
        raise DirectoryUpgradeError(path, f"it is of format 2 already, and holds group-{old[0]} of format 1 as well")
