"""Measures shared consumer groups on a cluster of three nodes, with the clients on the same cores.

    .venv/bin/python -m bench.node.shared [--messages 200000] [--members 50] [--directory PATH]

All messages have 100 bytes. The case `batches` receives and acknowledges with receives of 32 messages, by 16 members;
`singles` receives and acknowledges one message at a time, by many members on two queues; `keys` does the same as
`batches` with order by key and 1,000 keys, by 8 members on two queues, and counts messages that a member had before an
earlier message of their key was acknowledged (`inversions`). `fewest` and `most` are the messages of the members that
got the fewest and the most.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from bench.local_cluster import fresh_cluster
from bench.tables import options, show
from ledgermq import AsyncAdmin, AsyncProducer, AsyncSharedConsumer, OutgoingMessage, SharedMessage

VALUE = bytes(100)
CALL_MESSAGES = 10_000
KEYS = 1_000
# A receive without messages after this time means that all messages are handed out.
LAST_WAIT_MS = 1_000


@dataclass(frozen=True, slots=True)
class LeaseRateFigures:
    case: str
    members: int
    queues: int
    messages: int
    per_s: int
    fewest: int
    most: int
    # Messages that were handed out more than once.
    repeated: int
    inversions: int


class Ledger:
    """What all members together have received and acknowledged."""

    def __init__(self, messages: int) -> None:
        self.messages = messages
        self.by_member: Counter[int] = Counter()
        self.seen: Counter[tuple[int, int]] = Counter()
        self.in_hand: defaultdict[bytes, set[int]] = defaultdict(set)
        self.last: dict[tuple[int, bytes], int] = {}
        self.inversions = 0
        self.ended_s = 0.0

    @property
    def is_complete(self) -> bool:
        return len(self.seen) >= self.messages

    def received(self, member: int, messages: list[SharedMessage]) -> None:
        self.by_member[member] += len(messages)
        for message in messages:
            self.seen[message.queue, message.offset] += 1
            if message.key is None:
                continue
            place = (message.queue, message.key)
            if self.in_hand[message.key] or self.last.get(place, -1) >= message.offset:
                self.inversions += 1
            self.in_hand[message.key].add(message.offset)
            self.last[place] = message.offset
        self.ended_s = time.perf_counter()

    def acknowledging(self, messages: list[SharedMessage]) -> None:
        for message in messages:
            if message.key is not None:
                self.in_hand[message.key].discard(message.offset)


async def work(bootstrap: str, group: str, member: int, size: int, ledger: Ledger, ready: asyncio.Barrier) -> None:
    async with AsyncSharedConsumer("shared", group=group, bootstrap_servers=bootstrap) as consumer:
        await ready.wait()
        messages: list[SharedMessage] = []
        while messages or not ledger.is_complete:
            ledger.acknowledging(messages)
            messages = await consumer.receive(size, ack=messages, max_wait_ms=LAST_WAIT_MS)
            ledger.received(member, messages)


async def measure(bootstrap: str, case: str, queues: int, members: int, messages: int, size: int) -> LeaseRateFigures:
    async with AsyncAdmin(bootstrap) as admin, AsyncProducer(bootstrap) as producer:
        await admin.create_topic("shared", queues)
        await admin.create_consumer_group("bench", order="key" if case == "keys" else None)
        for first in range(0, messages, CALL_MESSAGES):
            some = range(first, min(first + CALL_MESSAGES, messages))
            keys = [b"%d" % (number % KEYS) if case == "keys" else None for number in some]
            await producer.send_many("shared", [OutgoingMessage(VALUE, key=key) for key in keys])
    ledger, ready = Ledger(messages), asyncio.Barrier(members + 1)
    async with asyncio.TaskGroup() as tasks:
        for member in range(members):
            tasks.create_task(work(bootstrap, "bench", member, size, ledger, ready))
        await ready.wait()
        began = time.perf_counter()
    counts = [ledger.by_member[member] for member in range(members)]
    return LeaseRateFigures(
        case,
        members,
        queues,
        messages,
        round(messages / (ledger.ended_s - began)),
        min(counts),
        max(counts),
        sum(1 for times in ledger.seen.values() if times > 1),
        ledger.inversions,
    )


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--messages", type=int, default=200_000, help="messages of the case `batches`")
    parser.add_argument("--members", type=int, default=50, help="members of the case `singles`")
    given = parser.parse_args()
    rows = []
    cases = (
        ("batches", 8, 16, given.messages, 32),
        ("singles", 2, given.members, given.messages // 20, 1),
        ("keys", 2, 8, given.messages // 4, 32),
    )
    with tempfile.TemporaryDirectory(dir=given.directory) as name:
        for case, *numbers in cases:
            with fresh_cluster(Path(name) / case, 3) as cluster:
                rows.append(asyncio.run(measure(cluster.bootstrap, case, *numbers)))
    show({"Shared groups": rows}, as_json=given.json)


if __name__ == "__main__":
    main()
