"""The simulated disk: the store's door to bytes, over a page cache and a platter that a seed can make misbehave.

A process sees its own writes at once; what the next one finds depends on how this one ended. `kill()` keeps all that
was written; `power_cut()` keeps what was synced, and of the rest whatever the seed says. From then on this disk is
dead, every operation raises `Killed`, and the one that they return is the next process's.

    faults   fail(operation)     the next such operations end in EIO; a failed sync drops its data and calls it clean
             room                bytes that are left: ENOSPC behind them
             die_in_write(n, d)  the process dies in the midst of its n-th write below directory d from now
             flip, put_back      what happens to a disk that nobody uses at the moment
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

CAPACITY = 1 << 30
"""What a disk has that says of no limit."""


class SimFile:
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
        written = disk.survives(piece, offset, self._path)
        self._inode.write(offset, written)
        if written and disk.writes_back and disk.random.random() < disk.writes_back:
            self._inode.write_back(offset + disk.random.randrange(len(written)))
        if disk.dead:
            disk.on_death()  # not before the piece is there: what comes now looks at it
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
    def __init__(self, held: set[Path], path: Path) -> None:
        self._held = held
        self._path = path

    def release(self) -> None:
        self._held.discard(self._path)


class SimDisk:
    """`on_death` is called once, when a write kills the process. `writes_back`: how likely it is at each write that a
    sector of it reaches the platter by itself. `evicts`: whether pages that a failed sync dropped may be gone for the
    next process."""

    def __init__(
        self, random: Random, *, capacity: int | None = None, writes_back: float = 0.0, evicts: bool = True
    ) -> None:
        self.random = random
        self.dead = False
        self.room = capacity
        """Bytes that are left; None: no limit."""
        self.writes_back = writes_back
        self.on_death: Callable[[], None] = _nothing
        self.faults: Counter[str] = Counter()
        """Those that really happened."""
        self._evicts = evicts
        self._failing: Counter[str] = Counter()
        """How many of the next operations of a kind fail."""
        self._writes_left = 0
        """Until the one in which the process dies; 0: it does not."""
        self._deadly: Path = Path("/")
        """The directory below which writes are counted for that."""
        self._root = Directory()
        self._locks: set[Path] = set()

    # What happens to it.

    def kill(self) -> SimDisk:
        """The process is gone: everything that it wrote is there for the next one."""
        return self._next(self._root.after_kill(self.random, evicts=self._evicts))

    def power_cut(self, crash: Crash | None = None) -> SimDisk:
        """The computer is gone: what was synced is there, and of the rest what the crash says."""
        return self._next(self._root.after_power_cut(crash or Crash.drawn(self.random)))

    def _next(self, root: Directory) -> SimDisk:
        self.dead = True
        disk = SimDisk(self.random, writes_back=self.writes_back, evicts=self._evicts)
        disk._root = root
        disk.room, disk.faults = self.room, self.faults
        return disk

    def replaced(self) -> SimDisk:
        """An empty one of the same kind takes its place."""
        self.dead = True
        return SimDisk(self.random, writes_back=self.writes_back, evicts=self._evicts)

    def fail(self, operation: str, times: int = 1) -> None:
        """The next `times` operations of this kind (read, write, sync) end in EIO."""
        self._failing[operation] = times

    def heal(self) -> None:
        """No fault is due any more."""
        self._failing.clear()
        self.room, self._writes_left = None, 0

    def die_in_write(self, number: int, below: Path = Path("/")) -> None:
        """The process dies in the midst of its write of that number, below that directory, from now."""
        self._writes_left, self._deadly = number, below

    def flip(self, path: Path, offset: int, bit: int = 0) -> None:
        """Changes one bit, on the platter too."""
        inode = self._file_at(path)
        inode.live[offset] ^= 1 << bit
        inode.dirty.add(offset // PAGE)
        inode.sync()

    def content(self, path: Path) -> bytes:
        return bytes(self._file_at(path).live)

    def put_back(self, path: Path, content: bytes) -> None:
        """An old copy of the file takes its place, on the platter too."""
        parent = self._directory(path.parent)
        inode = Inode(0)
        inode.write(0, content)
        inode.sync()
        parent.change((path.name, inode))
        parent.sync()

    def files(self) -> list[Path]:
        """Of all files, their paths."""
        return _files(Path("/"), self._root)

    def can_tear(self, directory: Path, unit: int) -> bool:
        """Whether a power cut now may tear what was written to some file there."""
        nodes = self._directory(directory).names.values()
        return any(isinstance(node, Inode) and node.can_tear(unit) for node in nodes)

    def can_forget_names(self, directory: Path) -> bool:
        """Whether a power cut now may take back a name there."""
        return self._directory(directory).has_changes

    # What its files ask.

    def before(self, operation: str, path: Path) -> None:
        if self.dead:
            raise Killed
        if self._failing[operation] > 0:
            self._failing[operation] -= 1
            self.faults[f"{operation} EIO"] += 1
            raise _refused(errno.EIO, path)

    def take_room(self, growth: int, path: Path) -> None:
        if self.room is None or growth <= 0:
            return
        if growth > self.room:
            self.faults["ENOSPC"] += 1
            raise _refused(errno.ENOSPC, path)
        self.room -= growth

    def survives(self, piece: bytes, offset: int, path: Path) -> bytes:
        """How much of a write is made before the process dies in it; all of it where it lives."""
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

    # The contract of `store.disk.disk.Disk`.

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
        return self.open(path)  # its page cache is memory already

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
    """Nobody asked to be told."""
