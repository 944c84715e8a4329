"""Measures fetches of 1 MiB compared with a bare read of the same bytes, and counts how many fetches read from the
disk.

    .venv/bin/python -m bench.node.fetch [--json] [--directory PATH]

First, the broker's fetch code runs in this process over a log of batches of 64 KiB. The measured time includes the
serialization of the response. The log is either hot (in the page cache) or cold (dropped from the page cache). The
script measures processor time for a hot log and wall-clock time for a cold log. The bare read is one call of pread.

In the second part of the measurement, a real node runs. One consumer reads each new message of a topic while a
producer writes to the topic at full speed. Another consumer reads the same log from its beginning, after the node was
restarted and the log was dropped from the page cache. A fetch counts as a read from the disk if the node's
`read_bytes` in /proc/PID/io grows during the fetch. In `read_bytes`, the kernel counts all bytes that storage
delivered, also for page faults.
"""

from __future__ import annotations

import asyncio
import mmap
import multiprocessing
import os
import re
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import grpc

from bench.local_cluster import QUEUES, TOPIC, fill, forget, fresh_cluster
from bench.tables import options, show
from cluster.allocator import keep_large_buffers
from cluster.local.node_process import DevNode
from ledger.broker.fetch.fetch import collect
from ledger.broker.fetch.fetch_result import QueueFetch
from ledger.broker.rpc.fetch_wire import serialize
from ledger.v1 import broker_pb2, broker_pb2_grpc
from ledgermq import Admin
from store import CommitLog, ConsumeQueue, EntryDraft, EntryKind, LogSettings, PosixDisk
from store.log.entry import HEADER_SIZE

MIB = 1 << 20
ENTRY_BYTES = 64 << 10
LOG_BYTES = 256 << 20
PER_BATCH = 64
ROUNDS = 5
FOLLOWED_BYTES = 1 << 30
MESSAGE_BYTES = 1024
STOP_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class FetchFigures:
    log: str
    bare_ms: float
    answer_ms: float
    answer_of_bare: float


@dataclass(frozen=True, slots=True)
class DiskShare:
    consumer: str
    fetches: int
    mib: int
    mib_from_disk: float
    fetches_with_disk: int
    without_disk_percent: float


# -- in this process


class OneQueue:
    """Gives the broker's fetch code access to a log with one queue. The class implements `ReadableQueues` and
    `ReadableQueue` of `ledger.broker.fetch.fetch`."""

    def __init__(self, log: CommitLog, units: ConsumeQueue) -> None:
        self.log = log
        self.units = units
        self.is_at_the_end = True
        self.due_in_s: float | None = None

    @property
    def end_offset(self) -> int:
        return self.units.end_offset

    def readable(self, topic_id: int, queue: int) -> OneQueue:
        return self

    def waiter(self, queues: Iterable[tuple[int, int]]) -> asyncio.Future[None]:
        raise NotImplementedError("nothing is waited for here")


