"""A real process appends to a real file system and is killed at random moments, again and again on the same log.

After a kill, every promised entry is there: each appended entry if writes go to the page cache, each flushed entry if
writes are staged. All entries that are there were appended, in order.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import get_args

import pytest

from store import WriteMode
from tests.store.appender import append_until_the_end, open_log
from tests.store.sample_log import draft

pytestmark = pytest.mark.real

KILLS = 25
# The kills continue until one happens while bytes are staged, which lasts a few microseconds.
MOST_KILLS = 10 * KILLS
LONGEST_S = 0.03


def live_and_die(directory: Path, mode: WriteMode, seconds: float) -> dict[str, int]:
    """Run one process until it is killed. Return the last appended index and the last flushed index."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            append_until_the_end(directory, mode, lambda what, index: _tell(writing, what, index))
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as told:
        first = told.readline()  # from here on anything may be cut short
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL, "it lived until it was killed"
        lines = [first, *told]
    return {what: int(index) for what, index in (line.rsplit(" ", 1) for line in lines if line.endswith("\n"))}


def _tell(pipe: int, what: str, index: int) -> None:
    os.write(pipe, b"%s %d\n" % (what.encode(), index))


@pytest.mark.parametrize("mode", get_args(WriteMode))
def test_what_was_promised_survives_kills(tmp_path: Path, mode: WriteMode) -> None:
    chance = random.Random(mode)
    lost = 0
    for kills in range(MOST_KILLS):
        if kills >= KILLS and (lost or mode != "staged"):
            break
        told = live_and_die(tmp_path / "log", mode, chance.uniform(0, LONGEST_S))
        log = open_log(tmp_path / "log", mode)
        promised = told["synced"] if mode == "staged" else told.get("appended", told["synced"])
        assert log.last_index >= promised
        lost += log.last_index < told.get("appended", 0)
        for index in range(1, log.last_index + 1):
            assert log.reading.body(index) == draft(index, 50 + 977 * index % 5000).body
        log.sync()
        log.close()
    assert log.last_index > KILLS, "it got on"
    assert bool(lost) == (mode == "staged"), "a kill takes what was staged, and nothing else"
