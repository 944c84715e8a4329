"""Measures what the filter of a shared group costs, on a cluster of three nodes with the clients on the same cores.

    .venv/bin/python -m bench.node.filters [--messages 50000] [--rounds 3] [--directory PATH]

A producer sends messages of 100 bytes with three headers to eight queues. Groups without and with a filter read all of
them, one group after another and in turns, by eight members with receives of 32 messages. `scanned_per_s` counts all
messages of the topic, also those that do not match, `received` those that members got, and `leader_us` is the processor
time of the leader for each message of the topic. All figures are medians of the rounds. `share` is the throughput
compared with the group without a filter.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.local_cluster import fresh_cluster
from bench.tables import options, show
from cluster.local.processes import DevCluster
from cluster.process_use import cpu_s
from ledgermq import AsyncAdmin, AsyncProducer, AsyncSharedConsumer, OutgoingMessage, SharedMessage

TOPIC, QUEUES, MEMBERS, SIZE = "filtered", 8, 8, 32
VALUE = bytes(100)
CALL_MESSAGES = 10_000
WAIT_MS = 500
POLL_S = 0.05
# Prices are 0 to 19.
PRICES = 20
WIDE = " OR ".join(f"sku = 'part-{number}'" for number in range(100))
FILTERS = {
    "none": None,
    "all match: price >= 0": "price >= 0",
    "half match: price > 9 AND region = 'EU'": "price > 9 AND region = 'EU'",
    "one of 20 matches: price = 7": "price = 7",
    "none matches: price > 99": "price > 99",
    "none matches, 100 comparisons": WIDE,
}


@dataclass(frozen=True, slots=True)
class FilterFigures:
    filter: str
    scanned_per_s: int
    share: float
    received: int
    leader_us: float


@dataclass(frozen=True, slots=True)
class FilterReading:
    """One group that reads the topic."""

    seconds: float
    received: int
    leader_s: float


async def send(admin: AsyncAdmin, bootstrap: str, messages: int) -> None:
    await admin.create_topic(TOPIC, QUEUES)
    async with AsyncProducer(bootstrap) as producer:
        for first in range(0, messages, CALL_MESSAGES):
            some = range(first, min(first + CALL_MESSAGES, messages))
            await producer.send_many(TOPIC, [message(number) for number in some])


def message(number: int) -> OutgoingMessage[bytes]:
    headers = [("price", b"%d" % (number % PRICES)), ("region", b"EU"), ("sku", b"item-%d" % number)]
    return OutgoingMessage(VALUE, headers=headers)


async def work(consumer: AsyncSharedConsumer[bytes], all_settled: asyncio.Event) -> int:
    """Receive and acknowledge until everything is settled. Return the number of messages."""
    count = 0
    messages: list[SharedMessage[bytes]] = []
    while messages or not all_settled.is_set():
        messages = await consumer.receive(SIZE, ack=messages, max_wait_ms=WAIT_MS)
        count += len(messages)
    return count


async def read(cluster: DevCluster, admin: AsyncAdmin, group: str, where: str | None, messages: int) -> FilterReading:
    """Let a new group read the whole topic."""
    await admin.create_consumer_group(group)
    pids = [node.pid for node in cluster.status() if node.pid is not None]
    consumers = [
        AsyncSharedConsumer(TOPIC, group=group, bootstrap_servers=cluster.bootstrap, where=where)
        for _ in range(MEMBERS)
    ]
    for consumer in consumers:
        await consumer.start()
    began_s, before = time.perf_counter(), [cpu_s(pid) for pid in pids]
    all_settled = asyncio.Event()
    works = [asyncio.create_task(work(consumer, all_settled)) for consumer in consumers]
    while await settled(admin, group) < messages:  # noqa: ASYNC110
        await asyncio.sleep(POLL_S)
    seconds = time.perf_counter() - began_s
    all_settled.set()
    used = [cpu_s(pid) - start for pid, start in zip(pids, before, strict=True)]
    received = sum(await asyncio.gather(*works))
    for consumer in consumers:
        await consumer.stop()
    return FilterReading(seconds, received, max(used))


async def settled(admin: AsyncAdmin, group: str) -> int:
    """Return how many messages the group has settled in all queues."""
    described = await admin.describe_consumer_group(group)
    return sum(queue.offset or 0 for queue in described.queues)


async def measure(cluster: DevCluster, messages: int, rounds: int) -> list[FilterFigures]:
    found: dict[str, list[FilterReading]] = {name: [] for name in FILTERS}
    async with AsyncAdmin(cluster.bootstrap) as admin:
        await send(admin, cluster.bootstrap, messages)
        await read(cluster, admin, "warm-up", None, messages)
        for number in range(rounds):
            for place, (name, where) in enumerate(FILTERS.items()):
                found[name].append(await read(cluster, admin, f"group-{number}-{place}", where, messages))
    per_s = {
        name: statistics.median(messages / reading.seconds for reading in readings) for name, readings in found.items()
    }
    return [
        FilterFigures(
            name,
            round(per_s[name]),
            per_s[name] / per_s["none"],
            readings[0].received,
            statistics.median(reading.leader_s for reading in readings) / messages * 1e6,
        )
        for name, readings in found.items()
    ]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--messages", type=int, default=50_000, help="messages of the topic")
    parser.add_argument("--rounds", type=int, default=3, help="how often each group reads the topic")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=given.directory) as name,
        fresh_cluster(Path(name) / "cluster", 3, shards=1) as cluster,
    ):
        rows = asyncio.run(measure(cluster, given.messages, given.rounds))
    show({"Filters of shared groups": rows}, as_json=given.json)


if __name__ == "__main__":
    main()
