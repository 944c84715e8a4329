"""Sends JSON rows with a key each in four ways, one after the other, from one process.

    send_many     a list of pairs (key, value)
    send_table    an Arrow table, if pyarrow is installed
    send_nowait   the synchronous producer, one call for each row in a loop; then the result of each future
    async         the asyncio producer's send_nowait in the same way

.venv/bin/python -m bench.clients.keyed_rows --bootstrap HOST:PORT [--rows 200000] [--rounds 3] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec

from cluster.grpc_engine import prefer_older_engine

prefer_older_engine()  # before anything imports grpc

from ledgermq import Admin, AsyncProducer, Producer  # noqa: E402

TOPIC, QUEUES, KEYS = "keyed-rows", 4, 5_000
WARM_UP_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class SendingRound:
    """One way of sending in one round. `cpu_us` is the CPU time of this process for each row; `load` is the number of
    runnable processes of the machine in the last minute."""

    way: str
    rows_per_s: float
    cpu_us: float
    load: float


class Rows:
    """The rows to send, in the forms that the ways of sending take."""

    def __init__(self, count: int) -> None:
        self.keys = [b"customer %d" % (number % KEYS) for number in range(count)]
        self.values = [
            json.dumps({"id": number, "customer": f"customer {number % KEYS}", "amount": number * 7 % 1000}).encode()
            for number in range(count)
        ]
        self.pairs = list(zip(self.keys, self.values, strict=True))

    def __len__(self) -> int:
        return len(self.values)


def main() -> int:
    given = _arguments()
    rows = Rows(given.rows)
    with Admin(given.bootstrap) as admin:
        if TOPIC not in {topic.name for topic in admin.list_topics()}:
            admin.create_topic(TOPIC, QUEUES)
    measured = [one for _ in range(given.rounds) for one in _round(given.bootstrap, rows)]
    for one in measured:
        shown = f"{one.way:12} {one.rows_per_s:12,.0f} rows/s {one.cpu_us:8.2f} µs CPU   load {one.load:.1f}"
        print(json.dumps(asdict(one)) if given.json else shown, flush=True)
    return 0


def _round(bootstrap: str, rows: Rows) -> list[SendingRound]:
    found = []
    with Producer(bootstrap) as producer:
        producer.send_many(TOPIC, rows.pairs[:WARM_UP_ROWS])
        found.append(_timed("send_many", len(rows), lambda: producer.send_many(TOPIC, rows.pairs)))
        if find_spec("pyarrow") is not None:
            import pyarrow

            table = pyarrow.table({"key": rows.keys, "value": rows.values})
            send = lambda: producer.send_table(TOPIC, table, value="value", key="key")  # noqa: E731
            found.append(_timed("send_table", len(rows), send))
        found.append(_timed("send_nowait", len(rows), lambda: _send_nowait(producer, rows)))
    found.append(asyncio.run(_send_async(bootstrap, rows)))
    return found


def _send_nowait(producer: Producer, rows: Rows) -> None:
    futures = [producer.send_nowait(TOPIC, value, key=key) for key, value in rows.pairs]
    for future in futures:
        future.result()


async def _send_async(bootstrap: str, rows: Rows) -> SendingRound:
    async with AsyncProducer(bootstrap) as producer:
        await producer.send_many(TOPIC, rows.pairs[:WARM_UP_ROWS])
        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*[producer.send_nowait(TOPIC, value, key=key) for key, value in rows.pairs])
        return _measured("async", len(rows), began, cpu)


def _timed(way: str, rows: int, send: Callable[[], object]) -> SendingRound:
    began, cpu = time.perf_counter(), time.process_time()
    send()
    return _measured(way, rows, began, cpu)


def _measured(way: str, rows: int, began: float, cpu: float) -> SendingRound:
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    return SendingRound(way, rows / seconds, cpu_s / rows * 1e6, os.getloadavg()[0])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True, help="addresses of nodes")
    parser.add_argument("--rows", type=int, default=200_000, help="rows of each way and round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="rounds (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print a JSON object in each line")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
