"""Measures how fast `ledgermq validate` judges logs with a million leases or transactions, with one process and with
Spark. The logs are written with the encoders of the brokers, and without a cluster.

    .venv/bin/python -m bench.judging.generated_logs [--messages 1000000] [--only leases] [--engine plain "local[2]"]

In `leases`, each entry leases 512 messages of a shared group to 16 members, and acknowledges those of the entry before.
In `singles`, each entry does so with 52 messages and 52 members, so that each message has two changes of its own. In
`transactions`, nine tenths of the half batches of one message are committed, and the others are rolled back. The three
replicas are hard links of one log. `judge_s` is the time without the start of a Spark session, and `cpu_us` the
processor time of the plain engine for one message of one replica.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.judging.replicas import NODES, LogFiller, write_replicas
from bench.judging.waiting_log import judge
from bench.tables import options, show
from ledger.batch import DecidedColumn, HalfColumn, decided_batch, encode
from ledger.state.command_encoding import encode_command
from ledger.state.commands import (
    ChangeLeases,
    Command,
    CreateTopic,
    QueueLeases,
    RaiseFeatureLevel,
    RollBackHalves,
)
from ledger.state.consumer_group_table import TopicQueueId
from ledger.state.feature_levels import LATEST_LEVEL
from ledger.state.lease_table import ChangeKind, LeaseChange
from ledger.transactions import HALF_TOPIC
from store import EntryDraft, EntryKind

SEGMENT_BYTES = 256 << 20
VALUE = bytes(100)
TIME_MS = 1_800_000_000_000
PRODUCER = 7
QUEUES = 4
BATCH_MESSAGES = 500
LEASE_MS = 60_000
# Half batches of one turn, and how many of them are rolled back.
TURN_HALVES, ROLLED_BACK = 200, 20
HALF_ID, ORDERS_ID = 1, 2


@dataclass(frozen=True, slots=True)
class GeneratedLogFigures:
    log: str
    messages: int
    entries: int
    log_mb: float
    # How long it took to write the log.
    write_s: float
    engine: str
    judge_s: float
    cpu_us: float
    peak_mb: float
    violations: int


def command(wanted: Command) -> EntryDraft:
    return EntryDraft(EntryKind.COMMAND, encode_command(wanted))


def fill_leases(filler: LogFiller, messages: int, members: int, size: int) -> None:
    """Write `messages` messages into four queues, and let members of a group receive all of them with receives of
    `size` messages."""
    filler.append([command(RaiseFeatureLevel(LATEST_LEVEL)), command(CreateTopic("orders", QUEUES))])
    ends = [0] * QUEUES
    for number in range(messages // BATCH_MESSAGES):
        queue = number % QUEUES
        body = encode(
            [VALUE] * BATCH_MESSAGES, topic_id=1, queue=queue, producer_id=PRODUCER, epoch=0,
            first_sequence=ends[queue], base_timestamp_ms=TIME_MS,
        )  # fmt: skip
        filler.append([EntryDraft(EntryKind.BATCH, body, 1, queue, ends[queue], BATCH_MESSAGES)], now_ms=TIME_MS)
        ends[queue] += BATCH_MESSAGES
    chance, given, time_ms = random.Random(7), [0] * QUEUES, 0
    held: list[list[tuple[int, int]]] = [[] for _ in range(QUEUES)]
    lease = 0
    while any(held) or given != ends:
        queues = []
        for queue in range(QUEUES):
            changes = [LeaseChange(ChangeKind.ACKNOWLEDGE, first, count, lease) for first, count in held[queue]]
            held[queue] = []
            for _ in range(members // QUEUES):
                first, count = given[queue], min(size, ends[queue] - given[queue])
                if count:
                    receipt = chance.getrandbits(63)
                    changes.append(LeaseChange(ChangeKind.LEASE, first, count, 0, 0, LEASE_MS, receipt))
                    held[queue].append((first, count))
                    given[queue] += count
            queues.append(QueueLeases("billing", 3, TopicQueueId(1, queue), 0, tuple(changes)))
        time_ms += 20
        (header,) = filler.append([command(ChangeLeases(tuple(queues), time_ms))], now_ms=TIME_MS + time_ms)
        lease = header.index


def fill_transactions(filler: LogFiller, messages: int) -> None:
    """Write half batches of one message, and commit or roll back each of them."""
    filler.append([command(RaiseFeatureLevel(LATEST_LEVEL)), command(CreateTopic(HALF_TOPIC, 1))])
    filler.append([command(CreateTopic("orders", QUEUES))])
    ends = [0] * QUEUES
    for begin in range(0, messages, TURN_HALVES):
        bodies = [
            encode(
                [VALUE], topic_id=HALF_ID, queue=0, producer_id=PRODUCER, epoch=0, first_sequence=number,
                base_timestamp_ms=TIME_MS, half=HalfColumn(ORDERS_ID, number % QUEUES, 0, "checkout"),
            )
            for number in range(begin, min(begin + TURN_HALVES, messages))
        ]  # fmt: skip
        halves = [EntryDraft(EntryKind.BATCH, body, HALF_ID, 0, number, 1) for number, body in enumerate(bodies, begin)]
        filler.append(halves, now_ms=TIME_MS + begin // 10)
        decided = []
        for number, body in list(enumerate(bodies, begin))[ROLLED_BACK:]:
            queue = number % QUEUES
            column = DecidedColumn(number, number, 0, decides=True)
            same = decided_batch(body, column, topic_id=ORDERS_ID, queue=queue, first_sequence=ends[queue])
            decided.append(EntryDraft(EntryKind.BATCH, same, ORDERS_ID, queue, ends[queue], 1))
            ends[queue] += 1
        rolled_back = RollBackHalves(tuple(range(begin, begin + min(ROLLED_BACK, len(bodies)))))
        filler.append([*decided, command(rolled_back)], now_ms=TIME_MS + begin // 10 + 5)


# What fills a log with so many messages.
LOGS: dict[str, Callable[[LogFiller, int], None]] = {
    "leases": lambda filler, messages: fill_leases(filler, messages, 16, 32),
    "singles": lambda filler, messages: fill_leases(filler, messages, 52, 1),
    "transactions": fill_transactions,
}


def measured(name: str, directory: Path, messages: int, engines: list[str]) -> list[GeneratedLogFigures]:
    fill, count = LOGS[name], messages // BATCH_MESSAGES * BATCH_MESSAGES
    began, log_mb = time.perf_counter(), 0.0

    def fill_all(filler: LogFiller) -> None:
        nonlocal log_mb
        fill(filler, count)
        log_mb = filler.end / 1e6

    sources = write_replicas(directory, fill_all, SEGMENT_BYTES, linked=True)
    write_s = time.perf_counter() - began
    rows = []
    for engine in engines:
        found = judge(engine, sources, count, log_mb)
        cpu_us = 1e6 * found.cpu_s / count / len(NODES) if engine == "plain" else 0.0
        rows.append(
            GeneratedLogFigures(
                name, count, found.entries, log_mb, write_s, engine, found.judge_s, cpu_us, found.peak_mb,
                found.violations,
            )
        )  # fmt: skip
    return rows


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000, help="messages of each log (default: 1,000,000)")
    parser.add_argument("--only", choices=LOGS, nargs="+", help="judge only these logs")
    parser.add_argument(
        "--engine", nargs="+", default=["plain", "local[2]"], help='"plain", or the address of a master'
    )
    given = parser.parse_args()
    rows: list[GeneratedLogFigures] = []
    for name in given.only or LOGS:
        with tempfile.TemporaryDirectory(dir=given.directory) as directory:
            rows += measured(name, Path(directory), given.messages, given.engine)
    show({"Judging": rows}, as_json=given.json)


if __name__ == "__main__":
    main()
