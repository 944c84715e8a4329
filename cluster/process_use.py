"""What a process on this machine has taken of it so far, as Linux counts it: processor's time, and memory of its own.

Memory is without the files that it has mapped: those are the page cache's. OSError where there is no such process.
"""

from __future__ import annotations

import os
from pathlib import Path

Pid = int | str | None
"""Or "self"; None, as a node that does not run has it, is no process."""


def cpu_s(pid: Pid) -> float:
    """Seconds in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def private_bytes(pid: Pid = "self") -> int:
    """RssAnon."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0  # it has ended, and its parent has not asked yet
