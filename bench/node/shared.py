"""Measures shared consumer groups on a cluster of three nodes, with the clients on the same cores.

    .venv/bin/python -m bench.node.shared [--messages 200000] [--members 50] [--directory PATH]

All messages have 100 bytes. The case `batches` receives and acknowledges with receives of 32 messages, by 16 members;
`singles` receives and acknowledges one message at a time, by many members on two queues; `keys` does the same as
`batches` with order by key and 1,000 keys, by 8 members on two queues, and counts messages that a member had before an
earlier message of their key was acknowledged (`inversions`). `fewest` and `most` are the messages of the members that
got the fewest and the most. In the case `failing`, which is otherwise like `keys`, the messages of one key fail each
time; `per_s` counts the messages of the other keys.
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
# The key whose messages fail in the case `failing`, and the time after which the first of them is handed out again.
FAILING_KEY = b"7"
FAILING_DELAY_MS = 500
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
    """What all members together have received and acknowledged. Messages with the key `failing` are not counted."""

    def __init__(self, messages: int, failing: bytes | None = None) -> None:
        self.messages = messages
        self.failing = failing
        self.by_member: Counter[int] = Counter()
        self.seen: Counter[tuple[int, int]] = Counter()
        self.in_hand: defaultdict[bytes, set[int]] = defaultdict(set)
        self.last: dict[tuple[int, bytes], int] = {}
        self.inversions = 0
        self.ended_s = 0.0

    @property
    def is_complete(self) -> bool:
        return len(self.seen) >= self.messages

    def received(self, member: int, messages: list[SharedMessage]) -> list[SharedMessage]:
        """Count the messages, and return those whose work succeeds."""
        good = [message for message in messages if message.key is None or message.key != self.failing]
        if not good:
            return good
        self.by_member[member] += len(good)
        for message in good:
            self.seen[message.queue, message.offset] += 1
            if message.key is None:
                continue
            place = (message.queue, message.key)
            if self.in_hand[message.key] or self.last.get(place, -1) >= message.offset:
                self.inversions += 1
            self.in_hand[message.key].add(message.offset)
            self.last[place] = message.offset
        self.ended_s = time.perf_counter()
        return good

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
            given = await consumer.receive(size, ack=messages, max_wait_ms=LAST_WAIT_MS)
            messages = ledger.received(member, given)
            if len(messages) < len(given):
                await consumer.nack([each for each in given if each not in messages], delay_ms=FAILING_DELAY_MS)


@dataclass(frozen=True, slots=True)
class SharedCase:
    """What one measurement does: so many members read so many messages, with receives of `size` messages."""

    name: str
    queues: int
    members: int
    messages: int
    size: int

    @property
    def has_keys(self) -> bool:
        return self.name in ("keys", "failing")


def shared_cases(messages: int, members: int) -> list[SharedCase]:
    """Return the cases. `messages` are those of the case `batches`, and `members` those of the case `singles`."""
    return [
        SharedCase("batches", 8, 16, messages, 32),
        SharedCase("singles", 2, members, messages // 20, 1),
        SharedCase("keys", 2, 8, messages // 4, 32),
        # Few enough for the windows of the two queues: the first message of the failing key is never settled.
        SharedCase("failing", 2, 8, min(messages // 4, 30_000), 32),
    ]


async def measure(bootstrap: str, case: SharedCase) -> LeaseRateFigures:
    members, messages = case.members, case.messages
    async with AsyncAdmin(bootstrap) as admin, AsyncProducer(bootstrap) as producer:
        await admin.create_topic("shared", case.queues)
        await admin.create_consumer_group("bench", order="key" if case.has_keys else None)
        for first in range(0, messages, CALL_MESSAGES):
            some = range(first, min(first + CALL_MESSAGES, messages))
            keys = [b"%d" % (number % KEYS) if case.has_keys else None for number in some]
            await producer.send_many("shared", [OutgoingMessage(VALUE, key=key) for key in keys])
    ledger, ready = Ledger(messages), asyncio.Barrier(members + 1)
    if case.name == "failing":
        ledger = Ledger(
            messages - sum(b"%d" % (number % KEYS) == FAILING_KEY for number in range(messages)), FAILING_KEY
        )
    async with asyncio.TaskGroup() as tasks:
        for member in range(members):
            tasks.create_task(work(bootstrap, "bench", member, case.size, ledger, ready))
        await ready.wait()
        began = time.perf_counter()
    counts = [ledger.by_member[member] for member in range(members)]
    return LeaseRateFigures(
        case.name,
        members,
        case.queues,
        messages,
        round(ledger.messages / (ledger.ended_s - began)),
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
    with tempfile.TemporaryDirectory(dir=given.directory) as name:
        for case in shared_cases(given.messages, given.members):
            with fresh_cluster(Path(name) / case.name, 3) as cluster:
                rows.append(asyncio.run(measure(cluster.bootstrap, case)))
    show({"Shared groups": rows}, as_json=given.json)


if __name__ == "__main__":
    main()
