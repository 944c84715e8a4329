"""Allocator settings of the C library for ledgermq's own programs: the process keeps the memory of large buffers and
uses it again.

By default, glibc maps the memory of each large buffer at its allocation and unmaps the memory when the buffer is
freed. With glibc's default, each copy of a 1 MiB message causes 256 page faults, which cost several times as much as
the copying itself. With the settings of this module, glibc takes large buffers from its heap, and keeps up to 64 MiB
of free memory for later buffers.

The settings apply to the whole process, so a library must not call `keep_large_buffers`. A program that embeds a
client gets the same settings if its user sets the variables in ENVIRONMENT before the program starts.
"""

from __future__ import annotations

import ctypes

# From <malloc.h>.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3

# Buffers from this size on are still mapped separately. It is the largest value that glibc accepts.
_LARGEST_BYTES = 32 << 20
# Free memory beyond this size goes back to the system.
_KEPT_BYTES = 64 << 20
# The same settings as environment variables, for a process that is started later.
ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": str(_LARGEST_BYTES), "MALLOC_TRIM_THRESHOLD_": str(_KEPT_BYTES)}


def keep_large_buffers() -> None:
    """Apply the allocator settings to this process. If the C library has no such settings (musl), the call changes
    nothing."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
