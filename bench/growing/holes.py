"""Keeps a long log small on the disk: blocks of zeros in its sealed segments become holes.

A hole reads as zeros, so the bytes of the file stay as they were, also for a process that has mapped the file. Needs
the program `fallocate` of util-linux, and a file system with holes.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


class HoleDigger:
    """Digs holes in the sealed segments of one log. Each segment is looked at once."""

    def __init__(self, log: Path) -> None:
        """`log` is the directory of a shard's log."""
        self._log = log
        self._dug: set[str] = set()

    @staticmethod
    def trouble() -> str:
        """Return why holes cannot be dug here, or ""."""
        return "" if shutil.which("fallocate") else "the program `fallocate` (util-linux) is not installed"

    def dig(self) -> None:
        """Dig in all segments but the two newest: the one in use, and the next one, which the node prepares."""
        segments = sorted(path for path in self._log.iterdir() if path.is_file() and path.stat().st_size > 1 << 20)
        for path in segments[:-2]:
            if path.name not in self._dug:
                subprocess.run(["fallocate", "--dig-holes", str(path)], check=True, capture_output=True)
                self._dug.add(path.name)
