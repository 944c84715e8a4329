"""The disk: the only door through which the store reaches bytes that outlive the process.

Some dozen operations are all that a log needs, and each has an in-memory twin (`memory_disk.MemoryDisk`) that
passes the same tests and can be killed at any byte. What is promised here is what recovery may rely on:

- after a process kill, everything written before it is there, and a write in progress is there up to some byte;
- a write of 8 bytes at a multiple of 8 is there whole or not at all (it lies in one page);
- after a power loss, only what `sync` and `sync_directory` covered is there for certain. Of the rest each sector (512
  bytes or more) is there as it was at some moment since, and so is each name;
- after a failed `sync`, that holds for what it should have covered, whatever later ones say and reading shows.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from store.errors import DirectoryInUseError, translated

Writable = bytes | memoryview

_LOCKS = Path("/proc/locks")
# That one system call takes.
_MOST_PIECES = os.sysconf("SC_IOV_MAX")


class File(Protocol):
    """An open file. Written and read at explicit offsets; has no cursor."""

    @property
    def size(self) -> int: ...

    def write(self, offset: int, *pieces: Writable) -> None:
        """Write all pieces, one behind the other, from `offset` on, growing the file where needed. On an error any
        part of them may be there."""

    def read(self, offset: int, count: int) -> bytes:
        """Up to `count` bytes from `offset`; fewer only at the end of the file."""

    def written(self, first: int, end: int) -> Sequence[range]:
        """The places in first..end - 1, in order, that may have been written. All else there is zeros, and need not be
        read. To be asked before anything there is read: what was read ahead counts as written."""

    def view(self) -> memoryview:
        """The whole file, read-only, showing later writes too. Valid while anyone holds it. The file must not grow
        any more."""

    def sync(self) -> None:
        """Everything written before is on the disk when this returns. May be called from another thread."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Usage:
    """Of the disk that holds a path: `total` bytes that this process could have on it if it were empty, `free` of them
    to be had now."""

    total: int
    free: int

    @property
    def ratio(self) -> float:
        """How much of it is used: 0 to 1."""
        return 1 - self.free / self.total if self.total else 1.0


class Lock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    """Files, their names and directories. All failures are `StoreError`s."""

    def create(self, path: Path, size: int) -> File:
        """A new file of `size` zero bytes whose space is allocated. A failure leaves no file; a kill may leave a
        shorter one."""

    def open(self, path: Path) -> File: ...

    def open_mapped(self, path: Path) -> File:
        """As `open`, but what is written is copied into a shared mapping of the file, which does not grow. A file that
        has holes gets its space first: a page that the disk has no room for would end the process."""

    def exists(self, path: Path) -> bool: ...

    def list(self, directory: Path) -> Sequence[str]:
        """Names in a directory, files and directories alike, sorted."""

    def make_directory(self, path: Path) -> None:
        """With its parents; no error when it exists."""

    def rename(self, old: Path, new: Path) -> None:
        """Atomic. A file that was at `new` is replaced. A directory is renamed with everything in it, to a new name."""

    def unlink(self, path: Path) -> None: ...

    def sync_directory(self, path: Path) -> None:
        """Names created, renamed and removed in it before are on the disk when this returns."""

    def usage(self, path: Path) -> Usage:
        """How full the disk is that holds `path`, which exists, whoever fills it."""

    def lock(self, path: Path) -> Lock:
        """Held until released or the process ends. Raises `DirectoryInUseError` when held by anyone else."""


class ReadOnlyDisk(Protocol):
    """What is left of a `Disk` for those who only look: nothing here changes a byte or a name, or takes a lock."""

    def open(self, path: Path) -> File: ...

    def exists(self, path: Path) -> bool: ...

    def list(self, directory: Path) -> Sequence[str]:
        """Names in a directory, files and directories alike, sorted."""


def replace_file(disk: Disk, path: Path, content: bytes) -> None:
    """Put a whole small file in the place of what was there: a kill or power loss leaves the old or the new one."""
    fresh = path.with_name(path.name + ".new")
    if disk.exists(fresh):
        disk.unlink(fresh)
    file = disk.create(fresh, len(content))
    try:
        file.write(0, content)
        file.sync()
    finally:
        file.close()
    disk.rename(fresh, path)
    disk.sync_directory(path.parent)


def read_file(disk: ReadOnlyDisk, path: Path) -> bytes:
    """All of a small file."""
    file = disk.open(path)
    try:
        return file.read(0, file.size)
    finally:
        file.close()


def view_file(disk: ReadOnlyDisk, path: Path) -> memoryview:
    """All of a file that does not grow any more, read-only and not copied; valid while anyone holds it."""
    file = disk.open(path)
    try:
        return file.view()
    finally:
        file.close()


