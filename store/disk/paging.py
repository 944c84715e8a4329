"""Paging: what a process can ask of the system for memory that it sees through a view, and whether that was granted.

All of it is a hint. Whatever is refused (no permission, an older kernel) costs time and no correctness,
so nothing here raises; it answers whether it was done. Each call lets other threads run meanwhile.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np

_libc = ctypes.CDLL(None, use_errno=True)
_ADVICE = {"normal": 0, "random": 1, "willneed": 3}
_POPULATE_READ, _POPULATE_WRITE = 22, 23  # Linux 5.14
# Bytes for one call, so that none holds the process's memory map for long.
_STEP = 8 << 20


def lock(view: memoryview) -> bool:
    """Keep these pages in memory until they are unmapped; reads in what is missing. Whether the system permitted it."""
    return all(_libc.mlock(ctypes.c_void_p(at), ctypes.c_size_t(count)) == 0 for at, count in _steps(view))


def touch(view: memoryview, *, to_write: bool) -> bool:
    """Have all pages there, and writable without a fault where `to_write`. Changes no byte."""
    advice = _POPULATE_WRITE if to_write else _POPULATE_READ
    return all(_madvise(at, count, advice) for at, count in _steps(view))


def advise(view: memoryview, how: str) -> bool:
    """Say how the pages will be read: normal, random, or soon (willneed). The view begins at a page."""
    return all(_madvise(at, count, _ADVICE[how]) for at, count in _steps(view))


def clear(view: memoryview) -> None:
    """Zero memory that may be written."""
    for at, count in _steps(view):
        ctypes.memset(at, 0, count)


def _madvise(at: int, count: int, advice: int) -> bool:
    return bool(_libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(count), advice) == 0)


def _steps(view: memoryview) -> Iterator[tuple[int, int]]:
    """(address, bytes) of each piece."""
    # What refers to the view keeps the memory: by the generator that lives as long as the loop over it.
    cells = np.frombuffer(view, np.uint8)
    for at in range(0, len(cells), _STEP):
        yield cells.ctypes.data + at, min(_STEP, len(cells) - at)