def measure_reads(directory: Path) -> list[FetchFigures]:
    log = CommitLog.open(PosixDisk(), directory / "log", LogSettings(segment_bytes=LOG_BYTES))
    queue = OneQueue(log, ConsumeQueue(PosixDisk(), directory / "queue"))
    body = os.urandom(ENTRY_BYTES - HEADER_SIZE)
    for index in range(LOG_BYTES // ENTRY_BYTES):
        draft = EntryDraft(EntryKind.BATCH, body, base_offset=index * PER_BATCH, count=PER_BATCH)
        (header,) = log.append([draft], term=1, commit=index, now_ms=0)
        queue.units.put(header.base_offset, header.position, header.size, None, PER_BATCH)
    log.sync()
    return [read(queue, directory / "log" / f"{0:020}", is_cold=is_cold) for is_cold in (False, True)]


def read(queue: OneQueue, path: Path, *, is_cold: bool) -> FetchFigures:
    """Measure fetches and bare reads of the log, and return the medians of the rounds. Each round reads the log
    once by bare reads and once by fetches."""
    rounds = []
    for _ in range(ROUNDS):
        taken = []
        for go_over in (bare, answered):
            if is_cold:
                unmap(queue.log)
                forget(path)
            clock = time.perf_counter if is_cold else time.thread_time
            started = clock()
            go_over(queue, path)
            taken.append((clock() - started) * 1000 / (LOG_BYTES // MIB))
        rounds.append((*taken, taken[0] / taken[1]))
    return FetchFigures(
        "cold" if is_cold else "hot", *(statistics.median(column) for column in zip(*rounds, strict=True))
    )


def answered(queue: OneQueue, _: Path) -> None:
    offset = 0
    while offset < queue.end_offset:
        result = collect(queue, [asked(offset)], MIB).result
        serialize(result, 0)
        offset = result.queues[0].next_offset


def asked(offset: int) -> QueueFetch:
    return QueueFetch(topic_id=1, queue=0, offset=offset)


def bare(_: OneQueue, path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    for at in range(0, LOG_BYTES, MIB):
        os.pread(file, MIB, at)
    os.close(file)


def unmap(log: CommitLog) -> None:
    """Remove the log's pages from this process's memory mapping. The page cache can drop only pages that are not
    mapped."""
    mapping = log.entry(1)[1].obj
    assert isinstance(mapping, mmap.mmap)
    mapping.madvise(mmap.MADV_DONTNEED)


# -- a node


def measure_shares(directory: Path) -> list[DiskShare]:
    with fresh_cluster(directory / "cluster", 1) as cluster:
        node = cluster.node(1)
        fill(node.address, MIB, MESSAGE_BYTES)
        following = follow(node)
        node.send(signal.SIGTERM)
        assert node.wait_stopped(STOP_TIMEOUT_S), node.log_tail()
        forget(node.data)
        cluster.restart(1)
        with FetchLoop(node) as consumer:
            return [following, consumer.consume("reads a cold log from its beginning", is_going_on=lambda: False)]


def follow(node: DevNode) -> DiskShare:
    sending = (node.address, FOLLOWED_BYTES, MESSAGE_BYTES)
    sender = multiprocessing.get_context("spawn").Process(target=fill, args=sending)
    sender.start()
    try:
        with FetchLoop(node) as consumer:
            consumer.go_to_end()
            return consumer.consume("follows the end", is_going_on=sender.is_alive)
    finally:
        sender.kill()
        sender.join()


class FetchLoop:
    """A consumer that fetches from all queues of the topic, with one request at a time."""

    def __init__(self, node: DevNode) -> None:
        assert node.pid is not None
        self._pid = node.pid
        with Admin(node.address) as admin:
            self._topic_id = admin.describe_topic(TOPIC).topic_id
        self._channel = grpc.insecure_channel(node.address, [("grpc.max_receive_message_length", -1)])
        self._broker = broker_pb2_grpc.BrokerStub(self._channel)
        self._offsets = dict.fromkeys(range(QUEUES), 0)

    def __enter__(self) -> FetchLoop:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def go_to_end(self) -> None:
        answer = self._broker.ListOffsets(broker_pb2.ListOffsetsRequest(topic_id=self._topic_id))
        self._offsets = {each.queue: each.end_offset for each in answer.queues}

    def consume(self, name: str, *, is_going_on: Callable[[], bool]) -> DiskShare:
        """Fetch until a response is empty, and `is_going_on` returned False before that fetch."""
        fetches = with_disk = received = 0
        began = before = self._read_bytes()
        while True:
            more_may_come = is_going_on()
            size = self._fetch()
            if not size and not more_may_come:
                break
            after = self._read_bytes()
            fetches += size > 0
            with_disk += size > 0 and after != before
            received, before = received + size, after
        return DiskShare(
            name, fetches, received // MIB, (before - began) / MIB, with_disk, 100 * (1 - with_disk / fetches)
        )

    def _fetch(self) -> int:
        """Send one fetch request and return the number of bytes received."""
        asked = [
            broker_pb2.QueueFetch(topic_id=self._topic_id, queue=queue, offset=offset)
            for queue, offset in self._offsets.items()
        ]
        answer = self._broker.Fetch(broker_pb2.FetchRequest(queues=asked, max_bytes=MIB, max_wait_ms=100))
        self._offsets = {each.queue: each.next_offset for each in answer.queues}
        return sum(len(batch.body) for each in answer.queues for batch in each.batches)

    def _read_bytes(self) -> int:
        found = re.search(r"^read_bytes: (\d+)$", Path(f"/proc/{self._pid}/io").read_text(), re.MULTILINE)
        assert found is not None
        return int(found[1])


def main() -> None:
    given = options(__doc__).parse_args()
    keep_large_buffers()  # as a node does
    with tempfile.TemporaryDirectory(dir=given.directory) as name:
        reads, shares = measure_reads(Path(name)), measure_shares(Path(name))
    show({"Fetches of 1 MiB": reads, "Fetches from a node": shares}, as_json=given.json)


if __name__ == "__main__":
    main()
