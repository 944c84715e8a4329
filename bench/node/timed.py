"""Measures messages with delivery times on a cluster of three nodes: memory and restart with many waiting messages, how
late messages are delivered, and a burst.

    .venv/bin/python -m bench.node.timed [--waiting 1000000] [--due-rate 2000] [--burst 200000] [--directory PATH]

All messages have 100 bytes and are spread over 16 target queues. `anon_mb` is the memory of the largest node without
the pages of files. The case `waiting` sends messages whose delivery times are spread over an hour that begins in an
hour. The case `rate` sends messages that become due at a steady rate; `late` is the time from the delivery time to the
append to the target queue, and `seen` the time to the arrival at a consumer, in ms. In the case `burst` all messages
become due within one second.
"""

from __future__ import annotations

import asyncio
import re
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import numpy as np

from bench.local_cluster import fresh_cluster
from bench.node.restart import end, ready_again
from bench.tables import options, show
from cluster.local.processes import DevCluster
from ledger.timed import DELIVER_AT
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer, OutgoingMessage

QUEUES = 16
VALUE = bytes(100)
CALL_MESSAGES = 10_000
NODES = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class WaitingFigures:
    waiting: int
    sent_per_s: int
    anon_mb_before: float
    anon_mb_after: float
    restart_s_before: float
    restart_s_after: float


@dataclass(frozen=True, slots=True)
class LatenessFigures:
    case: str
    messages: int
    # From the first delivery time until the consumer had all messages.
    all_s: float
    late_p50: float
    late_p99: float
    seen_p50: float
    seen_p99: float
    early_max: float
    elections: int


def anon_mb(cluster: DevCluster) -> float:
    """Return the memory of the largest node without the pages of files, in MB."""

    def of(node: int) -> float:
        pid = cluster.node(node).pid
        found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        assert found is not None
        return int(found[1]) / 1000

    return max(map(of, NODES))


def restart_s(cluster: DevCluster) -> float:
    """Stop a follower, start it again, and return the seconds until it is ready."""
    node = cluster.node(next(node for node in NODES if node != cluster.leader()))
    end(node, signal.SIGTERM)
    return ready_again(node)


async def send(bootstrap: str, times: Sequence[datetime]) -> float:
    """Send one message for each delivery time, and return the seconds until all are acknowledged."""
    began = time.perf_counter()
    async with AsyncProducer(bootstrap) as producer:
        for first in range(0, len(times), CALL_MESSAGES):
            some = times[first : first + CALL_MESSAGES]
            messages = [
                OutgoingMessage(VALUE, queue=(first + number) % QUEUES, deliver_at=at) for number, at in enumerate(some)
            ]
            await producer.send_many("timed", messages)
    return time.perf_counter() - began


async def create(bootstrap: str) -> None:
    async with AsyncAdmin(bootstrap) as admin:
        await admin.create_topic("timed", QUEUES)


async def terms(bootstrap: str) -> int:
    async with AsyncAdmin(bootstrap) as admin:
        return max(status.shards[0].term for status in await admin.cluster())


def waiting(cluster: DevCluster, count: int) -> WaitingFigures:
    bootstrap = cluster.bootstrap
    asyncio.run(create(bootstrap))
    random, begin = Random(7), datetime.now(UTC) + timedelta(hours=1)
    asyncio.run(send(bootstrap, [begin] * 1000))
    restart_before, before = restart_s(cluster), anon_mb(cluster)
    seconds = asyncio.run(send(bootstrap, [begin + timedelta(hours=random.random()) for _ in range(count)]))
    time.sleep(25)  # two checkpoints
    after = anon_mb(cluster)
    return WaitingFigures(count, round(count / seconds), before, after, restart_before, restart_s(cluster))


async def lateness(cluster: DevCluster, case: str, count: int, seconds: float) -> LatenessFigures:
    """Send messages that become due within `seconds`, evenly, and measure when they arrive."""
    bootstrap = cluster.bootstrap
    await create(bootstrap)
    first = datetime.now(UTC) + timedelta(seconds=5 + count / 10_000)
    before = await terms(bootstrap)
    await send(bootstrap, [first + timedelta(seconds=seconds * number / count) for number in range(count)])
    assert datetime.now(UTC) < first, "the sending took too long"
    late, seen = np.empty(count), np.empty(count)
    async with AsyncConsumer("timed", bootstrap_servers=bootstrap) as consumer:
        for number in range(count):
            message = await anext(consumer)
            due_ms = int(dict(message.headers)[DELIVER_AT])
            late[number], seen[number] = message.append_time_ms - due_ms, time.time() * 1000 - due_ms
    elapsed = (datetime.now(UTC) - first).total_seconds()
    return LatenessFigures(
        case,
        count,
        elapsed,
        late_p50=float(np.percentile(late, 50)),
        late_p99=float(np.percentile(late, 99)),
        seen_p50=float(np.percentile(seen, 50)),
        seen_p99=float(np.percentile(seen, 99)),
        early_max=float(max(0, -late.min())),
        elections=await terms(bootstrap) - before,
    )


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--waiting", type=int, default=1_000_000, help="messages that wait (default: 1,000,000)")
    parser.add_argument("--due-rate", type=int, default=2_000, help="messages that become due in a second")
    parser.add_argument("--burst", type=int, default=200_000, help="messages that become due in one second")
    given = parser.parse_args()
    tables: dict[str, list[WaitingFigures] | list[LatenessFigures]] = {}
    with tempfile.TemporaryDirectory(dir=given.directory) as name:
        if given.waiting:
            with fresh_cluster(Path(name) / "waiting", len(NODES)) as cluster:
                tables["Waiting messages"] = [waiting(cluster, given.waiting)]
        rows = []
        for case, count, seconds in (("rate", 30 * given.due_rate, 30.0), ("burst", given.burst, 1.0)):
            if count:
                with fresh_cluster(Path(name) / case, len(NODES)) as cluster:
                    rows.append(asyncio.run(lateness(cluster, case, count, seconds)))
        if rows:
            tables["Lateness in ms"] = rows
    show(tables, as_json=given.json)


if __name__ == "__main__":
    main()
