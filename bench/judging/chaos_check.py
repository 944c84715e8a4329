"""Measures how long the checker of chaos runs needs for a large history. In the history, many producers send messages,
and all messages are read back from three nodes.

    .venv/bin/python -m bench.judging.chaos_check --sends 300000                    a minute, most of it to write the
                                                                                    history
    .venv/bin/python -m bench.judging.chaos_check --sends 300000 1000000 10000000   to see how the time grows

The history is what clients of a cluster without faults would record. The script writes the history to a file and reads
it like the history of a chaos run. A history of 10 million sends needs 5 GB on disk and 10 GB of memory.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.tables import options, show
from chaos.live.checker.columns import columns_of
from chaos.live.checker.verdict import judge
from ledger.history import HistoryWriter, Open, Operation, OperationOutcome, Poll, Send, read_history

TOPIC, QUEUES, NODES = "orders", 8, (1, 2, 3)
PRODUCERS = 96
# The number of producers that send to each queue in turn.
SHARE = PRODUCERS // QUEUES
# The number of messages that a consumer receives at once.
AT_ONCE = 500
MESSAGE_BYTES = 100


@dataclass(frozen=True, slots=True)
class CheckerFigures:
    sends: int
    reads: int
    history_mb: int
    cpu_s: float
    # Processor time for each message sent and each message read.
    us_per_message: float
    # The largest memory of the process so far. The process has judged the smaller histories before.
    memory_gb: float


def history(rounds: int) -> Iterator[Operation]:
    """Yield the operations that the clients of a run would record. In each round of the history, every producer
    sends once."""
    now = 0
    for producer in range(PRODUCERS):
        yield Open(producer, _name(producer), now)
    for sequence in range(rounds):
        for producer in range(PRODUCERS):
            offset, queue = sequence * SHARE + producer // QUEUES, producer % QUEUES
            crcs, sizes, now = [_crc(producer, sequence)], [MESSAGE_BYTES], now + 2
            yield Send(
                producer, OperationOutcome.OK, TOPIC, queue, True, offset, _name(producer), 0, sequence, crcs, sizes,
                None, now, now + 1,
            )  # fmt: skip
    for node in NODES:
        for queue in range(QUEUES):
            yield from _reading(node, queue, rounds * SHARE, now + 2)


def _reading(node: int, queue: int, end: int, now: int) -> Iterator[Poll]:
    for first in range(0, end, AT_ONCE):
        offsets = list(range(first, min(first + AT_ONCE, end)))
        met = [(queue + QUEUES * (offset % SHARE), offset // SHARE) for offset in offsets]
        producers, sequences = [_name(producer) for producer, _ in met], [sequence for _, sequence in met]
        crcs, epochs = [_crc(*each) for each in met], [0] * len(met)
        process = PRODUCERS + node * QUEUES + queue
        yield Poll(
            process, TOPIC, queue, offsets, producers, epochs, sequences, crcs, node, True, now + first, now + first + 1
        )


def _name(producer: int) -> str:
    return f"{producer:016x}"


def _crc(producer: int, sequence: int) -> int:
    return (sequence * PRODUCERS + producer) * 2_654_435_761 & 0xFFFF_FFFF


def measured(path: Path, sends: int) -> CheckerFigures:
    with HistoryWriter(path) as writer:
        for operation in history(sends // PRODUCERS):
            writer.write(operation)
    begun = time.process_time()
    verdict = judge(columns_of(read_history(path)))
    cpu = time.process_time() - begun
    assert verdict.valid, verdict
    sent, read = verdict.figures["acknowledged"], verdict.figures["read"]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return CheckerFigures(sent, read, path.stat().st_size // 10**6, cpu, cpu * 1e6 / (sent + read), memory / 1e9)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--sends", type=int, nargs="+", default=[300_000])
    chosen = parser.parse_args()
    rows = []
    for sends in sorted(chosen.sends):
        with tempfile.TemporaryDirectory(dir=chosen.directory, prefix="history-") as directory:
            rows.append(measured(Path(directory) / "history.jsonl", sends))
    show({"Judging a history": rows}, as_json=chosen.json)


if __name__ == "__main__":
    main()
