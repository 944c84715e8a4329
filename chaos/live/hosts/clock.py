"""Sets the wall clock of one node process wrong. The library libfaketime is preloaded into the process, and shifts the
clock by the offset in a file.

libfaketime reads the file once a second, because reading it at each call would slow the process down. Only the wall
clock is shifted. The monotonic clock and the times of files stay right, so a run tests only whether the node depends
on the wall clock.
"""

from __future__ import annotations

import os
from glob import glob
from pathlib import Path

from chaos.errors import ChaosError

_LIBRARIES = "/usr/lib/*/faketime/libfaketime.so.1"


class Clock:
    """Controls the wall clock of one node. The file `file` has the offset."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def set(self, offset_s: float) -> None:
        """Write the clock's offset, in seconds, into the file."""
        partial = self._file.with_suffix(".partial")
        partial.write_text(f"{offset_s:+.3f}s\n")
        os.replace(partial, self._file)

    def variables(self, as_seen: Path | None = None) -> dict[str, str]:
        """Set the offset to 0 and return the environment variables for the node's process. `as_seen` is the path of
        the file inside the node's namespace or container.
        """
        self.set(0)
        return {
            "LD_PRELOAD": library(),
            "FAKETIME_TIMESTAMP_FILE": str(as_seen or self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }


def library() -> str:
    """Return the path of libfaketime. Raises ChaosError if the library is not installed."""
    found = glob(_LIBRARIES)
    if not found:
        raise ChaosError("libfaketime is not installed; on Debian: apt-get install libfaketime")
    return found[0]
