"""A real process on a real file system whose system calls fail at a given moment (`strace -e inject`)."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from store import WriteMode
from tests.store.appender import open_log
from tests.store.sample_log import draft

STEPS = 30
ROOT = Path(__file__).resolve().parents[3]
APPENDER = "tests.store.appender"


@functools.cache
def may_trace() -> bool:
    try:
        return subprocess.run(["strace", "-qq", "-e", "none", "true"], check=False, timeout=10).returncode == 0
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False


pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not may_trace(), reason="needs strace and the permission to trace: real failing calls"),
]


def told(directory: Path, mode: WriteMode, inject: str) -> list[tuple[str, int]]:
    """Return what the process printed, each line with its last index."""
    command = [sys.executable, "-m", APPENDER, str(directory), mode, str(STEPS)]
    traced = ["strace", "-qq", "-f", "-o", "/dev/null", "-e", f"inject={inject}", *command]
    ran = subprocess.run(traced, capture_output=True, text=True, timeout=60, check=True, env=environment())
    return [(what, int(index)) for what, index in (line.rsplit(" ", 1) for line in ran.stdout.splitlines())]


def environment() -> dict[str, str]:
    return {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}


def holds(directory: Path, *, at_least: int, after_crash: bool) -> None:
    log = open_log(directory, "staged" if after_crash else "direct")
    assert log.last_index >= at_least
    for index in range(1, log.last_index + 1):
        assert log.reading.body(index) == draft(index, 50 + 977 * index % 5000).body


@pytest.mark.parametrize("mode", get_args(WriteMode))
def test_a_flush_that_fails_is_the_last_one_that_is_believed(tmp_path: Path, mode: WriteMode) -> None:
    lines = told(tmp_path / "log", mode, "fdatasync:error=EIO:when=5")
    whats = [what for what, _ in lines]
    failed = whats.index("refused DiskFailedError")
    assert "synced" in whats[:failed]
    assert set(whats[failed:]) == {"refused DiskFailedError"}, "later calls work, and are not believed"
    synced = max(index for what, index in lines if what == "synced")
    holds(tmp_path / "log", at_least=synced, after_crash=True)


def test_a_full_disk_refuses_writes_and_takes_them_again(tmp_path: Path) -> None:
    lines = told(tmp_path / "log", "direct", "pwritev2:error=ENOSPC:when=21")
    refused = [place for place, (what, _) in enumerate(lines) if what == "refused NoSpaceError"]
    assert len(refused) == 1
    (place,) = refused
    last = max(index for what, index in lines[:place] if what == "appended")
    assert lines[place][1] == last, "nothing of it is in the log"
    assert lines[-1][1] > last, "and service went on"
    holds(tmp_path / "log", at_least=lines[-1][1], after_crash=False)


def test_staged_bytes_that_cannot_be_written_out_end_the_service(tmp_path: Path) -> None:
    lines = told(tmp_path / "log", "staged", "pwritev2:error=EIO:when=3+")
    whats = [what for what, _ in lines]
    failed = whats.index("refused DiskFailedError")
    assert set(whats[failed:]) == {"refused DiskFailedError"}
    synced = max(index for what, index in lines if what == "synced")
    holds(tmp_path / "log", at_least=synced, after_crash=True)
