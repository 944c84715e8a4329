"""Short functions for histories that tests write by hand, one call for each operation."""

from __future__ import annotations

from ledger.history import (
    Assign,
    Cancel,
    Close,
    Decide,
    Delivery,
    EndRequest,
    LeaseRequest,
    Open,
    OperationOutcome,
    Poll,
    Prepare,
    ProgressReport,
    Reveal,
    Schedule,
    Send,
    SharedReceive,
)

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


# In these tales, the histories' clock is 0 at this wall time, in ms since 1970.
CLOCK_MS = 1_800_000_000_000
# The broker, which makes the batches that deliver waiting messages.
BROKER = "0000000000000000"
_MS = 1_000_000


def schedule(
    identity: int | None,
    due: int,
    outcome: str = "ok",
    *,
    queue: int = 0,
    at: tuple[int, int] = (0, 5),
    payload: int | None = None,
) -> Schedule:
    """One message with a delivery time. `due` and `at` are in ms of the tale."""
    kind, start, end = OperationOutcome(outcome), at[0] * _MS, at[1] * _MS
    crcs = [crc(identity or 0) if payload is None else payload]
    shard = 3 if identity is not None else -1
    times, now_ms = [CLOCK_MS + due], CLOCK_MS + at[0]
    return Schedule(1, kind, "t", queue, shard, 1, identity, Q, 0, 0, times, crcs, [1], None, now_ms, start, end)


def cancel(identity: int, due: int, outcome: str = "ok", *, shard: int = 3) -> Cancel:
    return Cancel(1, OperationOutcome(outcome), shard, identity, CLOCK_MS + due, None, 10 * _MS, 11 * _MS)


def delivered(
    *messages: tuple[int, int, int],
    dated: int | None = None,
    at: int = 10_000,
    process: int = 2,
    node: int = 0,
    final: bool = False,
    queue: int = 0,
    payloads: list[int] | None = None,
) -> list[Delivery | Poll]:
    """A poll of one queue with messages that had waited, given as (offset, identity, delivery time in ms of the tale).
    The deliveries are dated at `dated`, by default at their delivery times. The poll ends at `at`, in ms of the
    tale."""
    offsets, identities, times = ([message[place] for message in messages] for place in range(3))
    crcs = payloads or [crc(identity) for identity in identities]
    times_ms, end = [CLOCK_MS + due for due in times], at * _MS
    dates = [CLOCK_MS + (due if dated is None else dated) for due in times]
    count = len(messages)
    return [
        Delivery(process, "t", queue, offsets, identities, times_ms, dates, crcs, end - 1, end),
        Poll(process, "t", queue, offsets, [BROKER] * count, [0] * count, offsets, crcs, node, final, end - 1, end),
    ]


def delivered_at_end(
    *messages: tuple[int, int, int], at: int = 20_000, payloads: list[int] | None = None
) -> list[Delivery | Poll]:
    """The final readings of three nodes, which begin shortly before `at`, in ms of the tale."""
    return [
        line
        for node in (1, 2, 3)
        for line in delivered(*messages, process=100 + node, node=node, final=True, at=at, payloads=payloads)
    ]


def reading_begins(at: int = 19_000, offset: int = 0) -> list[Assign]:
    """The final readings of three nodes begin, at `at` in ms of the tale."""
    return [Assign(100 + node, "t", 0, offset, at * _MS) for node in (1, 2, 3)]


def prepare(
    payload: int, number: int | None = 6, outcome: str = "ok", *, name: str = "x", queue: int = 0, at: int = 5
) -> Prepare:
    """One message of a transaction, acknowledged at `at` ms of the tale. The decision shard is 3."""
    kind, shard = OperationOutcome(outcome), -1 if number is None else 3
    return Prepare(1, kind, name, "t", queue, shard, number, payload, 1, None, at * _MS, at * _MS)


def decide(*, commit: bool, name: str = "x", at: int = 10) -> Decide:
    return Decide(1, name, commit, at * _MS)


def ended(outcome: str = "ok", *, commit: bool, name: str = "x") -> EndRequest:
    return EndRequest(1, OperationOutcome(outcome), name, commit, None, 10 * _MS, 15 * _MS)


def revealed(
    *messages: tuple[int, int, int],
    number: int = 6,
    at: int = 10_000,
    process: int = 2,
    node: int = 0,
    final: bool = False,
    queue: int = 0,
) -> list[Reveal | Poll]:
    """A poll of one queue with messages of transactions, given as (offset, half batch, payload). The poll ends at `at`,
    in ms of the tale."""
    offsets, halves, crcs = ([message[place] for message in messages] for place in range(3))
    count, end = len(messages), at * _MS
    return [
        Reveal(process, "t", queue, offsets, [3] * count, [number] * count, halves, crcs, end - 1, end),
        Poll(process, "t", queue, offsets, [BROKER] * count, [0] * count, offsets, crcs, node, final, end - 1, end),
    ]


def revealed_at_end(
    *messages: tuple[int, int, int], number: int = 6, at: int = 20_000, queue: int = 0
) -> list[Reveal | Poll]:
    """The final readings of three nodes, which begin shortly before `at`, in ms of the tale."""
    return [
        line
        for node in (1, 2, 3)
        for line in revealed(*messages, number=number, process=100 + node, node=node, final=True, at=at, queue=queue)
    ]


def received(
    *messages: tuple[int, int],
    at: tuple[int, int],
    process: int = 20,
    by_key: bool = True,
    group: str = "s",
    queue: int = 0,
) -> SharedReceive:
    """A receive of a shared group with a lease of 3 s. The messages are given as (offset, CRC of the key)."""
    offsets, keys = ([message[place] for message in messages] for place in range(2))
    return SharedReceive(process, group, by_key, "t", queue, offsets, keys, 3_000, at[0] * _MS, at[1] * _MS)


def change(
    what: str,
    offset: int,
    outcome: str = "ok",
    *,
    at: tuple[int, int],
    process: int = 20,
    group: str = "s",
    ms: int = 3_000,
) -> LeaseRequest:
    kind = OperationOutcome(outcome)
    return LeaseRequest(process, kind, what, group, "t", 0, offset, ms, None, at[0] * _MS, at[1] * _MS)


def opened(producer: str = P, process: int = 1) -> Open:
    return Open(process, producer, 0)


def closed(producer: str = P) -> Close:
    return Close(1, producer, 9_999)


def assign(offset: int, process: int = 2) -> Assign:
    return Assign(process, "t", 0, offset, 0)


def progress(offset: int, start: int, end: int) -> ProgressReport:
    return ProgressReport(3, "g", "t", 0, offset, start, end)
