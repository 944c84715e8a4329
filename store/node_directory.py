"""The data directory of a node: who owns it, and where its parts lie.

    <path>/lock                  held while the node runs
    <path>/identity.json         {"format": 1, "cluster": "dev", "node": 1}
    <path>/group-0/log/          the CommitLog's segments
    <path>/group-0/queues/       its ConsumeQueues
    <path>/group-0/vote          term, vote, incarnation
    <path>/group-0/clean         only between an orderly stop and the next start

One idea: whoever opens it gets it alone and knows that it is theirs, before reading anything else in it.
"""

from __future__ import annotations

import json
from pathlib import Path

from store.clean_mark import CleanMark
from store.disk import Disk, Lock, read_file, replace_file
from store.errors import DamagedError, StoreError, WrongDirectoryError

FORMAT = 1
_GROUP = "group-"


class NodeDirectory:
    def __init__(self, disk: Disk, path: Path, lock: Lock) -> None:
        """Use `open`."""
        self._disk = disk
        self._path = path
        self._lock = lock

    @staticmethod
    def open(disk: Disk, path: Path, *, cluster: str, node: int) -> NodeDirectory:
        """Lock the directory, which is made if it is missing, and see that it is this node's.

        Raises `DirectoryInUseError`, `WrongDirectoryError`, or `DamagedError` if its identity cannot be read."""
        disk.make_directory(path)
        lock = disk.lock(path / "lock")
        try:
            _check_identity(disk, path, cluster, node)
        except StoreError:
            lock.release()
            raise
        return NodeDirectory(disk, path, lock)

    @property
    def path(self) -> Path:
        return self._path

    def group_directory(self, group: int) -> Path:
        """Made if it is missing."""
        path = self._path / f"{_GROUP}{group}"
        if not self._disk.exists(path):
            self._disk.make_directory(path)
            self._disk.sync_directory(self._path)
        return path

    def log_directory(self, group: int) -> Path:
        return self.group_directory(group) / "log"

    def queues_directory(self, group: int) -> Path:
        return self.group_directory(group) / "queues"

    def vote_path(self, group: int) -> Path:
        return self.group_directory(group) / "vote"

    def write_clean_mark(self, group: int, mark: CleanMark) -> None:
        """The last thing that an orderly stop does with a group, once its log is flushed."""
        replace_file(self._disk, self._clean_path(group), mark.encode())

    def clean_mark(self, group: int) -> CleanMark | None:
        """The mark of the last stop if it was orderly. It stays until `remove_clean_mark`: a log that does not agree
        with it must be refused at every start, not only at the first."""
        path = self._clean_path(group)
        if not self._disk.exists(path):
            return None
        try:
            return CleanMark.decode(read_file(self._disk, path))
        except ValueError as error:
            raise DamagedError(path, 0, f"this is no clean mark ({error})") from error

    def remove_clean_mark(self, group: int) -> None:
        """Durably, once the log is open and before anything is written: it cannot vouch for what comes after."""
        path = self._clean_path(group)
        if self._disk.exists(path):
            self._disk.unlink(path)
            self._disk.sync_directory(path.parent)

    def close(self) -> None:
        """Release the lock."""
        self._lock.release()

    def _clean_path(self, group: int) -> Path:
        return self.group_directory(group) / "clean"


def _check_identity(disk: Disk, path: Path, cluster: str, node: int) -> None:
    identity_path = path / "identity.json"
    expected = {"format": FORMAT, "cluster": cluster, "node": node}
    if not disk.exists(identity_path):
        if any(name.startswith(_GROUP) for name in disk.list(path)):
            raise DamagedError(identity_path, 0, "it is missing, though the directory holds the data of a node")
        replace_file(disk, identity_path, json.dumps(expected).encode() + b"\n")
        disk.sync_directory(path.parent)
        return
    try:
        found = json.loads(read_file(disk, identity_path))
        layout, found_cluster, found_node = found["format"], found["cluster"], found["node"]
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedError(identity_path, 0, f"it does not say whose directory this is ({error!r})") from error
    if layout != FORMAT:
        raise WrongDirectoryError(path, f"a version with directory format {layout}", f"this one with format {FORMAT}")
    if (found_cluster, found_node) != (cluster, node):
        raise WrongDirectoryError(
            path, f"node {found_node} of cluster {found_cluster!r}", f"node {node} of cluster {cluster!r}"
        )
