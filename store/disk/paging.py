"""Paging: asks the kernel to lock, load or read ahead the memory of a view.

Every request of this module is only a hint to the kernel. If the kernel refuses a request (no permission, an older
kernel), the program is slower and stays correct. For this reason, the functions of this module raise no error if the
kernel refuses a request. `lock`, `touch` and `advise` return True if the kernel granted the request. Each call
releases Python's GIL, so other threads can run.
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
    """Load the pages of the view, and lock them in memory until they are unmapped. Return True if the kernel locked
    all pages."""
    return all(_libc.mlock(ctypes.c_void_p(at), ctypes.c_size_t(count)) == 0 for at, count in _steps(view))


def touch(view: memoryview, *, to_write: bool) -> bool:
    """Load all pages of the view. If `to_write` is true, also make the pages writable, so that a later write causes
    no page fault. This function changes no byte. Return True if the kernel loaded all pages."""
    advice = _POPULATE_WRITE if to_write else _POPULATE_READ
    return all(_madvise(at, count, advice) for at, count in _steps(view))


def advise(view: memoryview, how: str) -> bool:
    """Tell the kernel how the pages of the view will be read: "normal", "random", or "willneed", which means soon.
    The view must begin at the first byte of a page. Return True if the kernel accepted the advice."""
    return all(_madvise(at, count, _ADVICE[how]) for at, count in _steps(view))


def clear(view: memoryview) -> None:
    """Write zeros over writable memory."""
    for at, count in _steps(view):
        ctypes.memset(at, 0, count)


def _madvise(at: int, count: int, advice: int) -> bool:
    return bool(_libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(count), advice) == 0)


def _steps(view: memoryview) -> Iterator[tuple[int, int]]:
    """Split the view into pieces, and yield the address and the number of bytes of each piece."""
    # The array refers to the view, so the memory stays while the generator lives, which is as long as the loop over it.
    cells = np.frombuffer(view, np.uint8)
    for at in range(0, len(cells), _STEP):
        yield cells.ctypes.data + at, min(_STEP, len(cells) - at)