@contextmanager
def _translating(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise translated(error, path) from error


class PosixFile:
    """A file by its descriptor: pwritev, pread, a shared read-only mapping, fdatasync."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self._view: memoryview | None = None

    @property
    def size(self) -> int:
        return self._size

    def write(self, offset: int, *pieces: Writable) -> None:
        count = sum(map(len, pieces))
        end = offset + count
        assert self._view is None or end <= self._size, "a file that is mapped does not grow"
        try:  # and not `_translating`, which costs as much as a small write
            written = os.pwritev(self._descriptor, pieces[:_MOST_PIECES], offset)
            if written < count:
                self._write_rest(b"".join(pieces), offset, written)
        except OSError as error:
            raise translated(error, self._path) from error
        self._size = max(self._size, end)

    def _write_rest(self, data: bytes, offset: int, written: int) -> None:
        """All of `data` is to stand at `offset`; the first bytes do already."""
        rest = memoryview(data)
        while written < len(data):
            written += os.pwrite(self._descriptor, rest[written:], offset + written)

    def read(self, offset: int, count: int) -> bytes:
        pieces = []
        with _translating(self._path):
            while count > 0 and (piece := os.pread(self._descriptor, count, offset)):
                pieces.append(piece)
                offset += len(piece)
                count -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def written(self, first: int, end: int) -> Sequence[range]:
        found = []
        with _translating(self._path):
            while (start := self._next_data(first)) < end:
                first = os.lseek(self._descriptor, start, os.SEEK_HOLE)  # the end of the file is one
                found.append(range(start, min(first, end)))
        return found

    def _next_data(self, offset: int) -> int:
        """The size where there is none."""
        try:
            return os.lseek(self._descriptor, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return self._size
            raise

    def view(self) -> memoryview:
        if self._view is None:
            with _translating(self._path):
                self._view = memoryview(
                    mmap.mmap(self._descriptor, self._size, prot=mmap.PROT_READ) if self._size else b""
                )
        return self._view

    def sync(self) -> None:
        with _translating(self._path):
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        # The mapping is only let go: it is undone with the last view that a reader still holds.
        self._view = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class MappedFile(PosixFile):
    """A file that is written by copying into a shared mapping of it. Its pages are the page cache's, so what was
    written is there after a kill, and fdatasync covers it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        super().__init__(path, descriptor)
        with _translating(path):
            os.posix_fallocate(descriptor, 0, self._size)
            self._mapping = memoryview(mmap.mmap(descriptor, self._size))

    def write(self, offset: int, *pieces: Writable) -> None:
        for piece in pieces:
            # A copy of one aligned word is one store: it is there whole or not at all.
            self._mapping[offset : offset + len(piece)] = piece
            offset += len(piece)

    def view(self) -> memoryview:
        return self._mapping.toreadonly()

    def close(self) -> None:
        self._mapping = memoryview(b"")
        super().close()


class PosixLock:
    """An flock on a file that carries the holder's process id, for the message to whoever comes second."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class PosixDisk:
    """The operating system's files."""

    def create(self, path: Path, size: int) -> PosixFile:
        with _translating(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
            try:
                if size:
                    os.posix_fallocate(descriptor, 0, size)
                return PosixFile(path, descriptor)
            except OSError:
                os.close(descriptor)
                os.unlink(path)
                raise

    def open(self, path: Path) -> PosixFile:
        with _translating(path):
            return PosixFile(path, os.open(path, os.O_RDWR))

    def open_mapped(self, path: Path) -> MappedFile:
        with _translating(path):
            descriptor = os.open(path, os.O_RDWR)
        try:
            return MappedFile(path, descriptor)
        except BaseException:
            os.close(descriptor)
            raise

    def exists(self, path: Path) -> bool:
        return path.exists()

    def list(self, directory: Path) -> Sequence[str]:
        with _translating(directory):
            return sorted(os.listdir(directory))

    def make_directory(self, path: Path) -> None:
        with _translating(path):
            path.mkdir(parents=True, exist_ok=True)

    def rename(self, old: Path, new: Path) -> None:
        with _translating(old):
            os.rename(old, new)

    def unlink(self, path: Path) -> None:
        with _translating(path):
            os.unlink(path)

    def sync_directory(self, path: Path) -> None:
        with _translating(path):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def usage(self, path: Path) -> Usage:
        with _translating(path):
            found = os.statvfs(path)
        # As `df` has it: what is kept back for root is neither used nor free.
        used = found.f_blocks - found.f_bfree
        return Usage((used + found.f_bavail) * found.f_frsize, found.f_bavail * found.f_frsize)

    def lock(self, path: Path) -> PosixLock:
        with _translating(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise DirectoryInUseError(path.parent, f"process {holder}" if holder else "another process") from error
        try:
            with _translating(path):
                # First written, then cut: a full disk would not give back the block that an empty file lets go.
                os.ftruncate(descriptor, os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0))
        except BaseException:
            os.close(descriptor)
            raise
        return PosixLock(descriptor)


class PosixReadOnlyDisk:
    """The operating system's files, opened so that not even a fault of ours could write to them."""

    def open(self, path: Path) -> PosixFile:
        with _translating(path):
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            return PosixFile(path, descriptor)

    def exists(self, path: Path) -> bool:
        return path.exists()

    def list(self, directory: Path) -> Sequence[str]:
        with _translating(directory):
            return sorted(os.listdir(directory))

    def lock_holder(self, path: Path) -> int | None:
        """The process that holds the lock file at `path`, as the kernel lists it; None where none does. The lock is
        not touched: to try it, even for a moment, could refuse a node that starts just then."""
        try:
            found = path.stat()
            held = _LOCKS.read_text("ascii").splitlines()
        except OSError:
            return None
        place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        # "1: FLOCK  ADVISORY  WRITE 708 08:01:1234 0 EOF"
        return next((int(line.split()[4]) for line in held if "FLOCK" in line and line.split()[5] == place), None)
