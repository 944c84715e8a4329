"""The C library's allocator in our own programs: the memory of large messages is kept for the next ones.

Glibc maps large buffers each by itself and unmaps them when they are freed, so a message of 1 MiB pays for 256 page
faults at each of its copies, which cost several times as much as copying. Told not to, it takes them from memory that
is there, and keeps as much of that as some large messages need.

It must not be called in programs that are not ours: it holds for the whole process. Those who embed a client may set
ENVIRONMENT before they start theirs.
"""

from __future__ import annotations

import ctypes

# From <malloc.h>.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3

_LARGEST_BYTES = 32 << 20
"""The most that glibc takes here; twice what any message has."""
_KEPT_BYTES = 64 << 20
"""Free memory beyond that goes back to the system."""
ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": str(_LARGEST_BYTES), "MALLOC_TRIM_THRESHOLD_": str(_KEPT_BYTES)}
"""The same settings for a process that is to be started."""


def keep_large_buffers() -> None:
    """Where the C library has no such settings (musl), nothing changes."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
