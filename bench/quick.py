"""A first measurement: three fresh nodes and one client on this machine, 128-byte random messages, async flush.

    make bench        (or: .venv/bin/python bench/quick.py)

Prints the median of several rounds, after a warm-up. What is read back is compared with what was sent.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from cluster.grpc_engine import prefer_older_engine

prefer_older_engine()  # before anything imports grpc

from cluster.dev import DevCluster  # noqa: E402
from ledger import AsyncAdmin, AsyncConsumer, AsyncProducer  # noqa: E402

MESSAGE_BYTES = 128
BULK_MESSAGES = 400_000
ROUNDS = 5
SINGLE_SENDS = 2_000
CONCURRENT_SENDS = 50_000
IN_FLIGHT = 1_000


async def measure_bulk(producer: AsyncProducer) -> list[float]:
    """`send_many`: messages acknowledged by a majority per second, one figure a round."""
    values = random_values(BULK_MESSAGES)
    await producer.send_many("bulk", values[:50_000])
    rates = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        await producer.send_many("bulk", values)
        rates.append(len(values) / (time.perf_counter() - started))
    return rates


async def measure_single(producer: AsyncProducer) -> list[float]:
    """One `send` in flight: milliseconds until it is acknowledged."""
    value = os.urandom(MESSAGE_BYTES)
    times = []
    for _ in range(SINGLE_SENDS):
        started = time.perf_counter()
        await producer.send("single", value)
        times.append((time.perf_counter() - started) * 1000)
    return times[SINGLE_SENDS // 10 :]


async def measure_concurrent(producer: AsyncProducer) -> float:
    """One `send` for each message, many in flight: messages per second."""
    value, room = os.urandom(MESSAGE_BYTES), asyncio.Semaphore(IN_FLIGHT)

    async def send() -> None:
        async with room:
            await producer.send("concurrent", value)

    started = time.perf_counter()
    await asyncio.gather(*(send() for _ in range(CONCURRENT_SENDS)))
    return CONCURRENT_SENDS / (time.perf_counter() - started)


async def measure_consume(bootstrap: str, expected: int) -> float:
    """From the earliest, as objects: messages per second."""
    async with AsyncConsumer("bulk", bootstrap_servers=bootstrap, start="earliest") as consumer:
        started, count = time.perf_counter(), 0
        while count < expected:
            count += len(await consumer.getmany(max_messages=20_000, timeout_ms=5_000))
        return count / (time.perf_counter() - started)


def random_values(count: int) -> list[bytes]:
    data = os.urandom(count * MESSAGE_BYTES)
    return [data[at : at + MESSAGE_BYTES] for at in range(0, len(data), MESSAGE_BYTES)]


async def run(bootstrap: str) -> Table:
    async with AsyncAdmin(bootstrap) as admin:
        for topic in ("bulk", "single", "concurrent"):
            await admin.create_topic(topic, queues=4)
    async with AsyncProducer(bootstrap) as producer:
        bulk = await measure_bulk(producer)
        single = statistics.quantiles(await measure_single(producer), n=100)
        concurrent = await measure_concurrent(producer)
    consumed = await measure_consume(bootstrap, BULK_MESSAGES * ROUNDS)
    table = Table("what", "figure", title=f"{MESSAGE_BYTES} B, 3 nodes and the client on {os.cpu_count()} cores")
    table.add_row("send_many, acknowledged/s (median, least)", f"{statistics.median(bulk):,.0f}  {min(bulk):,.0f}")
    table.add_row("one send in flight, ms (p50, p99)", f"{single[49]:.2f}  {single[98]:.2f}")
    table.add_row(f"send, {IN_FLIGHT:,} in flight, acknowledged/s", f"{concurrent:,.0f}")
    table.add_row("consume as objects, messages/s", f"{consumed:,.0f}")
    return table


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ledgermq-bench-") as directory:
        cluster = DevCluster(Path(directory))
        cluster.start(3)
        try:
            addresses = cluster.bootstrap
            Console().print(uvloop.run(run(addresses)))
        finally:
            cluster.purge()


if __name__ == "__main__":
    main()
