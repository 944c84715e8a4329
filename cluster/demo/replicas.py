"""Compares the CommitLogs of nodes byte by byte.

The name of a segment file is the position of its first byte. Segment files with the same name must therefore be equal
on all nodes, up to the position that all nodes have reached. The comparison parses nothing, so no bug in a parser can
hide a difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from store.disk.numbered import name_of

_COMPARE_BYTES = 1 << 20


def difference(logs: Sequence[Path], end: int) -> str | None:
    """Compare the first `end` bytes of the logs in the directories `logs`. Return a text that names the file and
    byte of the first difference, or None if the logs are equal."""
    position = 0
    while position < end:
        files = [log / name_of(position) for log in logs]
        missing = [file for file in files if not file.exists()]
        if missing:
            return f"{missing[0]} is missing"
        size = min(file.stat().st_size for file in files)
        if size == 0:
            return f"{files[0].name} is empty"
        at = _first_difference(files, min(size, end - position))
        if at is not None:
            return f"the logs differ at position {position + at:,}: {files[0]} and its copies"
        position += size
    return None


def _first_difference(files: Sequence[Path], size: int) -> int | None:
    opened = [open(file, "rb", buffering=0) for file in files]  # noqa: SIM115 (all of them are closed below)
    try:
        for start in range(0, size, _COMPARE_BYTES):
            wanted = min(_COMPARE_BYTES, size - start)
            first, *others = [file.read(wanted) for file in opened]
            for other in others:
                if other != first:
                    return start + next(i for i, (a, b) in enumerate(zip(first, other, strict=False)) if a != b)
    finally:
        for file in opened:
            file.close()
    return None
