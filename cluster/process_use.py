"""Reads the processor time, the sleeps and the private memory of a process on this machine, as Linux counts them.

Private memory does not include mapped files, because their pages belong to the page cache. The functions of this
module raise OSError if there is no such process.
"""

from __future__ import annotations

import os
from pathlib import Path

# A process id, "self", or None (the pid of a node that does not run), for which the functions raise OSError.
Pid = int | str | None


def cpu_s(pid: Pid) -> float:
    """Return the processor time in seconds that the process has used in user mode and in system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def sleeps(pid: int) -> int:
    """Return how often the main thread of the process has gone to sleep: of a node or an asyncio client, the turns of
    its event loop after which it had nothing to do."""
    return _status(f"/proc/{pid}/task/{pid}", "voluntary_ctxt_switches")


def private_bytes(pid: Pid = "self") -> int:
    """Return the anonymous resident memory of the process in bytes (RssAnon)."""
    return _status(f"/proc/{pid}", "RssAnon") * 1024


def _status(directory: str, field: str) -> int:
    """Return a number of the file `status` of a process or thread."""
    for line in Path(directory, "status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    return 0  # the process has ended and is a zombie
