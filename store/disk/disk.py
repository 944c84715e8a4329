"""Defines the disk, the interface through which the store reaches all bytes that outlive the process.

`memory_disk.MemoryDisk` implements the same operations in memory and passes the same tests. A test can simulate the
kill of the process at any byte that a `MemoryDisk` writes. Recovery relies on the following promises of every disk:

- After the kill of a process, all earlier writes are on the disk. If a write was in progress at the kill, some first
  bytes of it are on the disk. - A write of 8 bytes at a multiple of 8 is on the disk whole or not at all, because it
  lies in one page. - After a power loss, only the bytes and names that `sync` and `sync_directory` covered are
  certain. All sectors (512 bytes or more) and names that were changed since may be in any state that they had since
  their last sync. - After a failed `sync`, each sector that the sync should have covered may be in any state since its
  last successful sync. A later successful sync does not prove that the bytes are on the disk, and neither does reading
  the bytes back.
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

from store.errors import DirectoryInUseError, NoSpaceError, StoreError, translated

Writable = bytes | memoryview

_LOCKS = Path("/proc/locks")
# With less free space than this, in bytes, a disk is full, however many inodes it has.
_SOME_SPACE = 1 << 20
# Maximum number of pieces that one system call accepts.
_MOST_PIECES = os.sysconf("SC_IOV_MAX")


class File(Protocol):
    """An open file. Every read and write of a file states its offset, because a file has no cursor."""

    @property
    def size(self) -> int: ...

    def write(self, offset: int, *pieces: Writable) -> None:
        """Write all pieces, one after another, from `offset`. The file grows if needed. If the write fails, some
        bytes of the pieces may have been written."""

    def read(self, offset: int, count: int) -> bytes:
        """Return `count` bytes from `offset`. Return fewer bytes only at the end of the file."""

    def written(self, first: int, end: int) -> Sequence[range]:
        """Return the ranges in first..end - 1, ascending, that may have been written. All bytes outside the
        returned ranges are zeros and need not be read. Call `written` before any byte of the ranges is read,
        because the result includes bytes that the kernel has read ahead."""

    def view(self) -> memoryview:
        """Return the whole file as a read-only view, which also shows later writes. The view stays valid as long as a
        reference to it exists. The file must not grow after this call."""

    def sync(self) -> None:
        """Flush. Flush the file: when the call returns, all earlier writes are on the disk. Another thread may call
        `sync`."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """The size and the free space of the disk that holds a path. `total` is the number of bytes that this process
    could use if the disk were empty. `free` is the number of bytes that this process can use now."""

    total: int
    free: int

    @property
    def ratio(self) -> float:
        """The used share of the disk, from 0 to 1."""
        return 1 - self.free / self.total if self.total else 1.0


class Lock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    """The operations on files, names and directories that the store uses. Every operation raises a `StoreError` if
    it fails."""

    def create(self, path: Path, size: int) -> File:
        """Return a new file of `size` zero bytes whose space is allocated. If the call fails, no file exists. After
        a kill during the call the file may be shorter."""

    def open(self, path: Path) -> File: ...

    def open_mapped(self, path: Path) -> File:
        """Open a file as `open` does, but copy writes into a shared mapping of the file. The file cannot grow. If
        the file has holes, their space is allocated first. If the space of the holes were not allocated first, a
        write into a hole on a full disk would end the process with a signal."""

    def exists(self, path: Path) -> bool: ...

    def list(self, directory: Path) -> Sequence[str]:
        """Return the names in a directory, files and directories alike, sorted."""

    def make_directory(self, path: Path) -> None:
        """Make a directory and its parents. An existing directory is no error."""

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file or a directory atomically. If `old` is a file, it replaces an existing file `new`. If `old`
        is a directory, the name `new` must not exist."""

    def unlink(self, path: Path) -> None: ...

    def sync_directory(self, path: Path) -> None:
        """Flush the directory. When the call returns, all earlier creations, renames and removals of names in the
        directory are on the disk."""

    def usage(self, path: Path) -> DiskUsage:
        """Return the size and the free space of the disk that holds `path`. The path must exist. Files of other
        programs count as used space."""

    def lock(self, path: Path) -> Lock:
        """Lock the file at `path`. The lock lasts until it is released or the process ends. Raise
        `DirectoryInUseError` if the file is locked already."""


class ReadOnlyDisk(Protocol):
    """The read-only part of a `Disk`: no operation changes a byte or a name, or takes a lock."""

    def open(self, path: Path) -> File: ...

    def exists(self, path: Path) -> bool: ...

    def list(self, directory: Path) -> Sequence[str]:
        """Return the names in a directory, files and directories alike, sorted."""


def replace_file(disk: Disk, path: Path, content: bytes, *, durably: bool = True) -> None:
    """Replace a small file as a whole. A kill or a power loss leaves the old content or the new content.

    With `durably=False`, nothing waits for the disk, and a power loss may leave a file with damaged content or no file.
    A kill of the process still leaves the old content or the new content.
    """
    fresh = path.with_name(path.name + ".new")
    if disk.exists(fresh):
        disk.unlink(fresh)
    file = disk.create(fresh, len(content))
    try:
        file.write(0, content)
        if durably:
            file.sync()
    finally:
        file.close()
    disk.rename(fresh, path)
    if durably:
        disk.sync_directory(path.parent)


