"""A target in a directory, for example on a mounted network disk."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ledger.backup.errors import BackupError, TargetBusyError
from ledger.backup.targets.target import StoredObject

_LOCK = "lock"
# The end of the name of a file that is not complete.
_FRESH = ".new"


class DirectoryTarget:
    def __init__(self, path: Path) -> None:
        """The directory is made when the first object is stored."""
        self._path = path

    @property
    def title(self) -> str:
        return str(self._path)

    def put(self, name: str, content: bytes) -> None:
        path = self._path / name
        fresh = path.with_name(path.name + _FRESH)
        with self._telling(name):
            self._make(path.parent)
            with open(fresh, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                # The page cache of this machine is for the nodes.
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            fresh.replace(path)
            _sync(path.parent)

    def get(self, name: str) -> bytes | None:
        with self._telling(name):
            try:
                return (self._path / name).read_bytes()
            except FileNotFoundError:
                return None
        raise AssertionError

    def list(self, prefix: str = "") -> list[StoredObject]:
        found = []
        with self._telling(prefix):
            for directory, _, files in os.walk(self._path):
                for file in files:
                    path = Path(directory, file)
                    name = path.relative_to(self._path).as_posix()
                    if name.startswith(prefix) and not name.endswith(_FRESH) and name != _LOCK:
                        found.append(StoredObject(name, path.stat().st_size))
        return sorted(found)

    def delete(self, name: str) -> None:
        with self._telling(name):
            (self._path / name).unlink(missing_ok=True)

    @contextmanager
    def lock(self) -> Iterator[None]:
        with self._telling(_LOCK):
            self._make(self._path)
            descriptor = os.open(self._path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise TargetBusyError(
                    f"another process changes the backups in {self._path}: wait until it has ended"
                ) from error
            yield
        finally:
            os.close(descriptor)

    def _make(self, directory: Path) -> None:
        """Make a directory durably, readable for its owner only, because it gets all messages."""
        if directory.is_dir():
            return
        self._make(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
        _sync(directory.parent)

    @contextmanager
    def _telling(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            place = self._path / name if name else self._path
            raise BackupError(f"{place}: {error.strerror or error}") from error


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
