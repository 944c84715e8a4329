"""System calls that do less than they were asked to: short reads and writes, interruptions, partial writes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from store import WriteMode
from tests.store.appender import open_log
from tests.store.log.test_store_strace import APPENDER, STEPS, environment, holds, may_trace, told
from tests.store.sample_log import draft

pytestmark = pytest.mark.real

# Number of bytes for each call: an entry takes several calls, and its header may be split.
MOST = 1000

HALF_HEARTED = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

static size_t less(size_t count) { return count > %(most)d ? %(most)d : count; }

ssize_t pwrite64(int file, const void *data, size_t count, off64_t at) {
    static ssize_t (*whole)(int, const void *, size_t, off64_t);
    if (!whole) whole = dlsym(RTLD_NEXT, "pwrite64");
    return whole(file, data, less(count), at);
}

ssize_t pread64(int file, void *data, size_t count, off64_t at) {
    static ssize_t (*whole)(int, void *, size_t, off64_t);
    if (!whole) whole = dlsym(RTLD_NEXT, "pread64");
    return whole(file, data, less(count), at);
}
"""


@pytest.fixture(scope="module")
def half_hearted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a library that is loaded before libc and passes only a part of each request to the kernel."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc: a library that shortens real calls")
    directory = tmp_path_factory.mktemp("library")
    source, library = directory / "half_hearted.c", directory / "half_hearted.so"
    source.write_text(HALF_HEARTED % {"most": MOST})
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True, capture_output=True)
    return library


@pytest.mark.parametrize("mode", get_args(WriteMode))
def test_short_writes_and_reads_are_gone_on_with(tmp_path: Path, mode: WriteMode, half_hearted: Path) -> None:
    command = [sys.executable, "-m", APPENDER, str(tmp_path / "log"), mode, str(STEPS)]
    settings = {**environment(), "LD_PRELOAD": str(half_hearted)}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=settings)
    lines = ran.stdout.splitlines()
    assert not [line for line in lines if line.startswith("refused")]
    last = max(int(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("synced"))
    holds(tmp_path / "log", at_least=last, after_crash=False)


@pytest.mark.skipif(not may_trace(), reason="needs strace and the permission to trace: real interrupted calls")
@pytest.mark.parametrize("mode", get_args(WriteMode))
def test_interrupted_calls_are_made_again(tmp_path: Path, mode: WriteMode) -> None:
    calls = "pwrite64,fdatasync,fsync,fallocate"  # not pread64: the loader of a program does not repeat that
    lines = told(tmp_path / "log", mode, f"{calls}:error=EINTR:when=2+3")
    assert {what for what, _ in lines} == {"appended", "synced"}
    holds(tmp_path / "log", at_least=lines[-1][1], after_crash=False)


@pytest.mark.parametrize("mode", ["direct", "staged"])
def test_a_write_of_which_a_part_fits_leaves_nothing(tmp_path: Path, mode: WriteMode) -> None:
    """A file size limit lies in the middle of an entry, so the write before the refused write is short. The refused
    entry is not in the log, and a process without the limit can continue the log."""
    limit = 40_001
    limited = ["prlimit", f"--fsize={limit}:{limit}", sys.executable, "-m", APPENDER]
    log = open_log(tmp_path / "log", "direct")  # a segment that is longer than the limit
    log.append([draft(1, 50 + 977)], term=1, commit=0, now_ms=1)
    log.sync()
    log.close()
    ran = subprocess.run(
        [*limited, str(tmp_path / "log"), mode, str(STEPS)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=environment(),
    )
    lines = [(what, int(index)) for what, index in (line.rsplit(" ", 1) for line in ran.stdout.splitlines())]
    refused = [index for what, index in lines if what.startswith("refused")]
    appended = max(index for what, index in lines if what in ("appended", "synced"))
    assert refused
    assert refused[-1] == appended, "nothing of what was refused is in the log"
    log = open_log(tmp_path / "log", "direct")
    assert log.last_index == appended
    log.append([draft(appended + 1, 50 + 977 * (appended + 1) % 5000)], term=1, commit=appended, now_ms=10_000)
    log.sync()
    holds(tmp_path / "log", at_least=appended + 1, after_crash=False)
