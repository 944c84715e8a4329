"""A log of one replica, of which everything is wrong: more of each kind than is told one by one."""

from __future__ import annotations

from pathlib import Path

from ledger.history import HistoryWriter, Open, OperationOutcome, Send
from ledger.validation.judging.bound import MAX_TOLD
from ledger.validation.judging.violation import ViolationKind
from store import EntryDraft, EntryKind
from store.index.consume_queue import UNIT_BYTES
from tests.ledger.validation.stopped_cluster import ORDERS, PRODUCER, Writer

SEGMENT_BYTES = 1 << 20
GAPS, BROKEN, UNITS, MISSING = MAX_TOLD + 20, MAX_TOLD + 30, MAX_TOLD // 2, 20 * MAX_TOLD
COUNTS = {
    ViolationKind.DAMAGED_BATCH: BROKEN,
    ViolationKind.SEQUENCE_GAP: GAPS,
    ViolationKind.UNIT_WRONG: UNITS,
    ViolationKind.ACKNOWLEDGED_MISSING: MISSING,
}
"""What must be counted."""


def write_wrong_log(path: Path) -> tuple[str, Path]:
    """Write a log with very many faults, and return the source and a history. All faults are in one segment. Every
    second ConsumeQueue unit is wrong."""
    writer = Writer(path / "node-1", segment_bytes=SEGMENT_BYTES)
    writer.create_topic("orders", 2)
    key = (PRODUCER, ORDERS, 0)
    for _ in range(GAPS + 1):
        writer.batch([b"value"])
        writer.sequences[key] += 7
    for _ in range(BROKEN):
        writer.append(EntryDraft(EntryKind.BATCH, b"this is no batch"))
    writer.append(EntryDraft(EntryKind.NO_OP, b""))
    writer.stop()
    units = path / "node-1" / "shard-0" / "queues" / f"{ORDERS}-0" / f"{0:020}"
    data = bytearray(units.read_bytes())
    for number in range(UNITS):
        data[2 * number * UNIT_BYTES] ^= 1
    units.write_bytes(data)
    return str(path / "node-1"), _history(path / "history.jsonl")


def _history(path: Path) -> Path:
    """Write a history of acknowledged messages that are in no log."""
    producer = f"{PRODUCER + 1:016x}"
    with HistoryWriter(path) as writer:
        writer.write(Open(1, producer, 1))
        for first in range(0, MISSING, 1000):
            crcs, sizes = [7] * 1000, [1] * 1000
            writer.write(
                Send(1, OperationOutcome.OK, "orders", 1, True, first, producer, 0, first, crcs, sizes, None, 1, 2)
            )
    return path
