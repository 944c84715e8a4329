"""The marks of one shard are small files. The marks say how the shard was stopped, and whether it may lack entries.

    <shard>/clean      exists only between an orderly stop and the next start (clean_mark.py)
    <shard>/boot       the run of the machine in which the shard was last written (boot.py)
    <shard>/distrusted the same, after a failed sync and until the next start
    <shard>/suspect    exists only while the node may lack entries it acknowledged (suspect.py)
    <shard>/repair     exists only during a startup repair of the shard's log (store/repair/repair_mark.py)

Each mark is replaced whole or removed, and the directory is synced. After a kill or a power loss, the disk holds the
old mark or the new mark. A method that reads a mark raises `DamagedError` if the bytes are no mark.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from store.directory.boot import BootRecord
from store.directory.clean_mark import CleanMark
from store.directory.suspect import Suspect
from store.disk.disk import Disk, read_file, replace_file
from store.disk.reserve import Reserve
from store.errors import DamagedError
from store.repair.repair_mark import RepairMark

_Mark = TypeVar("_Mark")


def has_log(disk: Disk, shard: Path) -> bool:
    """Return True if the directory of a shard has files of a log."""
    log_directory = shard / "log"
    return disk.exists(log_directory) and bool(disk.list(log_directory))


class ShardMarks:
    def __init__(self, disk: Disk, directory: Path, reserve: Reserve) -> None:
        """`directory` is the directory of the shard."""
        self._disk = disk
        self._directory = directory
        self._reserve = reserve
        self._clean_path = directory / "clean"
        self._boot_path = directory / "boot"
        self._distrusted_path = directory / "distrusted"
        self._suspect_path = directory / "suspect"
        self._repair_path = directory / "repair"

    def write_clean_mark(self, mark: CleanMark) -> None:
        """Write the clean mark. The clean mark is the last step of an orderly stop, after the log was flushed."""
        self._reserve.replace_file(self._clean_path, mark.encode())

    def clean_mark(self) -> CleanMark | None:
        """Return the clean mark of the last stop, or None if the stop was not orderly. The clean mark stays until
        `remove_clean_mark`, because every start must refuse a log that disagrees with the mark."""
        return self._read_mark(self._clean_path, CleanMark.decode, "clean mark")

    def remove_clean_mark(self) -> None:
        """Remove the clean mark durably. Call this method after the log is open and before the first write, because
        the mark does not describe later writes."""
        self._remove_mark(self._clean_path)

    def crashed(self, boot_id: str) -> bool:
        """Return True if the machine crashed, or may have crashed, after the last write to this shard. Return False
        after an orderly stop, and if only the process was killed. After a crash, bytes that were not flushed may be
        missing. Call this method before any file of the shard is opened. All calls before `record_boot` return the
        same value."""
        if self._disk.exists(self._clean_path):
            return False
        recorded = self._read_mark(self._boot_path, BootRecord.decode, "boot record")
        if recorded is None:
            return has_log(self._disk, self._directory)
        return boot_id == "" or boot_id != recorded.boot_id

    def last_flush(self) -> str:
        """Return the setting `flush` ("async" or "sync") of the run that last wrote to this shard, or "async" if it
        is not known. Call this method before `record_boot`."""
        for path in (self._boot_path, self._distrusted_path):
            if (record := self._read_mark(path, BootRecord.decode, "boot record")) is not None:
                return record.flush
        return "async"

    def record_boot(self, boot_id: str, flush: str) -> None:
        """Record the boot id and the setting `flush` durably, after the log was flushed and before the first write.
        If the process ends without an orderly stop after this call, the next start treats the stop as a kill. If
        `boot_id` is empty, the next start treats the stop as a crash, because staged writes are lost with the
        process."""
        path, record = self._boot_path, BootRecord(boot_id, flush)
        if self._read_mark(path, BootRecord.decode, "boot record") != record:
            self._reserve.replace_file(path, record.encode())
        self._remove_mark(self._distrusted_path)

    def distrust_page_cache(self) -> None:
        """Rename the boot record durably, after a failed sync. After a failed sync, the page cache may show bytes as
        clean that never reached the disk, so the next start must treat the stop as a crash. The renaming works on a
        full disk, because no file is written. It keeps the setting `flush` for `last_flush`."""
        if self._disk.exists(self._boot_path):
            self._disk.rename(self._boot_path, self._distrusted_path)
            self._disk.sync_directory(self._directory)

    def mark_suspect(self, suspect: Suspect) -> Suspect:
        """Write the suspect mark durably. Return the written mark: the new mark joined with an earlier suspect
        mark."""
        before = self.suspect()
        mark = suspect if before is None else before.joined(suspect)
        if mark != before:
            self._reserve.replace_file(self._suspect_path, mark.encode())
        return mark

    def suspect(self) -> Suspect | None:
        """Return the suspect mark of the shard, or None if the node is not a suspect."""
        return self._read_mark(self._suspect_path, Suspect.decode, "suspect mark")

    def clear_suspect(self) -> None:
        """Remove the suspect mark durably. Before the call, the node must have caught up and flushed its log."""
        self._remove_mark(self._suspect_path)

    def mark_repair(self, mark: RepairMark) -> None:
        """Write the repair mark durably, before entries of another replica are written into a damaged log. An
        earlier repair mark is joined with the new mark. The joined mark has the earlier reason and time, and the
        smaller last index. In the joined mark, `ends` is true if it is true in the earlier or in the later mark."""
        before = self.repair()
        if before is not None:
            mark = RepairMark(before.doubt.joined(mark.doubt), before.ends or mark.ends)
        if mark != before:
            replace_file(self._disk, self._repair_path, mark.encode())

    def repair(self) -> RepairMark | None:
        """Return the mark of the startup repair in progress, or None if no repair was begun."""
        return self._read_mark(self._repair_path, RepairMark.decode, "repair mark")

    def clear_repair(self) -> None:
        """Remove the repair mark durably. Call this method when the log is undamaged again, or when the suspect
        mark says that entries may be missing."""
        self._remove_mark(self._repair_path)

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
