"""One at a time: whoever holds the lock of a file, in whichever process of this machine.

The operating system lets go when the holder dies, so nothing is ever left locked; the file itself stays, and says
nothing.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Waits until nobody else holds it. A link is not followed, so in a directory that all may write to nobody can
    choose what is opened. Raises OSError where the file cannot be opened."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
