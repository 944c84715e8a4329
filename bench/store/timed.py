"""Measures the timed index alone: memory, puts, a restart, and turns, with messages that wait over an hour.

    .venv/bin/python -m bench.store.timed [--messages 1000000] [--directory PATH]

The messages have random delivery times within one hour, and come in batches. `memory` is the growth of the anonymous
memory of the process (RssAnon), which leaves out the page cache. A restart adopts the files of a checkpoint. A turn
reads the next due messages of a leader, and moves the cursor.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from pathlib import Path

import numpy as np

from store import PosixDisk, TimedIndex, TimedIndexCursor, TimedKey

HOUR_MS = 3_600_000
BATCH_MESSAGES = 500
TURN_MESSAGES = 4_096
START_MS = 1_800_000_000_000


def anonymous_mb() -> float:
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1000


def put_all(index: TimedIndex, messages: int) -> None:
    chance = np.random.default_rng(1)
    places = np.arange(BATCH_MESSAGES, dtype=np.uint32)
    for first in range(0, messages, BATCH_MESSAGES):
        times = START_MS + chance.integers(0, HOUR_MS, BATCH_MESSAGES)
        identities = np.arange(first, first + BATCH_MESSAGES, dtype=np.uint64)
        index.put(identities, times, first * 100, 50_000, places, places)


def turns(index: TimedIndex, messages: int) -> list[float]:
    """Deliver a minute's messages in turns, and return the seconds of each turn."""
    cursor, took = TimedIndexCursor(), []
    through = TimedKey(START_MS + 60_000, messages)
    while True:
        started = time.perf_counter()
        units = index.due(through, TURN_MESSAGES, cursor)
        took.append(time.perf_counter() - started)
        if not len(units):
            return took
        cursor = TimedIndexCursor(int(units["time"][-1]), int(units["identity"][-1]), messages)
        index.drop_settled(cursor)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the index of waiting messages.")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--directory", type=Path, help="where files are written and removed again (default: temporary)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ledgermq-bench-", dir=arguments.directory) as directory:
        disk, root = PosixDisk(), Path(directory) / "timed"
        index, before = TimedIndex(disk, root), anonymous_mb()
        started, processor = time.perf_counter(), time.process_time()
        put_all(index, arguments.messages)
        print(f"put: {time.perf_counter() - started:.2f} s, processor {time.process_time() - processor:.2f} s")
        started = time.perf_counter()
        marks = index.write(index.draft())
        print(f"checkpoint: {1000 * (time.perf_counter() - started):.1f} ms, {marks[0].length} bytes")
        print(f"memory after the puts: {anonymous_mb() - before:.1f} MB more")
        index.close()
        again, before = TimedIndex(disk, root), anonymous_mb()
        started, processor = time.perf_counter(), time.process_time()
        assert again.adopt(marks)
        print(f"restart: {time.perf_counter() - started:.2f} s, processor {time.process_time() - processor:.2f} s")
        took = turns(again, arguments.messages)
        print(f"turns: first {1000 * took[0]:.1f} ms, median {1000 * float(np.median(took)):.1f} ms of {len(took)}")
        print(f"memory after the turns: {anonymous_mb() - before:.1f} MB more")


if __name__ == "__main__":
    main()