def remove_file(disk: Disk, path: Path) -> None:
    """Remove a file. A missing file is no error: another thread may remove the same file at the same time."""
    try:
        disk.unlink(path)
    except StoreError:
        if disk.exists(path):
            raise


def sync_file(disk: Disk, path: Path) -> None:
    """Make the content of a file durable."""
    file = disk.open(path)
    try:
        file.sync()
    finally:
        file.close()


def read_file(disk: ReadOnlyDisk, path: Path) -> bytes:
    """Return all bytes of a small file."""
    file = disk.open(path)
    try:
        return file.read(0, file.size)
    finally:
        file.close()


def view_file(disk: ReadOnlyDisk, path: Path) -> memoryview:
    """Return all bytes of a file as a read-only view, without a copy. The file must not grow after this call. The
    view stays valid as long as a reference to it exists."""
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
        raise _translated(error, path) from error


def _translated(error: OSError, path: Path) -> StoreError:
    """Return the typed error for an `OSError`. The system has one error for no space and for no inode."""
    found = translated(error, path)
    return NoSpaceError(path, only_inodes=True) if error.errno == errno.ENOSPC and _lacks_inodes(path) else found


def _lacks_inodes(path: Path) -> bool:
    """Return whether the file system of `path` has free space, and no inode for a new file."""
    try:
        found = os.statvfs(path.parent)
    except OSError:
        return False
    return found.f_files > 0 == found.f_favail and found.f_bavail * found.f_frsize > _SOME_SPACE


def _exists(path: Path) -> bool:
    """Return whether the path exists. A path that cannot be looked at is an error, because callers make a missing file
    anew."""
    with _translating(path):
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
    return True


class PosixFile:
    """A file of the operating system, used by its descriptor: with pwritev, pread, fdatasync and a shared read-only
    mapping."""

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
        try:  # `_translating` would cost as much as a small write
            written = os.pwritev(self._descriptor, pieces[:_MOST_PIECES], offset)
            if written < count:
                self._write_rest(b"".join(pieces), offset, written)
        except OSError as error:
            raise _translated(error, self._path) from error
        self._size = max(self._size, end)

    def _write_rest(self, data: bytes, offset: int, written: int) -> None:
        """Write `data` at `offset`, except its first `written` bytes, which are written already."""
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
                first = os.lseek(self._descriptor, start, os.SEEK_HOLE)  # the end of the file counts as a hole
                found.append(range(start, min(first, end)))
        return found

    def _next_data(self, offset: int) -> int:
        """Return the first offset at or after `offset` that is not in a hole of the file. If only a hole follows,
        return the file's size."""
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
        # The mapping is not unmapped here: it ends with the last view that a reader still holds.
        self._view = None
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with _translating(self._path):
                os.close(descriptor)


class MappedFile(PosixFile):
    """A file whose writes are copied into a shared mapping. The pages of the mapping belong to the page cache, so
    writes survive a kill of the process, and fdatasync covers the writes."""

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
    """An flock on a file that contains the holder's process id. If another process finds the file locked, its error
    names this process id."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


# Messages and verifiers of passwords are not for every user of the machine. The group follows the umask, for backups.
FILE_MODE = 0o640
DIRECTORY_MODE = 0o750


class PosixDisk:
    """The disk interface, implemented with the operating system's files."""

    def create(self, path: Path, size: int) -> PosixFile:
        with _translating(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE)
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
        return _exists(path)

    def list(self, directory: Path) -> Sequence[str]:
        with _translating(directory):
            return sorted(os.listdir(directory))

    def make_directory(self, path: Path) -> None:
        with _translating(path):
            path.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)

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

    def usage(self, path: Path) -> DiskUsage:
        with _translating(path):
            found = os.statvfs(path)
        # As `df` counts: blocks that are reserved for root are neither used nor free.
        used = found.f_blocks - found.f_bfree
        return DiskUsage((used + found.f_bavail) * found.f_frsize, found.f_bavail * found.f_frsize)

    def lock(self, path: Path) -> PosixLock:
        with _translating(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise DirectoryInUseError(path.parent, f"process {holder}" if holder else "another process") from error
        except OSError as error:  # for example, a network file system without locks
            os.close(descriptor)
            raise _translated(error, path) from error
        try:
            with _translating(path):
                # Write first, truncate afterwards: an empty file frees its block, and a full disk might not give one.
                os.ftruncate(descriptor, os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0))
        except BaseException:
            os.close(descriptor)
            raise
        return PosixLock(descriptor)


class PosixReadOnlyDisk:
    """The read-only disk interface. `PosixReadOnlyDisk` opens all files read-only, so that even a bug in this
    program cannot write to the files."""

    def open(self, path: Path) -> PosixFile:
        with _translating(path):
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            return PosixFile(path, descriptor)

    def exists(self, path: Path) -> bool:
        return _exists(path)

    def list(self, directory: Path) -> Sequence[str]:
        with _translating(directory):
            return sorted(os.listdir(directory))

    def lock_holder(self, path: Path) -> int | None:
        """Return the id of the process that the kernel lists as the holder of the lock file at `path`. Return None
        if the file is not locked. This function does not try to take the lock, because even a short attempt could
        make a starting node fail."""
        try:
            found = path.stat()
            held = _LOCKS.read_text("ascii").splitlines()
        except OSError:
            return None
        place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        # "1: FLOCK  ADVISORY  WRITE 708 08:01:1234 0 EOF"
        return next((int(line.split()[4]) for line in held if "FLOCK" in line and line.split()[5] == place), None)
