"""What queues cost a node: its memory, open files, and disk beside the log, with 1, 1,000 and 10,000 of them.

    .venv/bin/python -m bench.node_queues [--json] [--directory PATH]

One node, a fresh one each time, gets the same messages, all with keys, spread over so many queues. It is looked at when
it has taken a checkpoint of all that; `memory_mb` is what is its own, `mapped_mb` what it sees of files (the page
cache's). `ready_s` is how long it takes then to be ready again after a stop.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench.restart import checkpoint_of, end, ready_again, wait_for_change
from bench.tables import options, show
from cluster.local.node_process import DevNode
from cluster.local.processes import DevCluster
from ledgermq import AsyncAdmin, AsyncProducer

QUEUE_COUNTS = (1, 1_000, 10_000)
QUEUES_PER_TOPIC = 1_000
MESSAGES = 1_000_000
BATCH_MESSAGES = 100
MESSAGE_BYTES = 128
AT_A_TIME = 200


@dataclass(frozen=True, slots=True)
class Node:
    queues: int
    messages_per_s: int
    memory_mb: float
    mapped_mb: float
    open_files: int
    disk_beside_log_mb: float
    ready_s: float


def measure(directory: Path, queues: int) -> Node:
    cluster = DevCluster(directory / "cluster")
    try:
        cluster.start(1)
        node = cluster.node(1)
        empty_mb = beside_log_mb(node)
        started = time.perf_counter()
        uvloop.run(send(node.address, queues))
        taken_s = time.perf_counter() - started
        wait_for_change(checkpoint_of(node))
        status = Path(f"/proc/{node.pid}/status").read_text()
        open_files, disk_mb = len(os.listdir(f"/proc/{node.pid}/fd")), beside_log_mb(node) - empty_mb
        end(node, signal.SIGTERM)
        memory_mb, mapped_mb = megabytes(status, "RssAnon"), megabytes(status, "RssFile")
        return Node(queues, int(MESSAGES / taken_s), memory_mb, mapped_mb, open_files, disk_mb, ready_again(node))
    finally:
        cluster.purge()


async def send(bootstrap: str, queues: int) -> None:
    """As many messages to each queue, in batches that go through all of them in turn."""
    async with AsyncAdmin(bootstrap) as admin, AsyncProducer(bootstrap) as producer:
        for first in range(0, queues, QUEUES_PER_TOPIC):
            await admin.create_topic(topic_of(first), queues=min(QUEUES_PER_TOPIC, queues))
        room, values = asyncio.Semaphore(AT_A_TIME), [os.urandom(MESSAGE_BYTES) for _ in range(BATCH_MESSAGES)]

        async def send_batch(number: int, queue: int) -> None:
            try:
                topic, key = topic_of(queue), f"key {number}"
                await producer.send_many(topic, values, key=key, queue=queue % QUEUES_PER_TOPIC)
            finally:
                room.release()

        async with asyncio.TaskGroup() as tasks:
            for number, queue in turns(queues):
                await room.acquire()
                tasks.create_task(send_batch(number, queue))


def turns(queues: int) -> Iterator[tuple[int, int]]:
    """(number of a batch, its queue)"""
    return ((number, number % queues) for number in range(MESSAGES // BATCH_MESSAGES))


def topic_of(queue: int) -> str:
    return f"topic-{queue // QUEUES_PER_TOPIC}"


def megabytes(status: str, field: str) -> float:
    found = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def beside_log_mb(node: DevNode) -> float:
    """Blocks of all that a node keeps, but for its log."""
    log = node.data / "shard-0" / "log"
    return sum(path.lstat().st_blocks * 512 for path in node.data.rglob("*") if log not in path.parents) / 1e6


def main() -> None:
    given = options(__doc__).parse_args()
    rows = []
    for queues in QUEUE_COUNTS:
        with tempfile.TemporaryDirectory(dir=given.directory) as name:
            rows.append(measure(Path(name), queues))
    show({f"A node with {MESSAGES:,} messages in so many queues": rows}, as_json=given.json)


if __name__ == "__main__":
    main()
