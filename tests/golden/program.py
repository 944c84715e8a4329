"""The program of an earlier commit, unpacked from git into a directory of its own, and run by this interpreter."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
LEVELS = "ledger/state/feature_levels.py"
# The packages of the program, and the texts that it reads at run time.
_PARTS = ("ledgermq", "ledger", "cluster", "raft", "store", "chaos")
_LATEST = re.compile(r"^LATEST_LEVEL = (\d+)$", re.MULTILINE)


class NoHistoryError(Exception):
    """The commit is not here: this is no clone, or a clone without its whole history."""


def before_the_last_level() -> str:
    """Return the newest commit whose program knows one feature level less than the present program. Raises
    NoHistoryError."""
    changed = _git("log", "-G", "^LATEST_LEVEL = ", "-n", "1", "--format=%H", "--", LEVELS).strip()
    if not changed:
        raise NoHistoryError(f"no commit here changes the level in {LEVELS}")
    return _git("rev-parse", "--verify", f"{changed}~1").strip()


def unpack(commit: str, directory: Path) -> Program:
    """Unpack the program of the commit into the directory. Raises NoHistoryError."""
    directory.mkdir(parents=True)
    archive = directory.with_suffix(".tar")
    _git("archive", "--output", str(archive), commit, *_PARTS)
    with tarfile.open(archive) as packed:
        packed.extractall(directory, filter="data")
    archive.unlink()
    return Program(directory)


class Program:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def latest_level(self) -> int:
        """The highest feature level that this program knows; 0 for a program before feature levels."""
        levels = self.directory / LEVELS
        found = _LATEST.search(levels.read_text()) if levels.exists() else None
        return int(found[1]) if found else 0

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | int | None = None
    ) -> subprocess.Popen[bytes]:
        """Run this interpreter with the arguments, where imports find this program. Return the process."""
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("LEDGERMQ_")}
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.directory,
            env={**inherited, **environment, "PYTHONPATH": str(self.directory)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output is not None else None,
        )


def _git(*arguments: str) -> str:
    try:
        return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        told = getattr(error, "stderr", "") or str(error)
        raise NoHistoryError(f"git {arguments[0]}: {told.strip()}") from error
