"""Whether the nodes' CommitLogs are the same bytes.

A segment file is named by the position of its first byte, so files of the same name must be the same, byte for byte,
up to the position that all nodes have reached. Nothing is parsed: no bug of ours can hide in how it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from store.disk.numbered import name_of

_COMPARE_BYTES = 1 << 20


def difference(logs: Sequence[Path], end: int) -> str | None:
    """Where the logs in these directories differ in their first `end` bytes; None when they do not."""
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
    opened = [open(file, "rb", buffering=0) for file in files]  # noqa: SIM115 (closed below, all of them)
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
