"""A load process with many clients, each of which sends one message, waits for its acknowledgement, and sends the next.
The command `python -m bench.peers.awaiting_load JSON` prints a line when all clients are connected, waits for a line on
its standard input, writes the result as JSON into a file, and prints another line. The result can be larger than a pipe
holds.

Like `load.py`, this module does not know which peer it measures, and runs where only the peer's client is installed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.peers.load import client_named
from bench.peers.peer import PeerClient
from cluster.load.in_flight import all_of

# This many clients connect at the same time.
_OPENED_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class AwaitingOrder:
    """Tells one load process what to do. Sends of the first `warm_s` seconds are not measured."""

    # The client's class, as module:class.
    client: str
    address: str
    topic: str
    clients: int
    size: int
    seconds: float
    warm_s: float
    # The path of the file for the result.
    result: str


@dataclass(frozen=True, slots=True)
class AwaitingResult:
    """`latencies_us` has pairs of a time from a send to its acknowledgement, rounded to 10 us, and how many sends took
    this time. `cpu_s` is the CPU time of the process."""

    latencies_us: list[tuple[int, int]]
    seconds: float
    cpu_s: float


async def run(
    order: AwaitingOrder, clients: Sequence[PeerClient], begin: Callable[[], Awaitable[None]]
) -> AwaitingResult:
    """Connect all clients, await `begin`, and let each client send until the time is over."""
    await clients[0].open(order.address, order.topic)  # it creates the topic
    for at in range(1, len(clients), _OPENED_AT_ONCE):
        some = clients[at : at + _OPENED_AT_ONCE]
        await asyncio.gather(*(client.open(order.address, order.topic) for client in some))
    await begin()
    await _sends(order.size, clients, order.warm_s)
    gc.collect()
    cpu_s, started = time.process_time(), time.perf_counter()
    latencies_us = await _sends(order.size, clients, order.seconds)
    return AwaitingResult(sorted(latencies_us.items()), time.perf_counter() - started, time.process_time() - cpu_s)


async def _sends(size: int, clients: Sequence[PeerClient], seconds: float) -> Counter[int]:
    latencies_us = Counter[int]()
    until = time.perf_counter() + seconds

    async def send(client: PeerClient) -> None:
        while (sent := time.perf_counter()) < until:
            await client.send_one(os.urandom(size))
            latencies_us[round((time.perf_counter() - sent) * 1e5) * 10] += 1

    await all_of(send(client) for client in clients)
    return latencies_us


async def _begin() -> None:
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


def main() -> int:
    import uvloop

    order = AwaitingOrder(**json.loads(sys.argv[1]))
    clients = [client_named(order.client) for _ in range(order.clients)]
    try:
        result = uvloop.run(run(order, clients, _begin))
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    Path(order.result).write_text(json.dumps(asdict(result)), encoding="utf-8")
    print("done", flush=True)
    os._exit(0)  # the end of a thousand clients is not measured


if __name__ == "__main__":
    raise SystemExit(main())
