"""An in-memory implementation of the disk. Tests can simulate the kill of the process at any written byte, and can
make operations of the disk fail.

After the simulated kill, the disk holds exactly the bytes that were written before the kill. A test that kills the
process after n bytes, for every n, covers every state that recovery can find after a kill. `kill_after(n)` counts the
bytes that are written after its call. Creating, renaming or removing a name counts as one byte. After the kill every
operation of the memory disk raises `Killed`. `after_kill()` returns the disk that the next process finds.

The memory disk keeps the promises of `disk.py`: for example, a write of one aligned word is whole or absent.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path

from store.disk.disk import DiskUsage, Writable
from store.errors import DirectoryInUseError, StoreError, translated
from store.log.entry import WORD

CAPACITY = 1 << 40


class Killed(BaseException):
    """`Killed` is raised by the disk operation during which the simulated process is killed, and by all later
    operations. `Killed` is not an `Exception`, because a process cannot handle its own kill."""


class MemoryFile:
    def __init__(self, disk: MemoryDisk, path: Path, content: bytearray) -> None:
        self._disk = disk
        self._path = path
        self._content = content
        self._view: memoryview | None = None
        self._open = True

    @property
    def size(self) -> int:
        return len(self._content)

    def write(self, offset: int, *pieces: Writable) -> None:
        assert self._open
        piece = b"".join(pieces)
        end = offset + len(piece)
        assert self._view is None or end <= self.size, "a file that is mapped does not grow"
        self._disk.before("write", self._path)
        atomic = len(piece) == WORD and offset % WORD == 0
        allowed = self._disk.spend(len(piece), atomic=atomic)
        if offset > self.size and allowed:
            self._content.extend(bytes(offset - self.size))
        self._content[offset : offset + allowed] = piece[:allowed]
        self._disk.die_if_spent()

    def read(self, offset: int, count: int) -> bytes:
        assert self._open
        self._disk.before("read", self._path)
        return bytes(self._content[offset : offset + count])

    def written(self, first: int, end: int) -> Sequence[range]:
        assert self._open
        data = self._content[first:end].lstrip(b"\0")
        return [range(min(end, self.size) - len(data), min(end, self.size))] if data else []

    def view(self) -> memoryview:
        assert self._open
        self._disk.before("view", self._path)
        if self._view is None:
            self._view = memoryview(self._content).toreadonly()
        return self._view

    def sync(self) -> None:
        assert self._open
        self._disk.before("sync", self._path)

    def close(self) -> None:
        self._view = None
        self._open = False


class MemoryLock:
    def __init__(self, held: set[Path], path: Path) -> None:
        self._held = held
        self._path = path

    def release(self) -> None:
        self._held.discard(self._path)


class MemoryDisk:
    def __init__(self) -> None:
        self._files: dict[Path, bytearray] = {}
        self._directories: set[Path] = {Path("/")}
        self._locks: set[Path] = set()
        # Bytes that may still be written before the process is killed; None if no kill is planned.
        self._budget: int | None = None
        self._dead = False
        # The size that `usage` reports. Writes beyond it are not refused.
        self.capacity = CAPACITY
        # For each operation, the results of its next calls in order: None (success) or an error to raise.
        self._faults: dict[str, Iterator[StoreError | None]] = {}

    # Called by tests.

    def kill_after(self, count: int) -> None:
        """Kill the process after `count` more bytes are written: the disk then has the `count` bytes, and not the
        next byte."""
        self._budget = count

    @property
    def is_dead(self) -> bool:
        return self._dead

    def after_kill(self) -> MemoryDisk:
        """Return the disk that the next process finds: it has the same bytes and names, and neither locks nor
        faults."""
        disk = MemoryDisk()
        disk._files = {path: bytearray(content) for path, content in self._files.items()}
        disk._directories = set(self._directories)
        return disk

    def fail(self, operation: str, error: StoreError, *, after: int = 0, times: int | None = None) -> None:
        """Make calls of `operation` (write, sync, create, ...) raise `error`, after `after` more calls have
        succeeded. If `times` is given, only this number of calls fails."""
        self._faults[operation] = chain(repeat(None, after), repeat(error) if times is None else repeat(error, times))

    def heal(self) -> None:
        self._faults.clear()

    def flip(self, path: Path, offset: int, bit: int = 0) -> None:
        """Flip one bit of a file. The flip does not count as an operation of the disk."""
        self._files[path][offset] ^= 1 << bit

    def content(self, path: Path) -> bytes:
        return bytes(self._files[path])

    # Called by its files.

    def before(self, operation: str, path: Path) -> None:
        if self._dead:
            raise Killed
        if operation in self._faults and (error := next(self._faults[operation], None)) is not None:
            raise error

    def spend(self, count: int, *, atomic: bool) -> int:
        """Return how many of `count` bytes are written before the process is killed."""
        if self._budget is None:
            return count
        allowed = min(count, self._budget)
        self._dead = allowed < count
        self._budget -= allowed
        return 0 if self._dead and atomic else allowed

    def die_if_spent(self) -> None:
        if self._dead:
            raise Killed

    # The contract of `disk.Disk`.

    def create(self, path: Path, size: int) -> MemoryFile:
        self.before("create", path)
        if path in self._files or path in self._directories:
            raise self._refused(errno.EEXIST, path)
        if path.parent not in self._directories:
            raise self._refused(errno.ENOENT, path)
        self._change_name()
        # The name is created before the length is set: a kill between the two leaves a short file.
        content = self._files[path] = bytearray()
        self._change_name()
        content.extend(bytes(size))
        return MemoryFile(self, path, content)

    def open(self, path: Path) -> MemoryFile:
        self.before("open", path)
        if path not in self._files:
            raise self._refused(errno.EISDIR if path in self._directories else errno.ENOENT, path)
        return MemoryFile(self, path, self._files[path])

    def open_mapped(self, path: Path) -> MemoryFile:
        return self.open(path)  # its files are memory already

    def exists(self, path: Path) -> bool:
        self.before("exists", path)
        return path in self._files or path in self._directories

    def list(self, directory: Path) -> Sequence[str]:
        self.before("list", directory)
        if directory not in self._directories:
            raise self._refused(errno.ENOTDIR if directory in self._files else errno.ENOENT, directory)
        everything = [*self._files, *self._directories]
        return sorted(path.name for path in everything if path.parent == directory and path != directory)

    def make_directory(self, path: Path) -> None:
        self.before("make_directory", path)
        if path in self._files:
            raise self._refused(errno.EEXIST, path)
        self._directories.update([path, *path.parents])

    def rename(self, old: Path, new: Path) -> None:
        self.before("rename", old)
        if old in self._directories:
            self._change_name()
            self._rename_directory(old, new)
            return
        if old not in self._files:
            raise self._refused(errno.ENOENT, old)
        self._change_name()
        self._files[new] = self._files.pop(old)

    def _rename_directory(self, old: Path, new: Path) -> None:
        """Rename a directory with everything below it."""
        for path in [path for path in self._files if path.is_relative_to(old)]:
            self._files[new / path.relative_to(old)] = self._files.pop(path)
        moved = {path for path in self._directories if path.is_relative_to(old)}
        self._directories = (self._directories - moved) | {new / path.relative_to(old) for path in moved}

    def unlink(self, path: Path) -> None:
        self.before("unlink", path)
        if path not in self._files:
            raise self._refused(errno.EISDIR if path in self._directories else errno.ENOENT, path)
        self._change_name()
        del self._files[path]

    def sync_directory(self, path: Path) -> None:
        self.before("sync_directory", path)
        if path not in self._directories:
            raise self._refused(errno.ENOENT, path)

    def usage(self, path: Path) -> DiskUsage:
        self.before("usage", path)
        used = sum(map(len, self._files.values()))
        return DiskUsage(self.capacity, max(0, self.capacity - used))

    def lock(self, path: Path) -> MemoryLock:
        self.before("lock", path)
        if path in self._locks:
            raise DirectoryInUseError(path.parent, "another user of this memory disk")
        self._files.setdefault(path, bytearray())
        self._locks.add(path)
        return MemoryLock(self._locks, path)

    def _change_name(self) -> None:
        self.spend(1, atomic=True)
        self.die_if_spent()

    def _refused(self, number: int, path: Path) -> StoreError:
        error = OSError(number, os.strerror(number))
        refusal = translated(error, path)
        refusal.__cause__ = error
        return refusal
