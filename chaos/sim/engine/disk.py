"""Simulates a disk with a page cache and a platter. `SimDisk` implements `store.disk.disk.Disk`. The simulator can
inject faults into the disk.

A process can read its own writes at once. The data that the next process finds depends on how the previous process
ended. `kill()` keeps all data that was written. `power_cut()` keeps all synced data, and a random part of the unsynced
data. `kill()` and `power_cut()` return a new disk for the next process. After `kill()` or `power_cut()`, each
operation on the old disk raises `Killed`.

    faults   fail(operation)     the next such operations end in EIO; a failed sync drops its data and marks it clean
             room                free bytes; writes beyond them end in ENOSPC
             die_in_write(n, d)  the process dies in the middle of its n-th write below directory d, counted from now
             flip, put_back      damage to the files of a node that is down
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from chaos.sim.engine.disk_content import PAGE, Crash, Directory, Inode, Node
from store.disk.disk import DiskUsage, Writable
from store.disk.memory_disk import Killed
from store.errors import DirectoryInUseError, StoreError, translated
from store.log.entry import WORD

# Capacity in bytes that a disk without a limit reports.
CAPACITY = 1 << 30


class SimFile:
    """An open file of a simulated disk. Implements `store.disk.disk.File`."""

    __slots__ = ("_disk", "_inode", "_open", "_path", "_view")

    def __init__(self, disk: SimDisk, path: Path, inode: Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._view: memoryview | None = None
        self._open = True

    @property
    def size(self) -> int:
        return len(self._inode.live)

    def write(self, offset: int, *pieces: Writable) -> None:
        assert self._open
        piece = b"".join(pieces)
        growth = offset + len(piece) - self.size
        assert self._view is None or growth <= 0, "a file that is mapped does not grow"
        disk = self._disk
        disk.before("write", self._path)
        disk.take_room(growth, self._path)
        if disk.is_half_written(piece, self._path):
            self._inode.write(offset, piece[: disk.random.randrange(1, len(piece))])
            raise _refused(errno.ENOSPC, self._path)
        written = disk.survives(piece, offset, self._path)
        self._inode.write(offset, written)
        if written and disk.writes_back and disk.random.random() < disk.writes_back:
            self._inode.write_back(offset + disk.random.randrange(len(written)))
        if disk.dead:
            disk.on_death()  # after the write is applied, because the callback looks at the disk
            raise Killed

    def read(self, offset: int, count: int) -> bytes:
        assert self._open
        self._disk.before("read", self._path)
        return bytes(self._inode.live[offset : offset + count])

    def written(self, first: int, end: int) -> Sequence[range]:
        assert self._open
        data = self._inode.live[first:end].lstrip(b"\0")
        return [range(min(end, self.size) - len(data), min(end, self.size))] if data else []

    def view(self) -> memoryview:
        assert self._open
        self._disk.before("read", self._path)
        if self._view is None:
            self._view = memoryview(self._inode.live).toreadonly()
        return self._view

    def sync(self) -> None:
        assert self._open
        try:
            self._disk.before("sync", self._path)
        except StoreError:
            self._inode.drop()
            raise
        self._inode.sync()

    def close(self) -> None:
        self._view = None
        self._open = False


class SimLock:
    """A lock that a process holds on a directory."""

    def __init__(self, held: set[Path], path: Path) -> None:
        self._held = held
        self._path = path

    def release(self) -> None:
        self._held.discard(self._path)


class SimDisk:
    """One simulated disk, as one process uses it.

    The callback `on_death` is called when the process dies in the middle of a write, as `die_in_write` has planned.
    `writes_back` is the probability that a write also puts one of its sectors on the platter at once, without a sync.
    If `evicts` is True, pages that a failed sync dropped can be missing for the next process.
    """

    def __init__(
        self, random: Random, *, capacity: int | None = None, writes_back: float = 0.0, evicts: bool = True
    ) -> None:
        self.random = random
        self.dead = False
        # Free bytes; None means no limit.
        self.room = capacity
        self.writes_back = writes_back
        self.on_death: Callable[[], None] = _nothing
        # Injected faults that took effect, by kind.
        self.faults: Counter[str] = Counter()
        self._evicts = evicts
        # Number of operations that still have to fail, by kind of operation.
        self._failing: Counter[str] = Counter()
        # Writes left, including the write in which the process dies; 0 means that no such write is planned.
        self._writes_left = 0
        # The next write below this directory fails in its middle, and then the callback is called.
        self._half_written: tuple[Path, Callable[[], None]] | None = None
        # Only writes below this directory are counted for `_writes_left`.
        self._deadly: Path = Path("/")
        self._root = Directory()
        self._locks: set[Path] = set()

    # -- faults

    def kill(self) -> SimDisk:
        """End the process that uses the disk. Return the disk of the next process, with all written data."""
        return self._next(self._root.after_kill(self.random, evicts=self._evicts))

    def power_cut(self, crash: Crash | None = None) -> SimDisk:
        """Cut the power. Return the disk of the next process, with all synced data and the unsynced data that
        `crash` keeps."""
        return self._next(self._root.after_power_cut(crash or Crash.drawn(self.random)))

    def _next(self, root: Directory) -> SimDisk:
        self.dead = True
        disk = SimDisk(self.random, writes_back=self.writes_back, evicts=self._evicts)
        disk._root = root
        disk.room, disk.faults = self.room, self.faults
        return disk

    def replaced(self) -> SimDisk:
        """Return an empty disk that replaces this disk. After the replacement, each operation on the old disk
        raises `Killed`."""
        self.dead = True
        return SimDisk(self.random, writes_back=self.writes_back, evicts=self._evicts)

    def fail(self, operation: str, times: int = 1) -> None:
        """Let the next `times` operations of this kind (read, write or sync) fail with EIO."""
        self._failing[operation] = times

    def heal(self) -> None:
        """Cancel all planned faults of this disk, and remove the limit on its free bytes."""
        self._failing.clear()
        self._half_written = None
        self.room, self._writes_left = None, 0

    def die_in_write(self, number: int, below: Path = Path("/")) -> None:
        """Let the process die in the middle of its `number`-th write from now to files below the directory `below`."""
        self._writes_left, self._deadly = number, below

    def write_half(self, below: Path, then: Callable[[], None]) -> None:
        """Let the next write of more than a word to a file below the directory `below` end in ENOSPC in its middle, and
        call `then`."""
        self._half_written = below, then

    def flip(self, path: Path, offset: int, bit: int = 0) -> None:
        """Flip one bit of a file, both in the page cache and on the platter."""
        inode = self._file_at(path)
        inode.live[offset] ^= 1 << bit
        inode.dirty.add(offset // PAGE)
        inode.sync()

    def content(self, path: Path) -> bytes:
        """Return the current bytes of a file."""
        return bytes(self._file_at(path).live)

    def flushed(self, path: Path, first: int, end: int) -> bytes:
        """Return the bytes between two offsets of a file that a power cut at this moment certainly keeps. The result is
        shorter than asked for if the file or its name is not flushed."""
        here: Node | None = self._root
        for name in path.parts[1:]:
            here = here.flushed(name) if isinstance(here, Directory) else None
        return here.flushed(first, end) if isinstance(here, Inode) else b""

    def written(self, path: Path, first: int, end: int) -> bytes:
        """Return the bytes between two offsets of a file that the end of the process keeps, or fewer bytes if the file
        is shorter or missing."""
        found = self._find(path)
        return bytes(found.live[first:end]) if isinstance(found, Inode) else b""

    def has(self, path: Path) -> bool:
        """Return True if there is a file or a directory with this path. Unlike `exists`, this is no operation of the
        process."""
        return self._find(path) is not None

    def put_back(self, path: Path, content: bytes) -> None:
        """Replace the content of a file, both in the page cache and on the platter."""
        parent = self._directory(path.parent)
        inode = Inode(0)
        inode.write(0, content)
        inode.sync()
        parent.change((path.name, inode))
        parent.sync()

    def files(self) -> list[Path]:
        """Return the paths of all files."""
        return _files(Path("/"), self._root)

    def can_tear(self, directory: Path, unit: int) -> bool:
        """Return True if a power cut at this moment could keep some unsynced changes of a file in this directory
        and lose other changes of the same file."""
        nodes = self._directory(directory).names.values()
        return any(isinstance(node, Inode) and node.can_tear(unit) for node in nodes)

    def can_forget_names(self, directory: Path) -> bool:
        """Return True if this directory has an unsynced change of names, which a power cut at this moment could
        undo."""
        return self._directory(directory).has_changes

    # -- called by SimFile

    def before(self, operation: str, path: Path) -> None:
        """Let an operation fail before it begins, if a fault is planned for this kind of operation. Raises
        StoreError (EIO) for a planned fault, and Killed if the process has ended."""
        if self.dead:
            raise Killed
        if self._failing[operation] > 0:
            self._failing[operation] -= 1
            self.faults[f"{operation} EIO"] += 1
            raise _refused(errno.EIO, path)

    def take_room(self, growth: int, path: Path) -> None:
        """Reduce the free space of the disk by `growth` bytes. Raises StoreError (ENOSPC) if there are not enough
        free bytes."""
        if self.room is None or growth <= 0:
            return
        if growth > self.room:
            self.faults["ENOSPC"] += 1
            raise _refused(errno.ENOSPC, path)
        self.room -= growth

    def is_half_written(self, piece: bytes, path: Path) -> bool:
        """Return True if only a part of this write reaches the page cache, and the write fails."""
        if self._half_written is None or len(piece) <= WORD or not path.is_relative_to(self._half_written[0]):
            return False
        (_, then), self._half_written = self._half_written, None
        self.faults["half a write"] += 1
        then()
        return True

    def survives(self, piece: bytes, offset: int, path: Path) -> bytes:
        """Return the bytes of a write that reach the page cache. All bytes of the write reach the page cache,
        unless the process dies during this write."""
        if not self._writes_left or not path.is_relative_to(self._deadly):
            return piece
        self._writes_left -= 1
        if self._writes_left:
            return piece
        self.dead = True
        self.faults["killed in a write"] += 1
        if len(piece) == WORD and offset % WORD == 0:
            return b""
        return piece[: self.random.randrange(len(piece) + 1)]

    # -- the interface `store.disk.disk.Disk`

    def create(self, path: Path, size: int) -> SimFile:
        self.before("create", path)
        parent = self._directory(path.parent)
        if path.name in parent.names:
            raise _refused(errno.EEXIST, path)
        self.take_room(size, path)
        inode = Inode(size)
        parent.change((path.name, inode))
        return SimFile(self, path, inode)

    def open(self, path: Path) -> SimFile:
        self.before("open", path)
        return SimFile(self, path, self._file_at(path))

    def open_mapped(self, path: Path) -> SimFile:
        return self.open(path)  # the simulated page cache is memory already

    def exists(self, path: Path) -> bool:
        self.before("exists", path)
        return self._find(path) is not None

    def list(self, directory: Path) -> Sequence[str]:
        self.before("list", directory)
        return sorted(self._directory(directory).names)

    def make_directory(self, path: Path) -> None:
        self.before("make_directory", path)
        here = self._root
        for name in path.parts[1:]:
            if name not in here.names:
                here.change((name, Directory()))
            found = here.names[name]
            if isinstance(found, Inode):
                raise _refused(errno.EEXIST, path)
            here = found

    def rename(self, old: Path, new: Path) -> None:
        self.before("rename", old)
        inode = self._find(old)
        if inode is None:
            raise _refused(errno.ENOENT, old)
        source, target = self._directory(old.parent), self._directory(new.parent)
        if source is target:
            source.change((old.name, None), (new.name, inode))
        else:
            target.change((new.name, inode))
            source.change((old.name, None))

    def unlink(self, path: Path) -> None:
        self.before("unlink", path)
        inode = self._file_at(path)
        self._directory(path.parent).change((path.name, None))
        if self.room is not None:
            self.room += len(inode.live)

    def sync_directory(self, path: Path) -> None:
        self.before("sync_directory", path)
        self._directory(path).sync()

    def usage(self, path: Path) -> DiskUsage:
        self.before("usage", path)
        return DiskUsage(CAPACITY, CAPACITY if self.room is None else min(self.room, CAPACITY))

    def lock(self, path: Path) -> SimLock:
        self.before("lock", path)
        if path in self._locks:
            raise DirectoryInUseError(path.parent, "another user of this simulated disk")
        if self._find(path) is None:
            self.create(path, 0)
        self._locks.add(path)
        return SimLock(self._locks, path)

    def _find(self, path: Path) -> Node | None:
        here: Node | None = self._root
        for name in path.parts[1:]:
            if not isinstance(here, Directory):
                return None
            here = here.names.get(name)
        return here

    def _directory(self, path: Path) -> Directory:
        found = self._find(path)
        if not isinstance(found, Directory):
            raise _refused(errno.ENOENT if found is None else errno.ENOTDIR, path)
        return found

    def _file_at(self, path: Path) -> Inode:
        found = self._find(path)
        if not isinstance(found, Inode):
            raise _refused(errno.ENOENT if found is None else errno.EISDIR, path)
        return found


def _refused(number: int, path: Path) -> StoreError:
    error = OSError(number, os.strerror(number))
    refusal = translated(error, path)
    refusal.__cause__ = error
    return refusal


def _files(path: Path, directory: Directory) -> list[Path]:
    found = []
    for name, node in sorted(directory.names.items()):
        found += _files(path / name, node) if isinstance(node, Directory) else [path / name]
    return found


def _nothing() -> None:
    """Do nothing, as the default value of the callback `on_death`."""
