"""What the demo sends: every line of a file, of a folder's files, or of the standard library of the running Python.

A corpus is a list of files with keys and tags; lines are read when they are sent, so its size does not matter.
"""

from __future__ import annotations

import os
import stat
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cluster.demo.failure import NothingToSendError
from cluster.load.line_splitter import LineSplitter

_READ_BYTES = 1 << 20
_INSTALLED = {"site-packages", "dist-packages"}


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file: its lines travel under `key` (its path within the corpus) with `tag` (the top level of that path)."""

    path: Path
    key: bytes
    tag: str
    size: int


@dataclass(frozen=True, slots=True)
class Corpus:
    """Files in the order they are sent, none of them empty."""

    name: str
    files: tuple[SourceFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive lines of one file from `first_line` (counted from 1) on, which took `size` bytes of it."""

    file: SourceFile
    first_line: int
    lines: list[bytes]
    size: int


def standard_library() -> Corpus:
    """Every .py file of the running Python's standard library."""
    root = Path(sysconfig.get_path("stdlib"))
    paths = (path for path in root.rglob("*.py") if _INSTALLED.isdisjoint(path.parts))
    return _corpus(f"the standard library in {root}", root, paths)


def files_of(path: Path) -> Corpus:
    """A file, or every file of a folder and the folders in it. Raises NothingToSendError, or OSError."""
    if path.is_dir():
        return _corpus(str(path), path, path.rglob("*"))
    if not stat.S_ISREG(path.stat().st_mode):
        raise NothingToSendError(f"{path} is neither a file nor a folder: name one")
    return _corpus(str(path), path.parent, [path])


def read_chunks(file: SourceFile, chunk_bytes: int = _READ_BYTES) -> Iterator[Chunk]:
    """The lines of a file, read `chunk_bytes` at a time. Lines end with a newline, which is no part of them."""
    splitter = LineSplitter()
    number, size = 1, 0
    with open(file.path, "rb", buffering=0) as source:
        while data := source.read(chunk_bytes):
            size += len(data)
            lines = splitter.feed(data)
            if lines:
                yield Chunk(file, number, lines, size)
                number, size = number + len(lines), 0
        if lines := splitter.finish():
            yield Chunk(file, number, lines, size)


def _corpus(name: str, root: Path, paths: Iterator[Path] | list[Path]) -> Corpus:
    files = tuple(file for path in sorted(paths) if (file := _source(root, path)) is not None)
    if not files:
        raise NothingToSendError(f"there is nothing to send: {name} holds no line")
    return Corpus(name, files)


def _source(root: Path, path: Path) -> SourceFile | None:
    status = path.stat() if path.exists() else None  # a dangling link is nothing
    if status is None or not stat.S_ISREG(status.st_mode) or status.st_size == 0:
        return None
    relative = path.relative_to(root)
    top = relative.parts[0] if len(relative.parts) > 1 else relative.stem
    # A file name may hold bytes that are no UTF-8: the key keeps them, the tag is text.
    return SourceFile(path, os.fsencode(relative), os.fsencode(top).decode("utf-8", "replace"), status.st_size)
