"""Settings of the C library's allocator for our own programs: memory of large buffers is kept and used again.

By default glibc maps each large buffer when it is allocated and unmaps it when it is freed. A message of 1 MiB then
pays for 256 page faults at each of its copies, which costs several times as much as the copying. With these settings
glibc takes large buffers from its heap and keeps up to 64 MiB of free memory for the next ones.

The settings count for the whole process, so a library must not call `keep_large_buffers`. A user who embeds a client
may set the variables in ENVIRONMENT before the program starts.
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
    """Apply the settings to this process. Nothing changes if the C library has no such settings (musl)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
