"""The wall clock of one node process: libfaketime, preloaded, shifts it by what stands in a file.

The file is read once a second: to read it each time would slow the process down. The monotonic clock, files' times and
everything else stay as they are: what is to be shown is that nothing depends on the wall clock that must not.
"""

from __future__ import annotations

import os
from glob import glob
from pathlib import Path

from chaos.errors import ChaosError

_LIBRARIES = "/usr/lib/*/faketime/libfaketime.so.1"


class Clock:
    """`file` says by how many seconds the clock is wrong."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def set(self, offset_s: float) -> None:
        partial = self._file.with_suffix(".partial")
        partial.write_text(f"{offset_s:+.3f}s\n")
        os.replace(partial, self._file)

    def variables(self, as_seen: Path | None = None) -> dict[str, str]:
        """Of the process whose clock it is, which sees the file there; the clock is right at first."""
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
    """Where libfaketime is; raises ChaosError where it is not installed."""
    found = glob(_LIBRARIES)
    if not found:
        raise ChaosError("libfaketime is not installed; on Debian: apt-get install libfaketime")
    return found[0]
