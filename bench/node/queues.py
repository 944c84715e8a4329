"""Measures how much memory, how many open files, and how much disk space beside the log a node needs with 1, 1,000 and
10,000 queues.

    .venv/bin/python -m bench.node.queues [--json] [--directory PATH]

For each number of queues, a new node receives the same messages, spread over the queues; all messages have keys. The
node is measured after the first checkpoint that follows the last message. `memory_mb` is the private memory of the
node's process. `mapped_mb` is the size of the mapped files, which are in the page cache. `ready_s` is the time that
the node needs after a stop until it is ready again.
"""

from __future__ import annotations

import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import uvloop

from bench.local_cluster import fresh_cluster
from bench.node.restart import checkpoint_of, end, ready_again, wait_for_change
from bench.tables import options, show
from cluster.load.in_flight import keep_in_flight
from cluster.load.seeded_payloads import same_size_payloads
from cluster.local.node_process import DevNode
from ledgermq import AsyncAdmin, AsyncProducer

QUEUE_COUNTS = (1, 1_000, 10_000)
QUEUES_PER_TOPIC = 1_000
MESSAGES = 1_000_000
BATCH_MESSAGES = 100
MESSAGE_BYTES = 128
AT_A_TIME = 200


@dataclass(frozen=True, slots=True)
class QueueFigures:
    queues: int
    messages_per_s: int
    memory_mb: float
    mapped_mb: float
    open_files: int
    disk_beside_log_mb: float
    ready_s: float


def measure(directory: Path, queues: int) -> QueueFigures:
    with fresh_cluster(directory / "cluster", 1) as cluster:
        node = cluster.node(1)
        empty_mb = beside_log_mb(node)
        started = time.perf_counter()
        uvloop.run(create(node.address, queues))
        uvloop.run(send(node.address, queues, MESSAGES))
        taken_s = time.perf_counter() - started
        wait_for_change(checkpoint_of(node))
        status = Path(f"/proc/{node.pid}/status").read_text()
        open_files, disk_mb = len(os.listdir(f"/proc/{node.pid}/fd")), beside_log_mb(node) - empty_mb
        end(node, signal.SIGTERM)
        memory_mb, mapped_mb = megabytes(status, "RssAnon"), megabytes(status, "RssFile")
        return QueueFigures(
            queues, int(MESSAGES / taken_s), memory_mb, mapped_mb, open_files, disk_mb, ready_again(node)
        )


async def create(bootstrap: str, queues: int) -> None:
    async with AsyncAdmin(bootstrap) as admin:
        for first in range(0, queues, QUEUES_PER_TOPIC):
            await admin.create_topic(topic_of(first), queues=min(QUEUES_PER_TOPIC, queues))


async def send(bootstrap: str, queues: int, messages: int) -> None:
    """Send the same number of messages to each queue, in batches that go to the queues in turn."""
    async with AsyncProducer(bootstrap) as producer:
        values = same_size_payloads(Random(), BATCH_MESSAGES, MESSAGE_BYTES)

        async def send_batch(turn: tuple[int, int]) -> None:
            number, queue = turn
            await producer.send_many(topic_of(queue), values, key=f"key {number}", queue=queue % QUEUES_PER_TOPIC)

        await keep_in_flight(send_batch, turns(queues, messages), AT_A_TIME)


def turns(queues: int, messages: int) -> Iterator[tuple[int, int]]:
    """Return pairs: the number of a batch, and the queue of that batch."""
    return ((number, number % queues) for number in range(messages // BATCH_MESSAGES))


def topic_of(queue: int) -> str:
    return f"topic-{queue // QUEUES_PER_TOPIC}"


def megabytes(status: str, field: str) -> float:
    found = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def beside_log_mb(node: DevNode) -> float:
    """Return the disk space in MB of everything that a node stores except its log."""
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
