"""Measures what open consoles cost the nodes: browsers that look at the page of the cluster, while messages are sent.

    .venv/bin/python -m bench.node.console [--page cluster|topics|topic|tail|groups] [--browsers 5] [--shards 16]
        [--seconds 20] [--rate 1000] [--json]

Three node processes run on this machine. The use of a core by each node is measured in turns without and with browsers,
and the difference of the medians is the cost. A browser follows the page's stream and loads each new chart, as the
page's script does. Half of the browsers look at node 1, the others at node 2.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import aiohttp
import uvloop

from bench.local_cluster import fresh_cluster
from bench.tables import options, show
from cluster.bench.idle import measure_idle, process_source
from cluster.local.processes import DevCluster
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.producer.producer import AsyncProducer

NODES = 3
ROUNDS = 3
CHART = re.compile(r'src=\\"(/console/charts/[^"\\]+)')
TOPIC = "watched"
# By name: the page, and its stream.
PAGES = {
    "cluster": ("/console/", "/console/live/cluster"),
    "topics": ("/console/topics", "/console/live/topics"),
    "topic": (f"/console/topics/{TOPIC}", f"/console/live/topics/{TOPIC}"),
    "tail": (f"/console/topics/{TOPIC}/tail", f"/console/live/topics/{TOPIC}/tail"),
    "groups": ("/console/groups", "/console/live/groups"),
}


@dataclass(frozen=True, slots=True)
class ConsoleCost:
    """Percentages of a core: without browsers, with them, and the difference."""

    node: int
    without_percent: float
    with_percent: float
    cost_percent: float


async def look(base: str, name: str) -> None:
    """Follow a page as a browser does, until the task is cancelled."""
    first, live = PAGES[name]
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
        async with session.get(base + first) as page:
            page.raise_for_status()
            await page.read()
        async with session.get(base + live) as stream:
            stream.raise_for_status()
            async for line in stream.content:
                for chart in CHART.findall(line.decode()):
                    async with session.get(base + chart) as image:
                        await image.read()


async def send(cluster: DevCluster, rate: int) -> None:
    """Send messages at a steady rate, until the task is cancelled."""
    async with AsyncProducer(cluster.bootstrap, profile="") as producer:
        while True:
            await producer.send_many(TOPIC, [b"x" * 100] * max(1, rate // 20))
            await asyncio.sleep(0.05)


async def measure(cluster: DevCluster, page: str, browsers: int, seconds: float, rate: int) -> list[ConsoleCost]:
    states = await asyncio.to_thread(cluster.status)
    sources = [process_source(state.pid or 0, str(state.id)) for state in states]
    looked_at = [f"http://{state.http}" for state in states[:2]]
    sending = asyncio.create_task(send(cluster, rate)) if rate else None
    without: list[list[float]] = [[] for _ in states]
    watched: list[list[float]] = [[] for _ in states]
    for _ in range(ROUNDS):
        for found, count in ((without, 0), (watched, browsers)):
            tasks = [asyncio.create_task(look(looked_at[number % 2], page)) for number in range(count)]
            await asyncio.sleep(12)  # a watch without browsers ends after ten seconds
            uses = await asyncio.to_thread(measure_idle, sources, seconds)
            for each, use in zip(found, uses, strict=True):
                each.append(use.cpu_percent)
            await _end(tasks)
    if sending is not None:
        await _end([sending])
    return [
        ConsoleCost(state.id, median(off), median(on), median(on) - median(off))
        for state, off, on in zip(states, without, watched, strict=True)
    ]


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result


async def run(directory: Path, page: str, browsers: int, shards: int, seconds: float, rate: int) -> list[ConsoleCost]:
    with fresh_cluster(directory, NODES, shards=shards) as cluster:
        async with AsyncAdmin(cluster.bootstrap, profile="") as admin:
            await admin.create_topic(TOPIC, queues=shards)
        return await measure(cluster, page, browsers, seconds, rate)


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--page", choices=PAGES, default="cluster", help="what the browsers look at")
    parser.add_argument("--browsers", type=int, default=5)
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rate", type=int, default=1_000, help="messages a second; 0: an idle cluster")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ledgermq-console-", dir=given.directory) as directory:
        costs = uvloop.run(
            run(Path(directory) / "cluster", given.page, given.browsers, given.shards, given.seconds, given.rate)
        )
    if given.json:
        print(json.dumps([asdict(cost) for cost in costs], indent=2))
    else:
        show(
            {f"{given.browsers} browsers at {given.page}, {given.shards} shards, {given.rate} messages/s": costs},
            as_json=False,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
