"""A disk in memory that records which operations the thread of the event loop makes."""

from __future__ import annotations

import threading
from pathlib import Path

from store import MemoryDisk


class WatchedDisk(MemoryDisk):
    """A `MemoryDisk` whose creator is the thread of the event loop."""

    def __init__(self) -> None:
        super().__init__()
        self._loop_thread = threading.get_ident()
        # The names and paths of the operations that the event loop made. Tests clear the list.
        self.in_the_loop: list[tuple[str, Path]] = []
        # While it is not set, other threads wait before they open a file.
        self.gate = threading.Event()
        self.gate.set()
        # Set when another thread opens a file.
        self.is_opening = threading.Event()

    @classmethod
    def of(cls, disk: MemoryDisk) -> WatchedDisk:
        """Return a disk with the same bytes and names."""
        watched = cls()
        watched._files = {path: bytearray(content) for path, content in disk._files.items()}
        watched._directories = set(disk._directories)
        return watched

    def before(self, operation: str, path: Path) -> None:
        if threading.get_ident() == self._loop_thread:
            self.in_the_loop.append((operation, path))
        elif operation == "open":
            self.is_opening.set()
            assert self.gate.wait(30)
        super().before(operation, path)
