"""Measures the ConsumeQueue, the key index and the time index. The figures are indexed messages and look-ups per
second on one core, and the memory, open files and disk space of many queues.

    .venv/bin/python -m bench.store.indexes [--json]

Each index receives batches of 500 messages in a loop that does nothing else, and writes real files. Each figure is the
median of several rounds. The time index stores nothing: its look-ups read the log and the ConsumeQueue. The look-ups
of the time index are compared with look-ups in a table of (time, offset) in memory. No index in files could be faster
than a table in memory. The last measurement appends messages to many queues in turn. Each number of queues is measured
in a separate process. The script prints the memory, the open files and the disk space that the queues need.

Seconds are processor time including the kernel's time, so other processes on the machine have little influence.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import statistics
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from ledger.batch import encode, key_hashes, tag_hashes
from store import CommitLog, ConsumeQueue, ConsumeQueues, EntryDraft, EntryKind, KeyIndex, LogSettings, PosixDisk
from store.index.time_index import offset_at, position_at

BATCH_MESSAGES = 500
ROUND_BATCHES = 800
ROUNDS = 5
LOOKUPS = 2_000
LOG_ENTRIES = 20_000
QUEUE_COUNTS = (1, 1_000, 10_000)
# The total number of messages that are put into the queues.
MESSAGES_BESIDE = 2_000_000

Figures = dict[str, float]
_CHANCE = random.Random(7)


def sample_batch(keys: list[bytes | None]) -> bytes:
    return encode(
        [bytes(128)] * BATCH_MESSAGES, topic_id=1, queue=0, producer_id=1, epoch=0, first_sequence=0,
        base_timestamp_ms=0, keys=keys, tags=["tag"] * BATCH_MESSAGES,
    )  # fmt: skip


def rate(put: Callable[[int], None]) -> float:
    """Run several rounds and return the median rate in messages per second. Each round continues where the previous
    round ended."""
    rates = []
    for number in range(ROUNDS):
        started = time.process_time()
        for batch in range(number * ROUND_BATCHES, (number + 1) * ROUND_BATCHES):
            put(batch)
        rates.append(ROUND_BATCHES * BATCH_MESSAGES / (time.process_time() - started))
    return statistics.median(rates)


def lookups(look_up: Callable[[], object]) -> float:
    """Return the number of look-ups per second."""
    started = time.process_time()
    for _ in range(LOOKUPS):
        look_up()
    return LOOKUPS / (time.process_time() - started)


def consume_queue(directory: Path) -> Figures:
    queue = ConsumeQueue(PosixDisk(), directory / "queue")
    body = sample_batch([b"key"] * BATCH_MESSAGES)
    built = rate(lambda n: queue.put(n * BATCH_MESSAGES, n * 100_000, 90_000, tag_hashes(body), BATCH_MESSAGES))
    found = lookups(lambda: queue.read(_CHANCE.randrange(queue.end_offset), 1))
    return {"consume queue, messages/s": built, "consume queue, look-ups/s": found}


def key_index(directory: Path) -> Figures:
    """Measure the key index with keys that are all different. Different keys are the worst case, because each
    message needs an index entry."""
    disk, figures = PosixDisk(), dict[str, float]()
    different = [sample_batch([b"%d-%d" % (n, i) for i in range(BATCH_MESSAGES)]) for n in range(50)]
    spread = np.random.default_rng(1).integers(1, 1 << 63, ROUNDS * ROUND_BATCHES, dtype=np.uint64)
    index = KeyIndex(disk, directory / "different")

    def put(n: int) -> None:
        hashes = key_hashes(different[n % len(different)])
        assert hashes is not None
        index.put(1, n * 100_000, 90_000, n, hashes ^ spread[n])

    def search() -> None:
        """Find the newest batch that has a given key."""
        n = _CHANCE.randrange(len(spread))
        hashes = key_hashes(different[n % len(different)])
        assert hashes is not None
        found = index.search(1, int(hashes[0] ^ spread[n]))
        while not found.take(1) and not found.done:
            pass
        assert not found.done

    figures["key index, all keys different, messages/s"] = rate(put)
    figures["key index, look-ups/s"] = lookups(search)
    few = sample_batch([b"%d" % (i % 10) for i in range(BATCH_MESSAGES)])
    hashes = key_hashes(few)
    assert hashes is not None
    index = KeyIndex(disk, directory / "few")
    figures["key index, ten keys, messages/s"] = rate(lambda n: index.put(1, n * 100_000, 90_000, n, hashes))
    return figures


def time_index(directory: Path) -> Figures:
    """Measure look-ups of times in a log of many small entries. A log of small entries is the worst case, because the
    bisection needs the most steps.
    """
    log = CommitLog.open(PosixDisk(), directory / "log", LogSettings(segment_bytes=64 << 20))
    queue = ConsumeQueue(PosixDisk(), directory / "timed")
    table = []
    for n in range(LOG_ENTRIES):
        (header,) = log.append([EntryDraft(EntryKind.BATCH, bytes(1_000), count=200)], term=1, commit=0, now_ms=n * 10)
        queue.put(queue.end_offset, header.position, header.size, None, 200)
        table.append((n * 10, n * 200))

    def by_log() -> int:
        wanted = _CHANCE.randrange(LOG_ENTRIES * 10)
        return offset_at(queue, position_at(log, wanted, log.last_index))

    def by_table() -> int:
        wanted = _CHANCE.randrange(LOG_ENTRIES * 10 - 10)
        return table[bisect_left(table, (wanted, 0))][1]

    figures = {
        "time index, look-ups/s": lookups(by_log),
        "time index, look-ups/s of one time in another queue": lookups(lambda: offset_at(queue, log.end // 3)),
        "a table of every entry in memory, look-ups/s": lookups(by_table),
    }
    queue.close()
    log.close()
    return figures


def many_queues(queues: int, directory: str) -> Figures:
    """Append messages to the ConsumeQueues and the key index of `queues` queues in turn. The function runs in a
    separate process."""
    disk, root = PosixDisk(), Path(directory)
    before = resident_bytes()
    units, index = ConsumeQueues(disk, root / "queues"), KeyIndex(disk, root / "keys")
    per_put = max(1, min(BATCH_MESSAGES, MESSAGES_BESIDE // queues // 2))
    hashes = np.random.default_rng(1).integers(1, 1 << 63, per_put, dtype=np.uint64)
    started, puts = time.process_time(), MESSAGES_BESIDE // per_put
    for n in range(puts):
        queue = units.get(1, n % queues)
        index.put(1, n * 100_000, 90_000, n, hashes ^ np.uint64(n))
        queue.put(queue.end_offset, n * 100_000, 90_000, None, per_put)
    return {
        "messages/s": puts * per_put / (time.process_time() - started),
        "memory, MB": (resident_bytes() - before) / 1e6,
        "open files": float(len(os.listdir("/proc/self/fd"))),
        "disk, MB": sum(path.stat().st_blocks * 512 for path in root.rglob("*")) / 1e6,
    }


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measured(directory: Path) -> dict[str, Figures]:
    figures = {"indexes": consume_queue(directory) | key_index(directory) | time_index(directory)}
    for queues in QUEUE_COUNTS:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            figures[f"{queues} queues"] = pool.apply(many_queues, (queues, str(directory / f"many-{queues}")))
    return figures


def show(figures: dict[str, Figures]) -> None:
    table = Table("index", "figure", title=f"batches of {BATCH_MESSAGES} messages, one core")
    for name, value in figures.pop("indexes").items():
        table.add_row(name, f"{value:,.0f}")
    Console().print(table)
    columns = list(next(iter(figures.values())))
    table = Table("", *columns, title=f"{MESSAGES_BESIDE:,} messages with different keys in so many queues")
    for name, row in figures.items():
        table.add_row(name, *(f"{row[column]:,.0f}" for column in columns))
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the indexes of the store.")
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    parser.add_argument("--directory", type=Path, help="where files are written and removed again (default: temporary)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ledgermq-bench-", dir=arguments.directory) as directory:
        figures = measured(Path(directory))
    if arguments.json:
        print(json.dumps(figures, indent=2))
    else:
        show(figures)


if __name__ == "__main__":
    main()
