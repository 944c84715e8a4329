"""Measures the costs and benefits of hints to the kernel's memory management. The hints are read-ahead for a cold log,
and segments whose pages are touched or locked in advance.

    .venv/bin/python -m bench.store.hints [--json] [--directory PATH]

Before each reading, the log is dropped from the page cache.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from bench.local_cluster import forget
from bench.tables import options, show
from store import CommitLog, EntryDraft, EntryKind, LogSettings, PosixDisk, ReadAhead
from store.disk import paging
from store.log.entry import HEADER_SIZE

SEGMENT_BYTES = 64 << 20
ENTRY_BYTES = 16 << 10
SCATTERED = 200
ROUNDS = 3
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ReadAheadFigures:
    read_ahead: str
    in_order_mb_per_s: float
    # The time for one entry at a random position, in ms.
    scattered_ms: float


@dataclass(frozen=True, slots=True)
class SegmentFigures:
    what: str
    ms_per_gib: float


def fill(directory: Path) -> None:
    log = CommitLog.open(PosixDisk(), directory, LogSettings(segment_bytes=SEGMENT_BYTES))
    body = os.urandom(ENTRY_BYTES - HEADER_SIZE)
    for index in range(SEGMENT_BYTES // ENTRY_BYTES):
        log.append([EntryDraft(EntryKind.BATCH, body)], term=1, commit=index, now_ms=0)
    log.sync()
    log.close()


def measure_reading(directory: Path) -> list[ReadAheadFigures]:
    fill(directory)
    readings: list[ReadAheadFigures] = []
    for how in get_args(ReadAhead):
        in_order = [read_cold(directory, how, in_order=True) for _ in range(ROUNDS)]
        scattered = [read_cold(directory, how, in_order=False) for _ in range(ROUNDS)]
        rate = SEGMENT_BYTES / MIB / statistics.median(in_order)
        readings.append(ReadAheadFigures(how, rate, statistics.median(scattered) * 1000 / SCATTERED))
    return readings


def read_cold(directory: Path, how: ReadAhead, *, in_order: bool) -> float:
    """Read a log that is not in the page cache: all entries in order, or some entries at random positions. Return
    the duration in seconds."""
    path = directory / f"{0:020}"
    forget(path)
    view = PosixDisk().open(path).view()
    positions = list(range(0, SEGMENT_BYTES, ENTRY_BYTES))
    if not in_order:
        positions = random.Random(1).sample(positions, SCATTERED)
    started = time.perf_counter()
    paging.advise(view, how)
    for position in positions:
        bytes(view[position : position + ENTRY_BYTES])
    return time.perf_counter() - started


def measure_making(directory: Path) -> list[SegmentFigures]:
    """Measure the work that the helper thread does in advance for a blank segment: touching or locking its pages."""
    disk = PosixDisk()

    def made(name: str) -> Path:
        disk.create(directory / name, SEGMENT_BYTES).sync()
        return directory / name

    works: dict[str, Callable[[Path], object]] = {
        "warm, write = direct": lambda path: paging.touch(disk.open(path).view(), to_write=False),
        "warm, write = mapped": lambda path: paging.touch(disk.open_mapped(path).view(), to_write=True),
        "lock_memory": lambda path: paging.lock(disk.open(path).view()),
    }
    found: list[SegmentFigures] = []
    for what, work in works.items():
        times = []
        for number in range(ROUNDS):
            path = made(f"{what} {number}")
            started = time.perf_counter()
            work(path)
            times.append(time.perf_counter() - started)
            path.unlink()
        found.append(SegmentFigures(what, statistics.median(times) * 1000 * (1 << 30) / SEGMENT_BYTES))
    return found


def main() -> None:
    given = options(__doc__).parse_args()
    with tempfile.TemporaryDirectory(dir=given.directory) as name:
        reading, making = measure_reading(Path(name)), measure_making(Path(name))
    show({"Reading a cold log": reading, "Making a segment ready": making}, as_json=given.json)


if __name__ == "__main__":
    main()
