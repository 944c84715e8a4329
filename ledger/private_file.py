"""Writes files that only their owner can read."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600. A reader sees the old content or the new content, and never a part."""
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(partial, path)


def make_private(path: Path, content: bytes) -> None:
    """Write a new file of mode 0600. Raises FileExistsError, and other kinds of OSError; then there is no new file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except OSError:
        path.unlink(missing_ok=True)
        raise
