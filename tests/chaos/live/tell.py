"""Short functions for histories that tests write by hand, one call for each operation."""

from __future__ import annotations

from ledger.history import Assign, Close, Open, OperationOutcome, Poll, ProgressReport, Send

# Two producers.
P, Q = "000000000000000a", "000000000000000b"


def crc(sequence: int) -> int:
    """Return the CRC of a payload that differs from message to message."""
    return 1000 + sequence


def send(
    sequence: int,
    offset: int | None,
    outcome: str = "ok",
    *,
    producer: str = P,
    process: int = 1,
    queue: int = 0,
    epoch: int = 0,
    at: tuple[int, int] | None = None,
    payload: int | None = None,
    bound: bool = True,
) -> Send:
    """One message. By default the send begins at time 10 x sequence, and is answered at time 10 x sequence + 5."""
    start, end = at or (10 * sequence, 10 * sequence + 5)
    crcs = [crc(sequence) if payload is None else payload]
    kind = OperationOutcome(outcome)
    return Send(process, kind, "t", queue, bound, offset, producer, epoch, sequence, crcs, [1], None, start, end)


def poll(
    *messages: tuple[int, int],
    producer: str = P,
    process: int = 2,
    queue: int = 0,
    node: int = 0,
    final: bool = False,
    at: tuple[int, int] = (10_000, 10_001),
    payloads: list[int] | None = None,
) -> Poll:
    """A poll of one queue; the messages are given as (offset, sequence)."""
    offsets, sequences = [offset for offset, _ in messages], [sequence for _, sequence in messages]
    count = len(messages)
    crcs = payloads or [crc(sequence) for sequence in sequences]
    return Poll(process, "t", queue, offsets, [producer] * count, [0] * count, sequences, crcs, node, final, *at)


def end(*messages: tuple[int, int], nodes: tuple[int, ...] = (1, 2, 3), queue: int = 0) -> list[Poll]:
    """Return the final readings of all nodes."""
    return [poll(*messages, process=100 + node, node=node, final=True, queue=queue) for node in nodes]


def opened(producer: str = P) -> Open:
    return Open(1, producer, 0)


def closed(producer: str = P) -> Close:
    return Close(1, producer, 9_999)


def assign(offset: int, process: int = 2) -> Assign:
    return Assign(process, "t", 0, offset, 0)


def progress(offset: int, start: int, end: int) -> ProgressReport:
    return ProgressReport(3, "g", "t", 0, offset, start, end)
