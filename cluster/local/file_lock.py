"""A lock on a file, which one process of this machine can hold at a time.

The operating system releases the lock when its holder ends, so a killed process leaves nothing locked. The file itself
stays, empty.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of the file `path`; wait until no other process holds it. A symbolic link is refused: in a
    directory that all users can write to, a link could make us open another file. Raises OSError if the file cannot be
    opened."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
