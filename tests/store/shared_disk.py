"""A memory disk on which another thread removes files at the worst moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from store import MemoryDisk


class SharedDisk(MemoryDisk):
    """A memory disk that runs a function once, just before the next removal of a file, as another thread would."""

    before_next_unlink: Callable[[], object] | None = None

    def before(self, operation: str, path: Path) -> None:
        super().before(operation, path)
        act = self.before_next_unlink
        if operation == "unlink" and act is not None:
            self.before_next_unlink = None
            act()
