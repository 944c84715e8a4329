"""Computes the steps by which a run of entries changes the replicated state. Of a run, a replay needs only the steps.

    entries   batch batch batch ... batch  command  batch batch ... batch   cut   batch ...
    steps     [the last few of each      ] command  [the last few         ] cut   [...

The state remembers only the last few batches of a producer in a queue, and the end of a queue. All other batches
between two commands are left out, and the replayed state is the same (tests/ledger/validation/test_steps.py). Because
other batches are left out, the time of a replay depends on the number of commands and producers, and not on the number
of entries.

A *cut* is an index at which the digest of the state is kept, because a snapshot exists there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xxhash

from ledger.batch import (
    Batch,
    BatchHeader,
    copied_identities,
    decided_column,
    fired_column,
    half_column,
    message_ids,
    read_in,
    timed_column,
)
from ledger.batch.check import check_header
from ledger.batch.header import COPIED, DECIDED, FIRED, HALF, HEADER_BYTES, HEADERS, MESSAGE_IDS
from ledger.errors import LedgerError
from ledger.retries import place_before
from ledger.state import PreparedHalf, Settlement
from ledger.state.sequence import REMEMBERED_BATCHES
from ledger.validation.spans.batches import Facts, body_of
from ledger.validation.spans.block import SpanBlock
from ledger.validation.spans.continuity import BROKER, Continuity
from ledger.validation.spans.entries import Entries
from ledger.validation.spans.message_contents import message_contents
from ledger.validation.spans.waiting_columns import WaitingColumns, is_waiting, waiting_columns
from store import EntryKind, LogTail
from store.log.entry import HEADER_SIZE


@dataclass(frozen=True, slots=True)
class RunBegins:
    """A run begins at entry `index`. `RunBegins` has the first batch of each queue and of each producer in the run."""

    index: int
    position: int
    queue_heads: Facts
    producer_heads: Facts


@dataclass(frozen=True, slots=True)
class RunEnds:
    index: int


@dataclass(frozen=True, slots=True)
class BatchesApplied:
    # The batches that the replay applies.
    facts: Facts


@dataclass(frozen=True, slots=True)
class CommandApplied:
    index: int
    append_time_ms: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Configured:
    index: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Moved:
    """A batch that the broker itself wrote to move a message to a retry topic or to the dead letters."""

    index: int
    topic_id: int
    before: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Waited:
    """The batches of waiting messages between two other steps. They come before the steps that deliver, cancel or
    settle their messages."""

    columns: WaitingColumns


@dataclass(frozen=True, slots=True)
class Copied:
    """A batch that copies waiting messages: their identities, their delivery times in ms since 1970, and hashes of
    them."""

    index: int
    # The queue to which they will be delivered.
    target_topic_id: int
    target_queue: int
    identities: list[int]
    times: list[int]
    contents: list[int]
    # Where the batch is.
    position: int
    topic_id: int
    queue: int
    offset: int


@dataclass(frozen=True, slots=True)
class TimedDelivered:
    """A batch that delivers waiting messages: their identities, their delivery times in ms since 1970, and hashes of
    them."""

    index: int
    identities: list[int]
    times: list[int]
    contents: list[int]
    # Where the batch is.
    position: int = 0
    topic_id: int = 0
    queue: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class HalfPrepared:
    """A half batch, in a queue of the topic `half_topic_id`. `contents` is a hash of its messages."""

    index: int
    half_topic_id: int
    half: PreparedHalf
    contents: int


@dataclass(frozen=True, slots=True)
class HalfSettled:
    """A batch with the messages of a half batch. `contents` is a hash of its messages."""

    index: int
    settled: Settlement
    contents: int
    # Where the batch is.
    position: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class IdsGiven:
    """A batch whose messages have ids, which count for the topic that consumers read."""

    index: int
    append_time_ms: int
    read_in: int
    ids: list[bytes]
    # Where the batch is.
    position: int
    topic_id: int
    queue: int
    offset: int


@dataclass(frozen=True, slots=True)
class StateCut:
    index: int
    # Of the entry there.
    tail: LogTail
    # No entry of the run is missing before it: else its place is known, and the state there is not.
    is_reached: bool = True


_Boundary = (
    CommandApplied | Configured | Moved | Copied | TimedDelivered | HalfPrepared | HalfSettled | IdsGiven | StateCut
)
Step = RunBegins | RunEnds | BatchesApplied | Waited | _Boundary


def steps_of(
    block: SpanBlock, entries: Entries, facts: Facts, continuity: Continuity, cuts: Sequence[int]
) -> list[Step]:
    """`cuts`: ascending."""
    first, last = int(entries.rows["index"][0]), int(entries.rows["index"][-1])
    inside = [_cut(entries, cut) for cut in cuts if first <= cut <= last]
    boundaries = _boundaries(block, entries, facts, [cut for cut in inside if cut is not None])
    edges = np.array([_edge(boundary) for boundary in boundaries], np.int64)
    indexes = facts["index"].astype(np.int64)
    part = np.searchsorted(edges, indexes * 2 + 1)
    kept = _kept(part, continuity)
    kept_part = part[kept]
    steps: list[Step] = [
        RunBegins(
            first,
            int(entries.rows["position"][0]),
            facts[np.sort(continuity.queue_heads)],
            facts[np.sort(continuity.producer_heads)],
        )
    ]
    waiting = np.flatnonzero(is_waiting(facts))
    numbers = np.arange(len(boundaries) + 2)
    cut_at, waiting_at = np.searchsorted(kept_part, numbers), np.searchsorted(part[waiting], numbers)
    for number in range(len(boundaries) + 1):
        mine = kept[cut_at[number] : cut_at[number + 1]]
        if len(mine):
            steps.append(BatchesApplied(facts[mine]))
        waited = waiting[waiting_at[number] : waiting_at[number + 1]]
        if len(waited):
            steps.append(Waited(waiting_columns(block, facts[waited])))
        if number < len(boundaries):
            steps.append(boundaries[number])
    steps.append(RunEnds(last))
    return steps


def _cut(entries: Entries, index: int) -> StateCut | None:
    """Return a cut at this entry if the run contains the entry."""
    places = np.flatnonzero(entries.rows["index"] == np.uint64(index))
    if not len(places):
        return None
    header = entries.header(int(places[0]))
    return StateCut(index, LogTail.of(header), is_reached=index == int(entries.rows["index"][0]) + int(places[0]))


def _edge(boundary: _Boundary) -> int:
    """Return a sort key for a cut or command, to be compared with the keys of batches: the key of a batch is twice
    its index plus one. The key of a command is twice its index. The key of a cut is two more, because the entry at
    its index comes before the cut."""
    return boundary.index * 2 + (2 if isinstance(boundary, StateCut) else 0)


def _kept(part: np.ndarray, continuity: Continuity) -> np.ndarray:
    """Return the last few batches of each producer and queue in each part of the run, in the order of the log."""
    order = continuity.by_producer
    starts = continuity.producer_starts.copy()
    parts = part[order]
    starts[1:] |= parts[1:] != parts[:-1]
    group = np.cumsum(starts) - 1
    ends = np.append(np.flatnonzero(starts)[1:], len(order))
    from_behind = ends[group] - np.arange(len(order))
    return np.sort(order[from_behind <= REMEMBERED_BATCHES])


def _boundaries(block: SpanBlock, entries: Entries, facts: Facts, cuts: Sequence[StateCut]) -> list[_Boundary]:
    found: list[_Boundary] = [*cuts]
    for number in np.flatnonzero(
        (entries.rows["kind"] == EntryKind.COMMAND) | (entries.rows["kind"] == EntryKind.CONFIGURATION)
    ):
        header, at = entries.header(int(number)), int(entries.at[number])
        body = block.data[at + HEADER_SIZE : at + header.size]
        if header.kind is EntryKind.COMMAND:
            found.append(CommandApplied(header.index, header.append_time_ms, body))
        else:
            found.append(Configured(header.index, body))
    of_broker = facts["producer_id"] == BROKER
    delivers, copies = (facts["columns"] & FIRED) != 0, (facts["columns"] & COPIED) != 0
    is_no_move = (facts["columns"] & (FIRED | COPIED | DECIDED)) != 0
    for fact in facts[of_broker & ~is_no_move & ((facts["columns"] & HEADERS) != 0)]:
        try:
            before = place_before(Batch(body_of(block, fact), check_crc=False).headers()[0])
        except LedgerError:
            continue  # whole by its CRC, and no batch all the same: consumers are told
        if before is not None:
            found.append(Moved(int(fact["index"]), int(fact["topic_id"]), before))
    of_transactions = (facts["columns"] & (HALF | DECIDED)) != 0
    found += [step for fact in facts[of_transactions] if (step := _of_transaction(block, fact)) is not None]
    found += [delivered for fact in facts[of_broker & delivers] if (delivered := _delivered(block, fact)) is not None]
    found += [copied for fact in facts[of_broker & copies] if (copied := _copied(block, fact)) is not None]
    named = facts[(facts["columns"] & MESSAGE_IDS) != 0]
    found += [given for fact in named if (given := _ids_given(block, fact)) is not None]
    return sorted(found, key=_edge)


def _ids_given(block: SpanBlock, fact: np.void) -> IdsGiven | None:
    body = body_of(block, fact)
    try:
        header = BatchHeader.parse(body)
        check_header(header, len(body))
        ids = message_ids(body, header)
    except LedgerError:
        return None  # whole by its CRC, and no batch all the same: no replica can apply it
    if ids is None:
        return None
    return IdsGiven(
        int(fact["index"]),
        int(fact["append_time_ms"]),
        read_in(body, header),
        ids,
        int(fact["position"]),
        int(fact["topic_id"]),
        int(fact["queue"]),
        int(fact["base_offset"]),
    )


def _copied(block: SpanBlock, fact: np.void) -> Copied | None:
    body = body_of(block, fact)
    try:
        header = BatchHeader.parse(body)
        check_header(header, len(body))
        timed, identities = timed_column(body, header), copied_identities(body, header)
    except LedgerError:
        return None  # whole by its CRC, and no batch all the same: no replica can apply it
    if timed is None or identities is None:
        return None
    return Copied(
        int(fact["index"]),
        timed.topic_id,
        timed.queue,
        identities.tolist(),
        timed.times_ms.tolist(),
        message_contents(block, fact).tolist(),
        int(fact["position"]),
        int(fact["topic_id"]),
        int(fact["queue"]),
        int(fact["base_offset"]),
    )


def _delivered(block: SpanBlock, fact: np.void) -> TimedDelivered | None:
    body = body_of(block, fact)
    try:
        header = BatchHeader.parse(body)
        check_header(header, len(body))
        column = fired_column(body, header)
    except LedgerError:
        return None  # whole by its CRC, and no batch all the same: no replica can apply it
    if column is None:
        return None
    return TimedDelivered(
        int(fact["index"]),
        column.identities.tolist(),
        column.times_ms.tolist(),
        message_contents(block, fact).tolist(),
        int(fact["position"]),
        int(fact["topic_id"]),
        int(fact["queue"]),
        int(fact["base_offset"]),
    )


def _of_transaction(block: SpanBlock, fact: np.void) -> HalfPrepared | HalfSettled | None:
    body = body_of(block, fact)
    try:
        header = BatchHeader.parse(body)
        check_header(header, len(body))
        half, decided = half_column(body, header), decided_column(body, header)
    except LedgerError:
        return None  # whole by its CRC, and no batch all the same: no replica can apply it
    index, topic_id, queue = int(fact["index"]), int(fact["topic_id"]), int(fact["queue"])
    append_time_ms, offset = int(fact["append_time_ms"]), int(fact["base_offset"])
    if half is not None:
        prepared = PreparedHalf(
            topic_id=half.topic_id,
            queue=half.queue,
            shard=half.shard,
            group=half.group,
            transaction=half.transaction,
            copy_of=half.copy_of,
            half_queue=queue,
            number=offset,
            count=header.count,
            size=header.size,
            append_time_ms=append_time_ms,
        )
        return HalfPrepared(index, topic_id, prepared, contents_of(body, header))
    if decided is not None:
        settled = Settlement(
            topic_id=topic_id,
            queue=queue,
            half=decided.half,
            transaction=decided.transaction,
            shard=decided.shard,
            decides=decided.decides,
            dead=decided.dead,
            append_time_ms=append_time_ms,
        )
        return HalfSettled(index, settled, contents_of(body, header), int(fact["position"]), offset)
    return None


def contents_of(body: bytes | memoryview, header: BatchHeader) -> int:
    """Return a hash of what a half batch and the batch with its messages have in common: the messages, and not the
    queue and the producer."""
    columns = header.columns & ~(HALF | DECIDED | MESSAGE_IDS)
    same = (header.codec, columns, header.count, header.plain_size, header.largest, header.base_timestamp_ms)
    digest = xxhash.xxh3_64(repr(same).encode())
    view = memoryview(body)
    digest.update(view[HEADER_BYTES : header.hashes_end])
    digest.update(view[header.payload_position :])
    return digest.intdigest()
