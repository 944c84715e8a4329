"""Finds the executors of Spark among the processes of this machine."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_CLASS = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


@dataclass(frozen=True, slots=True)
class Executor:
    pid: int
    host: str
    # Whether it has started Python workers, which it does in its first task.
    has_workers: bool


def executors(application: str | None = None) -> list[Executor]:
    """Return the executors of an application, or of all applications."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        command = _read(path)
        words = command.split("\0")
        if _CLASS not in words or words[0].endswith("sh") or _is_forked(path.parent, command):
            continue
        if application is None or words[words.index("--app-id") + 1] == application:
            pid = int(path.parent.name)
            # Java starts Python in any of its threads.
            has_workers = any(_read(each) for each in path.parent.glob("task/*/children"))
            found.append(Executor(pid, words[words.index("--hostname") + 1], has_workers))
    return found


def until(holds: Callable[[], bool], what: str, seconds: float) -> None:
    """Wait until `holds()`. Raises AssertionError after some seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _is_forked(process: Path, command: str) -> bool:
    """Return whether this is a child of an executor that is about to become another program. Until then, it has the
    command line of the executor."""
    parent = re.search(r"^PPid:\s*(\d+)$", _read(process / "status"), re.MULTILINE)
    return parent is not None and _read(Path("/proc", parent[1], "cmdline")) == command
