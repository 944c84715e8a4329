"""Which topics the batches of logs are of: a log has their ids, and their names only in commands.

    checkpoint or base ── the state there ──> commands of the entries behind it ──> id -> name

The state machine that gives topics their ids is run again, over commands alone: of all other entries no more is
looked at than the header. A topic that was deleted has no name here, as it has none in the cluster, though what is
left of its messages is in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ledger.state import State
from ledger.topics import TOPICS_SHARD
from ledger.validation.replay.block import Block
from ledger.validation.sources.access import Access, SegmentGoneError, access_to
from ledger.validation.sources.replica import LogReplica
from store import Checkpoint, EntryKind, Header, Snapshot
from store.log.entry import ALIGNMENT, HEADER_SIZE, EntryFlawError, parse

_BLOCK_BYTES = 8 << 20


def topic_names(replicas: Iterable[LogReplica]) -> dict[int, str]:
    """The names by id, as a replica of shard 0 tells them, which has all of them; where there is none, those of any
    other shards. Of several replicas of a shard, the one that goes furthest."""
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
    """The newest that lies beside the log; None: the log begins with its first entry."""
    if replica.checkpoint is not None and (data := access_to(replica.checkpoint).file(replica.checkpoint)):
        try:
            checkpoint = Checkpoint.decode(data).snapshot
        except (ValueError, TypeError):
            checkpoint = None  # the log says the same, only slower
        if checkpoint is not None and checkpoint.index <= replica.last_index:
            return checkpoint
    data = access_to(replica.base).file(replica.base) if replica.base is not None else None
    return None if data is None else Snapshot.decode(data)


def _commands(replica: LogReplica, access: Access, begin: int) -> Iterator[tuple[Header, bytes]]:
    """Those from that position on. Damage is passed over here: whoever reads messages there tells it."""
    for segment in replica.segments:
        position, end = max(begin, segment.base), segment.end
        while position < end:
            upto = min(end, position + _BLOCK_BYTES)
            try:
                block = Block.read(access, segment, position, upto, replica.largest_entry)
            except SegmentGoneError:
                break
            for header in _headers(block):
                if header.kind is EntryKind.COMMAND:
                    at = header.position - block.begin
                    yield header, block.data[at + HEADER_SIZE : at + header.size]
                upto = max(upto, header.end)
            position = upto


def _headers(block: Block) -> Iterator[Header]:
    """Of the entries in a block; those of commands, which are to be applied, were read whole."""
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
