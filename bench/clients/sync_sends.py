"""Sends single messages one after the other: with the synchronous producer, and with the asyncio one.

Both producers wait for each acknowledgement, and take turns.

.venv/bin/python -m bench.clients.sync_sends --bootstrap HOST:PORT [--seconds 3] [--rounds 3] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict, dataclass
from statistics import median

from cluster.grpc_engine import prefer_older_engine

prefer_older_engine()  # before anything imports grpc

from cluster.load.processes import run_loop  # noqa: E402
from ledgermq import Admin, AsyncProducer, Producer  # noqa: E402

TOPIC, QUEUES = "sync-sends", 4
VALUE_BYTES = 128
WARM_UP_S = 0.3


@dataclass(frozen=True, slots=True)
class SingleSends:
    """One round of one producer. `cpu_us` is the CPU time of this process for each message; `load` is the number of
    runnable processes of the machine in the last minute."""

    way: str
    sends_per_s: float
    p50_ms: float
    cpu_us: float
    load: float


def main() -> int:
    given = _arguments()
    with Admin(given.bootstrap) as admin:
        if TOPIC not in {topic.name for topic in admin.list_topics()}:
            admin.create_topic(TOPIC, QUEUES)
    for _ in range(given.rounds):
        for one in (run_loop(_asyncio(given.bootstrap, given.seconds)), _sync(given.bootstrap, given.seconds)):
            shown = f"{one.way:10} {one.sends_per_s:10,.0f}/s  p50 {one.p50_ms:6.2f} ms  {one.cpu_us:6.0f} µs CPU"
            print(json.dumps(asdict(one)) if given.json else shown, flush=True)
    return 0


def _sync(bootstrap: str, seconds: float) -> SingleSends:
    value = os.urandom(VALUE_BYTES)
    with Producer(bootstrap) as producer:
        times: list[float] = []
        for length in (WARM_UP_S, seconds):
            times, cpu, began = [], time.process_time(), time.perf_counter()
            before = began
            while before - began < length:
                producer.send(TOPIC, value)
                now = time.perf_counter()
                times.append(now - before)
                before = now
        return _measured("sync", times, cpu)


async def _asyncio(bootstrap: str, seconds: float) -> SingleSends:
    value = os.urandom(VALUE_BYTES)
    async with AsyncProducer(bootstrap) as producer:
        times: list[float] = []
        for length in (WARM_UP_S, seconds):
            times, cpu, began = [], time.process_time(), time.perf_counter()
            before = began
            while before - began < length:
                await producer.send(TOPIC, value)
                now = time.perf_counter()
                times.append(now - before)
                before = now
        return _measured("asyncio", times, cpu)


def _measured(way: str, times: list[float], cpu: float) -> SingleSends:
    cpu_us = (time.process_time() - cpu) / len(times) * 1e6
    return SingleSends(way, len(times) / sum(times), median(times) * 1e3, cpu_us, os.getloadavg()[0])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True, help="addresses of nodes")
    parser.add_argument("--seconds", type=float, default=3, help="of each producer and round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print a JSON object in each line")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
