"""Finds the names of topics in a log. Batches contain only topic ids. The names of topics are in commands and in the
state.

    checkpoint or snapshot ── its state ──> commands of later entries ──> id -> name

The state machine, which gives topics their ids, applies the commands again. If an entry is not a command, only its
header is read. A deleted topic has no name in the result, although the log may still contain its messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ledger.state import State
from ledger.topics import TOPICS_SHARD
from ledger.validation.sources.access import Access, access_to
from ledger.validation.sources.errors import SegmentGoneError
from ledger.validation.sources.replica import LogReplica
from ledger.validation.spans.block import SpanBlock
from store import Checkpoint, EntryKind, Header, Snapshot
from store.log.entry import ALIGNMENT, HEADER_SIZE, EntryFlawError, parse

_BLOCK_BYTES = 8 << 20


def topic_names(replicas: Iterable[LogReplica]) -> dict[int, str]:
    """Return the names of topics by topic id.

    A replica of shard 0 knows all topics. Without a replica of shard 0, the result has the topics of the other shards.
    If a shard has several replicas, the replica with the longest log is read.
    """
    longest = {each.shard: each for each in sorted(replicas, key=lambda each: each.last_index)}
    if TOPICS_SHARD in longest:
        return _names_in(longest[TOPICS_SHARD])
    names: dict[int, str] = {}
    for shard in sorted(longest):
        names |= _names_in(longest[shard])
    return names


def _names_in(replica: LogReplica) -> dict[int, str]:
    access = access_to(replica.segments[0].path) if replica.segments else None
    snapshot = _known_state(replica)
    state = State() if snapshot is None else State.decode(snapshot.state)
    begin, applied = (replica.begin, 0) if snapshot is None else (snapshot.end, snapshot.index)
    for header, body in _commands(replica, access, begin) if access is not None else ():
        if header.index > applied:
            state.apply_command(body, header.append_time_ms, index=header.index)
    return {topic.topic_id: topic.name for topic in state.topics}


def _known_state(replica: LogReplica) -> Snapshot | None:
    """Return the newest state that is stored beside the log, or None if the log begins with entry 1."""
    if replica.checkpoint is not None and (data := access_to(replica.checkpoint).file(replica.checkpoint)):
        try:
            checkpoint = Checkpoint.decode(data).snapshot
        except (ValueError, TypeError):
            checkpoint = None  # the log contains the same facts, but reading them takes longer
        if checkpoint is not None and checkpoint.index <= replica.last_index:
            return checkpoint
    data = access_to(replica.base).file(replica.base) if replica.base is not None else None
    return None if data is None else Snapshot.decode(data)


def _commands(replica: LogReplica, access: Access, begin: int) -> Iterator[tuple[Header, bytes]]:
    """Yield the commands from position `begin` on. Damaged entries are skipped; the tasks that read messages report
    them.
    """
    for segment in replica.segments:
        position, end = max(begin, segment.base), segment.end
        while position < end:
            upto = min(end, position + _BLOCK_BYTES)
            try:
                block = SpanBlock.read(access, segment, position, upto, replica.largest_entry)
            except SegmentGoneError:
                break
            for header in _headers(block):
                if header.kind is EntryKind.COMMAND:
                    at = header.position - block.begin
                    yield header, block.data[at + HEADER_SIZE : at + header.size]
                upto = max(upto, header.end)
            position = upto


def _headers(block: SpanBlock) -> Iterator[Header]:
    """Yield the headers of the entries in a block. Entries of commands are also checked as a whole."""
    position = block.begin
    while position < block.end:
        try:
            header = parse(block.view, position - block.begin)
            if header.position != position:
                raise EntryFlawError("an entry of another place")
            if header.kind is EntryKind.COMMAND:
                block.whole(position)
        except EntryFlawError:
            following = block.next_whole(position + ALIGNMENT)
            if following is None:
                return
            header = following
        yield header
        position = header.end
