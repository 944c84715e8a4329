"""Measures transactions of one message on a cluster of three nodes, beside plain sends.

    .venv/bin/python -m bench.node.transactions [--seconds 10] [--in-flight 200] [--directory PATH]

All messages have 100 bytes and go to 16 queues. `one` has one send, or transaction, at a time. The other rows have many
at a time in one producer. A transaction is a send and a commit, both awaited; `p50` and `p99` are the times of one send
or transaction in ms. Sends and transactions take turns of a second, so that both meet the same machine.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import uvloop

from bench.local_cluster import fresh_cluster
from bench.tables import options, show
from ledgermq import AsyncAdmin, AsyncProducer

QUEUES = 16
VALUE = bytes(100)


@dataclass(frozen=True, slots=True)
class TransactionRateFigures:
    case: str
    in_flight: int
    per_s: float
    p50_ms: float
    p99_ms: float
    # The time of a transaction as a multiple of that of a plain send.
    times_a_send: float | None


class WorkTimes:
    """The times of one kind of work."""

    def __init__(self, work: Callable[[int], Awaitable[object]]) -> None:
        self._work = work
        self._times_s: list[float] = []
        self._spent_s = 0.0

    async def take(self, seconds: float, in_flight: int) -> None:
        """Work for this long, with `in_flight` calls at a time."""
        began = time.perf_counter()

        async def one(first: int) -> None:
            number = first
            while (start := time.perf_counter()) - began < seconds:
                await self._work(number)
                self._times_s.append(time.perf_counter() - start)
                number += in_flight

        await asyncio.gather(*[one(first) for first in range(in_flight)])
        self._spent_s += time.perf_counter() - began

    @property
    def mean_s(self) -> float:
        return self._spent_s / len(self._times_s)

    def row(self, case: str, in_flight: int, sends: WorkTimes | None) -> TransactionRateFigures:
        p50, p99 = np.percentile(np.array(self._times_s) * 1000, (50, 99))
        multiple = None if sends is None else self.mean_s / sends.mean_s
        return TransactionRateFigures(case, in_flight, 1 / self.mean_s, float(p50), float(p99), multiple)


async def measure(bootstrap: str, seconds: int, in_flight: int) -> list[TransactionRateFigures]:
    rows = []
    async with AsyncAdmin(bootstrap) as admin, AsyncProducer(bootstrap) as producer:
        await admin.create_topic("bench", QUEUES)

        async def send(number: int) -> None:
            await producer.send("bench", VALUE, queue=number % QUEUES)

        async def transact(number: int) -> None:
            async with producer.transaction("bench", group="bench") as transaction:
                await transaction.send(VALUE, queue=number % QUEUES)

        for case, at_a_time in (("one", 1), ("many", in_flight)):
            sends, transactions = WorkTimes(send), WorkTimes(transact)
            await WorkTimes(send).take(1, at_a_time)
            await WorkTimes(transact).take(1, at_a_time)
            for _ in range(seconds):
                await sends.take(1, at_a_time)
                await transactions.take(1, at_a_time)
            rows.append(sends.row(f"{case}: sends", at_a_time, None))
            rows.append(transactions.row(f"{case}: transactions", at_a_time, sends))
    return rows


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--seconds", type=int, default=10, help="seconds of each row (default: 10)")
    parser.add_argument("--in-flight", type=int, default=200, help="transactions at a time (default: 200)")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=given.directory) as name,
        fresh_cluster(Path(name) / "transactions", 3) as cluster,
    ):
        rows = uvloop.run(measure(cluster.bootstrap, given.seconds, given.in_flight))
    show({"Transactions": rows}, as_json=given.json)


if __name__ == "__main__":
    main()
