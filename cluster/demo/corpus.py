"""Defines the corpus that the demo sends: every line of a file, of the files of a folder, or of Python's standard
library.

A corpus is a list of files, each with a key and a tag. The lines of a file are read only when they are sent, so a
corpus of any size needs little memory.
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
    """One file of a corpus. Each line is sent with the key `key`, which is the file's path within the corpus, and with
    the tag `tag`. The tag is the first folder of the file's path, or the file's name without its extension if the path
    has no folder.
    """

    path: Path
    key: bytes
    tag: str
    size: int


@dataclass(frozen=True, slots=True)
class Corpus:
    """The files of a corpus, without empty files, in the order in which they are sent."""

    name: str
    files: tuple[SourceFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive lines of one file; the number of the first line is `first_line` (counted from 1). The lines occupy
    `size` bytes of the file.
    """

    file: SourceFile
    first_line: int
    lines: list[bytes]
    size: int


def standard_library() -> Corpus:
    """Return all .py files of the standard library of the running Python as a corpus."""
    root = Path(sysconfig.get_path("stdlib"))
    paths = (path for path in root.rglob("*.py") if _INSTALLED.isdisjoint(path.parts))
    return _corpus(f"the standard library in {root}", root, paths)


def files_of(path: Path) -> Corpus:
    """Return a corpus with a single file, or with all files of a folder and its subfolders. Raises
    NothingToSendError if there is no line to send, and OSError if a file cannot be read."""
    if path.is_dir():
        return _corpus(str(path), path, path.rglob("*"))
    if not stat.S_ISREG(path.stat().st_mode):
        raise NothingToSendError(f"{path} is neither a file nor a folder: name a file or a folder")
    return _corpus(str(path), path.parent, [path])


def read_chunks(file: SourceFile, chunk_bytes: int = _READ_BYTES) -> Iterator[Chunk]:
    """Yield the lines of a file; the file is read in pieces of `chunk_bytes` bytes. The newline at the end of a line
    is not part of the line.
    """
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
        raise NothingToSendError(f"there is nothing to send: {name} contains no line")
    return Corpus(name, files)


def _source(root: Path, path: Path) -> SourceFile | None:
    status = path.stat() if path.exists() else None  # a dangling link is left out
    if status is None or not stat.S_ISREG(status.st_mode) or status.st_size == 0:
        return None
    relative = path.relative_to(root)
    top = relative.parts[0] if len(relative.parts) > 1 else relative.stem
    # A file name may contain bytes that are not UTF-8. The key keeps them; the tag is text.
    return SourceFile(path, os.fsencode(relative), os.fsencode(top).decode("utf-8", "replace"), status.st_size)
