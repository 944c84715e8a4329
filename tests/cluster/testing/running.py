"""Whether processes run."""

from __future__ import annotations

from pathlib import Path


def runs(pid: int) -> bool:
    """Return True if the process exists and has not ended. A process that nobody has waited for yet has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it has ended before the file was opened, or since
        return False
