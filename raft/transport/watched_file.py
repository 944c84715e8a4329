"""A file of secrets that is read again when it changes, as during a rotation."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from raft.transport.rare_log import RareLog

Content = TypeVar("Content")


class WatchedFile(Generic[Content]):
    """What `read(path)` returns, always for the file as it is now. A file that became unusable changes nothing."""

    def __init__(
        self, path: Path, read: Callable[[Path], Content], unusable: type[Exception], log: logging.Logger, kept: str
    ) -> None:
        """`read` raises `unusable` if the file cannot be used: then this method raises it too, and later `kept` is
        logged with the error."""
        self._path = path
        self._read = read
        self._unusable = unusable
        self._kept = kept
        self._log = RareLog(log)
        self._content = read(path)
        self._version = self._file_version()

    @property
    def current(self) -> Content:
        version = self._file_version()
        if version != self._version:
            try:
                self._content, self._version = self._read(self._path), version
            except self._unusable as error:
                self._log.error("%s: %s", self._kept, error)
        return self._content

    def _file_version(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino
