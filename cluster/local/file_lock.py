"""A lock on a file; only one process of this machine can hold the lock at a time.

The operating system releases the lock when the process that holds it ends, so a killed process leaves no lock. The
lock file itself is not removed and stays empty.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait until no other process holds the lock of the file `path`, and hold the lock while the body of the `with`
    block runs. A path that is a symbolic link is refused. Otherwise another user could put such a link into a
    directory that all users can write to, and the lock would open the file to which the link leads. Raises OSError
    if the file cannot be opened."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
