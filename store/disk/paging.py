"""Paging: requests to the kernel about memory behind a view, and whether the kernel granted them.

Every request is a hint. A refused request (no permission, an older kernel) costs time, and the program stays correct.
So these functions raise no error; they return whether the request was granted. Each call lets other threads run
meanwhile.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np

_libc = ctypes.CDLL(None, use_errno=True)
_ADVICE = {"normal": 0, "random": 1, "willneed": 3}
_POPULATE_READ, _POPULATE_WRITE = 22, 23  # Linux 5.14
# Bytes for one call, so that no call holds the process's memory map for long.
_STEP = 8 << 20


def lock(view: memoryview) -> bool:
    """Lock these pages in memory until they are unmapped, and read in the missing pages. Return whether the kernel
    permitted it."""
    return all(_libc.mlock(ctypes.c_void_p(at), ctypes.c_size_t(count)) == 0 for at, count in _steps(view))


def touch(view: memoryview, *, to_write: bool) -> bool:
    """Make all pages present, and also writable without a page fault if `to_write`. This changes no byte. Return
    whether the kernel did it."""
    advice = _POPULATE_WRITE if to_write else _POPULATE_READ
    return all(_madvise(at, count, advice) for at, count in _steps(view))


def advise(view: memoryview, how: str) -> bool:
    """Tell the kernel how the pages will be read: normal, random, or soon (willneed). The view must begin at a page.
    Return whether the kernel accepted it."""
    return all(_madvise(at, count, _ADVICE[how]) for at, count in _steps(view))


def clear(view: memoryview) -> None:
    """Write zeros over writable memory."""
    for at, count in _steps(view):
        ctypes.memset(at, 0, count)


def _madvise(at: int, count: int, advice: int) -> bool:
    return bool(_libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(count), advice) == 0)


def _steps(view: memoryview) -> Iterator[tuple[int, int]]:
    """Yield (address, number of bytes) of each piece."""
    # The array refers to the view, so the memory stays while the generator lives, which is as long as the loop over it.
    cells = np.frombuffer(view, np.uint8)
    for at in range(0, len(cells), _STEP):
        yield cells.ctypes.data + at, min(_STEP, len(cells) - at)
