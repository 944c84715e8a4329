"""Compares the CommitLog with the bare disk: appends in each write mode, appends that begin a new segment, and
flushes.

    .venv/bin/python -m bench.store.append [--json] [--directory PATH]

Each round writes the same bytes twice: once through the log, and once with a simple loop of writes. Both write to
files that were allocated in the same way. The printed ratio of the log's throughput to the simple loop's throughput is
the median of the rounds. Except in the measurement of flushes, the files are removed before the kernel writes them to
the disk. Rates of appends are computed from processor time, because other processes on the machine change it less than
wall-clock time. The slowest appends and the flushes are measured in wall-clock time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mmap
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import uvloop

from bench.tables import options, show
from cluster.node.replica.disk_threads import DiskThreads, Flushing
from cluster.node.replica.flush_schedule import FlushSchedule
from cluster.node.runtime import Runtime
from store import CommitLog, EntryDraft, EntryKind, LogSettings, PosixDisk, StoreError, VoteFile, WriteMode, Writing
from store.directory.vote_file import INCARNATION_BYTES
from store.log.entry import HEADER_SIZE

BATCH_BYTES = 64 << 10
SEGMENT_BYTES = 32 << 20
BATCHES = SEGMENT_BYTES // BATCH_BYTES
ROUNDS = 5
ROLL_SEGMENT_BYTES = 4 << 20
ROLLS = 30
FLUSH_SEGMENT_BYTES = 512 << 20
FLUSH_S = 1.2
WAITING = (1, 16, 256)
TAIL_S = 1.5
TAIL_PAUSE_S = 0.0005
BODY = os.urandom(BATCH_BYTES - HEADER_SIZE)
DRAFT = EntryDraft(EntryKind.BATCH, BODY, topic_id=1, count=100)
ENTRY = bytes(HEADER_SIZE) + BODY
MODES: tuple[WriteMode, ...] = get_args(WriteMode)


@dataclass(frozen=True, slots=True)
class RateFigures:
    mode: str
    segment: str
    group: int
    gb_per_s: float
    of_pwrite: float
    of_mapped: float


@dataclass(frozen=True, slots=True)
class TailFigures:
    mode: str
    case: str
    p50_ms: float
    p999_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class FlushFigures:
    waiting: int
    bare_per_s: float
    batches_per_s: float
    of_bare: float


def open_log(directory: Path, writing: Writing, segment_bytes: int = SEGMENT_BYTES) -> CommitLog:
    return CommitLog.open(PosixDisk(), directory, LogSettings(segment_bytes=segment_bytes, writing=writing))


def append(log: CommitLog, batches: int = 1) -> None:
    log.append([DRAFT] * batches, term=1, commit=log.last_index, now_ms=0)


@contextlib.contextmanager
def fresh(directory: Path) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(dir=directory))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def allocated(path: Path, size: int) -> int:
    """Create a file in the same way as a segment: its space is allocated, and its length is flushed to the disk."""
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(file, 0, size)
    os.fdatasync(file)
    return file


# -- appends


def measure_appends(directory: Path) -> list[RateFigures]:
    """Measure appends of batches that fill one segment, in writes of 1 batch and of 16 batches. The segment is blank
    (cold), or its pages were touched before (warm).
    """
    return [
        rate for is_warm in (False, True) for batches in (1, 16) for rate in measure_rates(directory, batches, is_warm)
    ]


def measure_rates(directory: Path, batches: int, is_warm: bool) -> list[RateFigures]:
    found: dict[WriteMode, list[tuple[float, float, float]]] = {mode: [] for mode in MODES}
    for _ in range(ROUNDS):
        pwrite_s, mapped_s = bare_pwrite(directory, batches, is_warm), bare_mapped(directory, batches, is_warm)
        for mode in MODES:
            taken_s = through_log(directory, batches, Writing(mode, warm=is_warm))
            found[mode].append((taken_s, pwrite_s / taken_s, mapped_s / taken_s))
    rates = []
    for mode, rounds in found.items():
        taken_s, of_pwrite, of_mapped = (statistics.median(column) for column in zip(*rounds, strict=True))
        gb_per_s = SEGMENT_BYTES / taken_s / 1e9
        rates.append(RateFigures(mode, "warm" if is_warm else "cold", batches, gb_per_s, of_pwrite, of_mapped))
    return rates


def through_log(directory: Path, batches: int, writing: Writing) -> float:
    with fresh(directory) as path:
        log = open_log(path / "log", writing)
        log.prepare_next()
        started = time.thread_time()
        for _ in range(BATCHES // batches):
            append(log, batches)
        taken_s = time.thread_time() - started
        log.close()
        return taken_s


def bare_pwrite(directory: Path, batches: int, is_warm: bool) -> float:
    with fresh(directory) as path:
        file, data = allocated(path / "file", SEGMENT_BYTES), ENTRY * batches
        if is_warm:
            with mmap.mmap(file, SEGMENT_BYTES, prot=mmap.PROT_READ) as pages:
                _ = sum(pages[at] for at in range(0, SEGMENT_BYTES, mmap.PAGESIZE))
        started = time.thread_time()
        for at in range(0, SEGMENT_BYTES, len(data)):
            os.pwrite(file, data, at)
        taken_s = time.thread_time() - started
        os.close(file)
        return taken_s


def bare_mapped(directory: Path, batches: int, is_warm: bool) -> float:
    with fresh(directory) as path:
        file, data = allocated(path / "file", SEGMENT_BYTES), ENTRY * batches
        with mmap.mmap(file, SEGMENT_BYTES) as pages:
            if is_warm:
                for at in range(0, SEGMENT_BYTES, mmap.PAGESIZE):
                    pages[at] = 0
            started = time.thread_time()
            for at in range(0, SEGMENT_BYTES, len(data)):
                pages[at : at + len(data)] = data
            taken_s = time.thread_time() - started
        os.close(file)
        return taken_s


# -- the slowest appends


def measure_rolls(directory: Path) -> list[TailFigures]:
    """Measure the appends that begin a new segment. Each append is measured with a prepared next segment, and
    without a prepared segment."""
    return [roll(directory, mode, is_prepared) for mode in MODES for is_prepared in (True, False)]


def roll(directory: Path, mode: WriteMode, is_prepared: bool) -> TailFigures:
    with fresh(directory) as path:
        log = open_log(path / "log", Writing(mode), ROLL_SEGMENT_BYTES)
        times = []
        for number in range(ROLLS * ROLL_SEGMENT_BYTES // BATCH_BYTES):
            is_roll = log.end % ROLL_SEGMENT_BYTES == 0 and number > 0
            if is_prepared and is_roll:
                log.prepare_next()
            times += [timed(lambda: append(log))] if is_roll else []
            if not is_roll:
                append(log)
        log.close()
        return tail_of(mode, "roll, prepared" if is_prepared else "roll, not prepared", times)


def measure_flushes_beside(directory: Path) -> list[TailFigures]:
    """Measure appends at about 100 MB/s while another thread flushes the log without a pause, and writes out the
    buffered bytes of staged writes.
    """
    tails = []
    for mode in MODES:
        with fresh(directory) as path:
            log = open_log(path / "log", Writing(mode), FLUSH_SEGMENT_BYTES)
            append(log)
            with repeating(log.sync):
                times, end = [], time.perf_counter() + TAIL_S
                while time.perf_counter() < end:
                    times.append(timed(lambda log=log: append(log)))  # type: ignore[misc]
                    time.sleep(TAIL_PAUSE_S)
            log.close()
            tails.append(tail_of(mode, "beside flushes", times))
    return tails


@contextlib.contextmanager
def repeating(work: Callable[[], object]) -> Iterator[None]:
    """Call `work` again and again in a thread while the body of the `with` block runs."""
    over = threading.Event()

    def repeat() -> None:
        while not over.is_set():
            work()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def tail_of(mode: str, case: str, times: Sequence[float]) -> TailFigures:
    ordered = sorted(times)
    return TailFigures(mode, case, statistics.median(ordered), ordered[int(len(ordered) * 0.999)], ordered[-1])


# -- group commit


def measure_group_commit(directory: Path) -> list[FlushFigures]:
    return [uvloop.run(group_commit(directory, waiting)) for waiting in WAITING]


async def group_commit(directory: Path, waiting: int) -> FlushFigures:
    """Measure flushes that `waiting` batches share. The log and the bare disk are measured in turns."""
    ratios, bare, ours = [], [], []
    for turn in range(4):  # the log and the bare disk begin equally often
        batches = await flush_log(directory, waiting) if turn % 2 else 0.0
        bare_flushes = bare_flush(directory, waiting)
        batches = batches or await flush_log(directory, waiting)
        bare.append(bare_flushes)
        ours.append(batches)
        ratios.append(batches / (bare_flushes * waiting))
    return FlushFigures(waiting, statistics.median(bare), statistics.median(ours), statistics.median(ratios))


def bare_flush(directory: Path, waiting: int) -> float:
    """Write `waiting` batches with pwrite and call fdatasync, again and again. Return the number of flushes per
    second."""
    with fresh(directory) as path:
        file, data = allocated(path / "file", FLUSH_SEGMENT_BYTES), ENTRY * waiting
        count, started = 0, time.perf_counter()
        while time.perf_counter() < started + FLUSH_S / 3 and (count + 1) * len(data) <= FLUSH_SEGMENT_BYTES:
            os.pwrite(file, data, count * len(data))
            os.fdatasync(file)
            count += 1
        taken_s = time.perf_counter() - started
        os.close(file)
        return count / taken_s


async def flush_log(directory: Path, waiting: int) -> float:
    """Return the number of batches per second that the flushing threads of a node flush."""
    with fresh(directory) as path:
        log = open_log(path / "log", Writing(), FLUSH_SEGMENT_BYTES)
        append(log)
        log.sync()
        threads = flushing_threads(path, log)
        count, started = 0, time.perf_counter()
        while time.perf_counter() < started + FLUSH_S / 3 and log.end + waiting * BATCH_BYTES <= FLUSH_SEGMENT_BYTES:
            flushed = asyncio.get_running_loop().create_future()
            append(log, waiting)
            threads.persist(lambda flushed=flushed: flushed.set_result(None))  # type: ignore[misc]
            await flushed
            count += waiting
        taken_s = time.perf_counter() - started
        await threads.stop()
        log.close()
        return count / taken_s


def flushing_threads(path: Path, log: CommitLog) -> DiskThreads:
    def fail(failure: StoreError) -> None:
        raise failure

    def nothing(*_: object) -> None:
        pass

    return DiskThreads(
        log,
        VoteFile.open(PosixDisk(), path / "vote", new_incarnation=bytes(INCARNATION_BYTES)),
        Runtime(make_transport=lambda *_: NotImplemented),
        Flushing("sync", FlushSchedule(500, 4, 10_000, 200)),
        forget_suspicion=nothing,
        on_failure=fail,
        on_flush=nothing,
    )


def main() -> None:
    given = options(__doc__).parse_args()
    logging.disable()
    parts: dict[str, Callable[[Path], Sequence[RateFigures | TailFigures | FlushFigures]]] = {
        "Appends of 64 KiB": measure_appends,
        "The slowest of them: at a roll": measure_rolls,
        "The slowest of them: beside flushes": measure_flushes_beside,
        "Group commit": measure_group_commit,
    }
    with fresh(given.directory) as directory:
        show({title: measure(directory) for title, measure in parts.items()}, as_json=given.json)


if __name__ == "__main__":
    main()
