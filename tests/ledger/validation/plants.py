"""Faults to plant into the logs of stopped nodes, with the place at which the validation must find each fault.

Each plant changes one shard of three replicas by hand, and says what must be told of it: kind, replica, index and
place. `alone`: nothing else may be told of the shard; otherwise what follows from it may be too, but nothing before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import google_crc32c

from ledger.batch import BatchHeader
from ledger.history import OperationOutcome, Send
from ledger.state import State
from ledger.state.command_encoding import encode_command
from ledger.state.commands import ChangeLeases, Command, QueueLeases, RaiseFeatureLevel
from ledger.state.consumer_group_table import TopicQueueId
from ledger.state.feature_levels import SHARED_GROUPS
from ledger.state.lease_table import ChangeKind, LeaseChange
from ledger.validation.judging.violation import Violation, ViolationKind
from store import Checkpoint, CommitLog, EntryDraft, EntryKind, Header, LogSettings, PosixDisk, Snapshot
from store.index.consume_queue import UNIT_BYTES
from store.index.key_file import ENTRY_BYTES
from store.index.key_file import HEADER as KEY_HEADER
from store.log.entry import HEADER_SIZE, padded
from tests.ledger.validation.stopped_cluster import (
    NODES,
    ORDERS,
    SEGMENT,
    TIME_MS,
    StoppedCluster,
    StoppedReplica,
    resealed_batch,
    sealed,
)

K = ViolationKind


@dataclass(frozen=True, slots=True)
class Due:
    """A violation that the validation must report. `node` 0 means the whole shard, or no replica. None matches any
    value."""

    kind: ViolationKind
    node: int
    index: int | None = None
    position: int | None = None
    offset: int | None = None
    end: int | None = None
    path: str | None = None
    last_index: int | None = None

    def fits(self, violation: Violation) -> bool:
        source = f"node-{self.node}" if self.node else ""
        named = violation.source.endswith(source) if source else True
        places = ("index", "position", "offset", "end", "path", "last_index")
        return (
            violation.kind is self.kind
            and named
            and all(getattr(self, name) in (None, getattr(violation, name)) for name in places)
        )


@dataclass(slots=True)
class Planted:
    dues: list[Due]
    alone: bool = True
    sends: list[Send] | None = None
    """The history; None: all that was written, acknowledged as it lies there."""
    notes: list[str] = field(default_factory=list)
    """Parts of notes that must be there."""


Change = Callable[[Header, bytes], tuple[Header, bytes] | None]
"""As `StoppedReplica.rewritten` takes it."""
Plant = Callable[[StoppedCluster], Planted]
PLANTS: dict[str, Plant] = {}
AT = 20
"""The entry that most plants change: a batch."""


def plant(make: Plant) -> Plant:
    PLANTS[make.__name__.replace("_", " ")] = make
    return make


def check(name: str, planted: Planted, found: Iterable[Violation]) -> None:
    """Fail unless each expected violation was found once, and no other violation was found that is not allowed."""
    left = list(found)
    for due in planted.dues:
        fitting = [violation for violation in left if due.fits(violation)]
        assert fitting, f"{name}: {due} was not found among {left}"
        left.remove(fitting[0])
    if planted.alone:
        assert not left, f"{name}: found besides: {left}"
    first = min((due.index for due in planted.dues if due.index is not None), default=0)
    before = [violation for violation in left if violation.index is not None and violation.index < first]
    assert not before, f"{name}: found before it: {before}"


def has_next(replica: StoppedReplica, header: Header) -> Header | None:
    """Return the next entry if it is in the same segment, or None."""
    later = [each for each in replica.headers() if each.index == header.index + 1]
    return later[0] if later and later[0].position // SEGMENT == header.position // SEGMENT else None


def last_batch(replica: StoppedReplica, queue: int = 0) -> Header:
    """Return the last batch of this queue of topic `orders`."""
    headers = [each for each in replica.headers() if each.kind is EntryKind.BATCH]
    return [each for each in headers if (each.topic_id, each.queue) == (ORDERS, queue)][-1]


def changing(index: int, change: Change) -> Change:
    """Return a function that changes only the entry at this index."""
    return lambda header, body: change(header, body) if header.index == index else (header, body)


# -- bytes of entries


def _flipped(cluster: StoppedCluster, index: int, offset: int) -> Header:
    replica = cluster.replicas[1]
    header = replica.headers()[index - 1]
    replica.flip(replica.segment(header.position), header.position % SEGMENT + offset)
    return header


def _damaged(cluster: StoppedCluster, offset: int) -> Planted:
    header = _flipped(cluster, AT, offset)
    path = str(cluster.replicas[1].segment(header.position))
    return Planted([Due(K.DAMAGED_ENTRY, 2, AT, header.position, end=header.end, path=path)])


@plant
def a_flipped_bit_in_a_magic_number(cluster: StoppedCluster) -> Planted:
    return _damaged(cluster, 0)


@plant
def a_flipped_bit_in_a_size(cluster: StoppedCluster) -> Planted:
    return _damaged(cluster, 8)


@plant
def a_flipped_bit_in_a_term(cluster: StoppedCluster) -> Planted:
    return _damaged(cluster, 24)


@plant
def a_flipped_bit_in_a_position(cluster: StoppedCluster) -> Planted:
    return _damaged(cluster, 32)


@plant
def a_flipped_bit_in_a_body(cluster: StoppedCluster) -> Planted:
    return _damaged(cluster, HEADER_SIZE + 40)


@plant
def a_flipped_bit_in_padding(cluster: StoppedCluster) -> Planted:
    replica = cluster.replicas[1]
    header = next(each for each in replica.headers() if each.size % 8 and each.index > 1)
    following = has_next(replica, header)
    replica.flip(replica.segment(header.position), header.position % SEGMENT + header.size)
    end = following.position if following is not None else None
    return Planted([Due(K.DAMAGED_ENTRY, 2, header.index, header.position, end=end)])


@plant
def a_flipped_bit_in_a_chain(cluster: StoppedCluster) -> Planted:
    header = _flipped(cluster, AT, 76)
    dues = [Due(K.CHAIN_BROKEN, 2, AT, header.position, end=header.end)]
    dues += [Due(K.REPLICAS_DIFFER, 0, AT, header.position, last_index=AT) for _ in range(2)]
    return Planted(dues)


@plant
def an_entry_blanked(cluster: StoppedCluster) -> Planted:
    replica = cluster.replicas[2]
    header = replica.headers()[AT - 1]
    replica.put(header.position, bytes(padded(header.size)))
    return Planted([Due(K.DAMAGED_ENTRY, 3, AT, header.position, end=header.end)])


@plant
def two_entries_swapped(cluster: StoppedCluster) -> Planted:
    replica = cluster.replicas[1]
    headers = replica.headers()
    one, other = headers[AT - 1], headers[AT]
    replica.put(one.position, replica.bytes_of(other) + replica.bytes_of(one))
    return Planted([Due(K.DAMAGED_ENTRY, 2, AT, one.position, end=other.end, last_index=AT + 1)])


@plant
def the_bytes_of_a_whole_segment_missing(cluster: StoppedCluster) -> Planted:
    replica = cluster.replicas[1]
    first = next(header for header in replica.headers() if header.position >= SEGMENT)
    path = replica.segment(SEGMENT)
    path.unlink()
    # Nothing comes behind it: what is missing shows by the mark of the orderly stop.
    return Planted([Due(K.LOG_CUT, 2, first.index)], alone=False)


@plant
def the_first_segment_missing(cluster: StoppedCluster) -> Planted:
    replica = cluster.replicas[1]
    path = replica.segment(0)
    path.unlink()
    return Planted([Due(K.MISSING_SEGMENT, 2, 1, 0, end=SEGMENT, path=str(path))], alone=False)


@plant
def junk_behind_the_end_of_a_node_that_stopped_in_order(cluster: StoppedCluster) -> Planted:
    replica = cluster.replicas[0]
    last = replica.headers()[-1]
    replica.put(last.end + 16, b"junk")
    return Planted([Due(K.NOT_BLANK, 1, last.index + 1, last.end + 16)])


@plant
def junk_behind_the_end_of_a_node_that_was_killed(cluster: StoppedCluster) -> Planted:
    replica = cluster.replicas[0].killed()
    replica.put(replica.headers()[-1].end + 16, b"junk")
    return Planted([], notes=["torn end"])


# -- whole entries that do not follow


@plant
def an_entry_left_out(cluster: StoppedCluster) -> Planted:
    replica = cluster.replicas[1]
    header = replica.headers()[AT - 1]
    replica.rewritten(AT, changing(AT, lambda _header, _body: None))
    return Planted(
        [Due(K.MISSING_ENTRIES, 2, AT, header.position, last_index=AT), Due(K.REPLICAS_DIFFER, 0, AT + 1)], alone=False
    )


@plant
def a_term_that_falls(cluster: StoppedCluster) -> Planted:
    replica = cluster.replicas[2]
    header = replica.headers()[49]
    replica.rewritten(50, changing(50, lambda header, body: (replace(header, term=1), body)))
    return Planted([Due(K.TERM_FALLS, 3, 50, header.position), Due(K.REPLICAS_DIFFER, 0, 50)], alone=False)


@plant
def an_append_time_that_falls(cluster: StoppedCluster) -> Planted:
    """An entry has an earlier append time than the entry before. Append times must not fall, because times are
    searched by bisection."""
    header = cluster.replicas[0].headers()[AT - 1]
    for replica in cluster.replicas:
        replica.rewritten(AT, changing(AT, lambda header, body: (replace(header, append_time_ms=TIME_MS), body)))
    dues = [Due(K.OUT_OF_PLACE, node, AT, header.position) for node in NODES]
    return Planted([*dues, *(Due(K.KEY_WRONG, node, AT) for node in NODES)], alone=False)


@plant
def a_commit_of_the_future(cluster: StoppedCluster) -> Planted:
    header = cluster.replicas[0].headers()[AT - 1]
    for replica in cluster.replicas:
        replica.rewritten(AT, changing(AT, lambda header, body: (replace(header, commit=AT), body)))
    return Planted([Due(K.OUT_OF_PLACE, node, AT, header.position) for node in NODES], alone=False)


@plant
def a_chain_broken_with_right_crcs(cluster: StoppedCluster) -> Planted:
    """From one entry on, the entries continue another chain, with right CRCs."""
    replica = cluster.replicas[1]
    headers, chain = replica.headers(), 0x1234
    for header in headers[AT - 1 :]:
        data, chain = sealed(header, replica.bytes_of(header)[HEADER_SIZE : header.size], header.position, chain)
        replica.put(header.position, data)
    replica.killed()
    at = headers[AT - 1].position
    differ = [Due(K.REPLICAS_DIFFER, 0, AT, at, last_index=len(headers)) for _ in range(2)]
    return Planted([Due(K.CHAIN_BROKEN, 2, AT, at), *differ], alone=False)


@plant
def an_entry_of_another_cluster(cluster: StoppedCluster) -> Planted:
    """A whole entry of another cluster, with the right index and position."""
    replica = cluster.replicas[1]
    header = replica.headers()[AT - 1]
    body = resealed_batch(replica.bytes_of(header)[HEADER_SIZE : header.size], producer_id=0xABCD)
    data, _ = sealed(header, body, header.position, 0x77)
    replica.put(header.position, data)
    dues = [Due(K.CHAIN_BROKEN, 2, AT, header.position), Due(K.CHAIN_BROKEN, 2, AT + 1, header.end)]
    dues += [Due(K.REPLICAS_DIFFER, 0, AT, header.position, last_index=AT) for _ in range(2)]
    return Planted(dues, alone=False)


@plant
def a_resurrected_tail(cluster: StoppedCluster) -> Planted:
    """An entry of an older term follows the last entry."""
    replica = cluster.replicas[1].killed()
    last = replica.headers()[-1]
    stale = replace(last, index=last.index + 1, term=1, commit=last.index - 1)
    data, _ = sealed(stale, b"", last.end, last.chain)
    replica.put(last.end, data)
    return Planted([Due(K.TERM_FALLS, 2, last.index + 1, last.end)])


# -- replicas


def _other_payload(_: Header, body: bytes) -> bytes:
    """Return the same batch with another last message."""
    at = body.rindex(b"message")
    return resealed_batch(body[:at] + b"MESSAGE" + body[at + 7 :])


@plant
def a_suffix_forked_in_what_is_committed(cluster: StoppedCluster) -> Planted:
    replica = cluster.replicas[2]
    headers = replica.headers()
    replica.rewritten(50, changing(50, lambda header, body: (header, _other_payload(header, body))))
    at = headers[49].position
    return Planted([Due(K.REPLICAS_DIFFER, 3, 50, at, last_index=len(headers)) for _ in range(2)])


@plant
def a_tail_that_is_not_committed_differs(cluster: StoppedCluster) -> Planted:
    """A replica ends with the no-op of another leader. Raft would replace one of the two last entries."""
    replica = cluster.replicas[2]
    last = replica.headers()[-1]
    replica.rewritten(last.index, lambda header, body: (replace(header, term=3), body))
    return Planted([], notes=["in a tail that Raft replaces"])


@plant
def a_forged_entry_at_the_tail_of_a_follower(cluster: StoppedCluster) -> Planted:
    """Somebody who is not the leader of the term had a follower append an entry. No log calls the index committed."""
    replica = cluster.replicas[2]
    last = replica.headers()[-1]
    replica.rewritten(last.index, lambda header, body: (replace(header, append_time_ms=TIME_MS + 9_999), body))
    return Planted([Due(K.FORKED_TERM, 3, last.index, last.position, last_index=last.index) for _ in range(2)])


def _majority_in_term_3(cluster: StoppedCluster) -> None:
    """Nodes 1 and 2 have other entries than node 3 from 60 on, of a later term, and call them committed. Node 3 knows
    that entries up to 59 are committed."""
    for replica in cluster.replicas[:2]:
        replica.rewritten(60, lambda header, body: (replace(header, term=3), body))
    cluster.replicas[2].rewritten(60, lambda header, body: (replace(header, commit=59), body))


@plant
def a_tail_of_an_older_leader_behind_what_is_committed(cluster: StoppedCluster) -> Planted:
    """A leader was cut off with entries that it could not commit, and a majority has committed others instead."""
    _majority_in_term_3(cluster)
    return Planted([], notes=["in a tail that Raft replaces"])


@plant
def a_tail_of_an_older_leader_that_its_checkpoint_calls_committed(cluster: StoppedCluster) -> Planted:
    """The same, but node 3 has applied the first entries of its tail."""
    _majority_in_term_3(cluster)
    replica = cluster.replicas[2]
    at = replica.headers()[59]
    replica.checkpoint_at(62)
    dues = [Due(K.REPLICAS_DIFFER, 3, 60, at.position) for _ in range(2)]
    # The checkpoint also vouches for positions that were never written.
    return Planted([Due(K.POSITION_WRONG, 3, 35), *dues], alone=False)


@plant
def a_tail_of_a_term_after_the_commit_and_before_the_end(cluster: StoppedCluster) -> Planted:
    """Node 3 has entries of term 3. A majority has committed others in term 2, and goes on in term 4."""
    last = cluster.replicas[0].headers()[-1]
    at = cluster.replicas[2].headers()[59]
    for replica in cluster.replicas[:2]:
        replica.rewritten(last.index, lambda header, body: (replace(header, term=4), body))
    cluster.replicas[2].rewritten(
        60, lambda header, body: (replace(header, term=3, commit=50), _other_payload(header, body) if body else body)
    )
    return Planted([Due(K.REPLICAS_DIFFER, 3, 60, at.position) for _ in range(2)])


@plant
def a_tail_that_contradicts_what_is_committed(cluster: StoppedCluster) -> Planted:
    """The tail of a replica differs in committed entries. The replica does not know that they are committed, but a
    leader of the tail's term must have had them."""
    replica = cluster.replicas[2]
    headers = replica.headers()
    at = headers[59]
    replica.rewritten(
        60, lambda header, body: (replace(header, term=3, commit=50), _other_payload(header, body) if body else body)
    )
    return Planted([Due(K.REPLICAS_DIFFER, 3, 60, at.position, last_index=len(headers)) for _ in range(2)])


def _cut(replica: StoppedReplica, last: int) -> Header:
    """Remove the entries after `last` from the log."""
    replica_was_clean = (replica.shard / "clean").exists()
    mark = (replica.shard / "clean").read_bytes() if replica_was_clean else b""
    headers = replica.headers()
    replica.rewritten(last + 1, lambda _header, _body: None)
    if replica_was_clean:
        (replica.shard / "clean").write_bytes(mark)
    return headers[last - 1]


@plant
def a_committed_suffix_cut_off_in_one_replica(cluster: StoppedCluster) -> Planted:
    last = _cut(cluster.replicas[1], 55)
    return Planted([Due(K.LOG_CUT, 2, 56, last.end)], alone=False)


@plant
def a_committed_suffix_cut_off_in_two_killed_replicas(cluster: StoppedCluster) -> Planted:
    for replica in cluster.replicas[1:]:
        _cut(replica.killed(), 55)
    return Planted([Due(K.COMMIT_NOT_HELD, 0, 56, last_index=64)], alone=False)


@plant
def a_log_that_ends_before_its_checkpoint(cluster: StoppedCluster) -> Planted:
    replica = cluster.replicas[1].killed()
    _cut(replica, 30)
    return Planted([Due(K.LOG_CUT, 2, 31, path=str(replica.shard / "checkpoint"))], alone=False)


# -- offsets, sequences, topics, batches: the same on all replicas


def _all(cluster: StoppedCluster, index: int, change: Change) -> None:
    for replica in cluster.replicas:
        replica.rewritten(index, changing(index, change))


@plant
def a_sequence_repeated(cluster: StoppedCluster) -> Planted:
    at = last_batch(cluster.replicas[0])
    _all(cluster, at.index, lambda header, body: (header, resealed_batch(body, first_sequence=0)))
    return Planted([Due(K.SEQUENCE_REPEATED, node, at.index, at.position, at.base_offset) for node in NODES], sends=[])


@plant
def a_gap_in_a_sequence(cluster: StoppedCluster) -> Planted:
    at = last_batch(cluster.replicas[0])
    first = BatchHeader.parse(cluster.replicas[0].bytes_of(at)[HEADER_SIZE:]).first_sequence
    _all(cluster, at.index, lambda header, body: (header, resealed_batch(body, first_sequence=first + 5)))
    return Planted([Due(K.SEQUENCE_GAP, node, at.index, at.position, at.base_offset) for node in NODES], sends=[])


@plant
def a_batch_of_an_epoch_that_has_ended(cluster: StoppedCluster) -> Planted:
    headers = [each for each in cluster.replicas[0].headers() if each.kind is EntryKind.BATCH]
    before, at = [each for each in headers if (each.topic_id, each.queue) == (ORDERS, 1)][-2:]

    def change(header: Header, body: bytes) -> tuple[Header, bytes]:
        if header.index == before.index:
            return header, resealed_batch(body, epoch=1, first_sequence=0)
        return header, body

    for replica in cluster.replicas:
        replica.rewritten(before.index, change)
    return Planted([Due(K.EPOCH_FENCED, node, at.index, at.position, at.base_offset) for node in NODES], sends=[])


@plant
def a_hole_in_offsets(cluster: StoppedCluster) -> Planted:
    at = last_batch(cluster.replicas[0])
    due = at.base_offset + 3
    _all(cluster, at.index, lambda header, body: (replace(header, base_offset=due), body))
    return Planted([Due(K.OFFSET_HOLE, node, at.index, at.position, due) for node in NODES], alone=False, sends=[])


@plant
def a_batch_of_a_topic_that_was_never_made(cluster: StoppedCluster) -> Planted:
    at = last_batch(cluster.replicas[0])

    def change(header: Header, body: bytes) -> tuple[Header, bytes]:
        return replace(header, topic_id=9, base_offset=0), resealed_batch(body, topic_id=9, first_sequence=0)

    _all(cluster, at.index, change)
    return Planted([Due(K.UNKNOWN_QUEUE, node, at.index, at.position, 0) for node in NODES], alone=False, sends=[])


def _append_commands(cluster: StoppedCluster, *commands: Command) -> int:
    """Append commands to all replicas. Return the index of the last one."""
    drafts = [EntryDraft(EntryKind.COMMAND, encode_command(command)) for command in commands]
    for replica in cluster.replicas:
        log = CommitLog.open(PosixDisk(), replica.shard / "log", LogSettings(segment_bytes=SEGMENT))
        last = log.append(drafts, term=2, commit=log.last_index, now_ms=TIME_MS + 1_000)[-1]
        log.sync()
        log.close()
        replica.killed()
    return last.index


@plant
def a_message_of_a_shared_group_leased_twice(cluster: StoppedCluster) -> Planted:
    first, second = (
        QueueLeases("billing", 1, TopicQueueId(ORDERS, 0), 0, (LeaseChange(ChangeKind.LEASE, 0, size, duration_ms=50),))
        for size in (2, 1)
    )
    at = _append_commands(
        cluster, RaiseFeatureLevel(SHARED_GROUPS), ChangeLeases((first,), 100), ChangeLeases((second,), 149)
    )
    return Planted([Due(K.LEASED_TWICE, node, at, offset=0) for node in NODES])


@plant
def a_batch_that_is_damaged_in_a_whole_entry(cluster: StoppedCluster) -> Planted:
    at = last_batch(cluster.replicas[0])
    _all(cluster, at.index, lambda header, body: (header, body[:-9] + bytes([body[-9] ^ 4]) + body[-8:]))
    return Planted([Due(K.DAMAGED_BATCH, node, at.index, at.position) for node in NODES], alone=False, sends=[])


# -- indexes


@plant
def a_unit_missing(cluster: StoppedCluster) -> Planted:
    path = cluster.replicas[2].units(0)
    units = path.stat().st_size // UNIT_BYTES
    path.write_bytes(path.read_bytes()[:-UNIT_BYTES])
    at = last_batch(cluster.replicas[2])
    return Planted([Due(K.UNIT_MISSING, 3, at.index, (units - 1) * UNIT_BYTES, units - 1, path=str(path))])


@plant
def a_unit_with_a_wrong_tag(cluster: StoppedCluster) -> Planted:
    replica = cluster.replicas[0]
    header = replica.headers()[AT - 1]
    path = replica.units(header.queue, header.topic_id)
    replica.flip(path, header.base_offset * UNIT_BYTES + 13)
    place = header.base_offset * UNIT_BYTES
    return Planted([Due(K.UNIT_WRONG, 1, AT, place, header.base_offset, place + UNIT_BYTES, str(path))])


@plant
def a_unit_with_a_wrong_position(cluster: StoppedCluster) -> Planted:
    replica = cluster.replicas[0]
    header = replica.headers()[AT]
    path = replica.units(header.queue, header.topic_id)
    replica.flip(path, header.base_offset * UNIT_BYTES)
    place = header.base_offset * UNIT_BYTES
    return Planted([Due(K.UNIT_WRONG, 1, AT + 1, place, header.base_offset, place + UNIT_BYTES, str(path))])


@plant
def a_unit_too_many(cluster: StoppedCluster) -> Planted:
    path = cluster.replicas[1].units(1)
    data = path.read_bytes()
    path.write_bytes(data + data[-UNIT_BYTES:])
    return Planted([Due(K.UNIT_SURPLUS, 2, None, len(data), len(data) // UNIT_BYTES, path=str(path))])


@plant
def a_unit_lost_by_a_kill(cluster: StoppedCluster) -> Planted:
    """A kill has lost a unit. The next start builds it again, so this is no violation."""
    path = cluster.replicas[2].killed().units(0)
    path.write_bytes(path.read_bytes()[:-UNIT_BYTES])
    return Planted([], notes=["lag behind the log"])


@plant
def a_key_with_a_wrong_hash(cluster: StoppedCluster) -> Planted:
    replica = cluster.replicas[1]
    path = replica.key_files()[0]
    place = KEY_HEADER.size + 5 * ENTRY_BYTES
    replica.flip(path, place)
    return Planted([Due(K.KEY_WRONG, 2, None, place, path=str(path))])


@plant
def a_key_with_a_wrong_position(cluster: StoppedCluster) -> Planted:
    replica = cluster.replicas[1]
    path = replica.key_files()[0]
    place = KEY_HEADER.size + 7 * ENTRY_BYTES
    replica.flip(path, place + 9, 7)
    return Planted([Due(K.KEY_WRONG, 2, None, place, path=str(path))], alone=False)


@plant
def a_key_lost_in_the_middle(cluster: StoppedCluster) -> Planted:
    path = cluster.replicas[1].key_files()[0]
    place = KEY_HEADER.size + 6 * ENTRY_BYTES
    data = path.read_bytes()
    path.write_bytes(data[:place] + data[place + ENTRY_BYTES :])
    return Planted(
        [Due(K.KEY_MISSING, 2, None, place, path=str(path)), Due(K.KEY_LINK, 2, path=str(path))], alone=False
    )


@plant
def a_key_lost_at_the_end(cluster: StoppedCluster) -> Planted:
    path = cluster.replicas[1].key_files()[-1]
    data = path.read_bytes()
    path.write_bytes(data[:-ENTRY_BYTES])
    return Planted([Due(K.KEY_MISSING, 2, None, len(data) - ENTRY_BYTES, path=str(path))])


@plant
def a_key_that_leads_astray(cluster: StoppedCluster) -> Planted:
    replica = cluster.replicas[1]
    path = replica.key_files()[0]
    place = KEY_HEADER.size + 8 * ENTRY_BYTES
    replica.flip(path, place + 24, 0)
    return Planted([Due(K.KEY_LINK, 2, None, place, path=str(path))])


# -- snapshots


def _stale(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with the state of an empty shard."""
    return replace(snapshot, state=State().encode())


@plant
def a_stale_base(cluster: StoppedCluster) -> Planted:
    (path,) = sorted((cluster.replicas[2].shard / "snapshots").iterdir())
    snapshot = Snapshot.decode(path.read_bytes())
    path.write_bytes(_stale(snapshot).encode())
    return Planted([Due(K.STALE_SNAPSHOT, 3, snapshot.index, path=str(path))])


@plant
def a_base_of_another_log(cluster: StoppedCluster) -> Planted:
    (path,) = sorted((cluster.replicas[2].shard / "snapshots").iterdir())
    snapshot = Snapshot.decode(path.read_bytes())
    path.write_bytes(replace(snapshot, chain=snapshot.chain ^ 1).encode())
    return Planted([Due(K.STALE_SNAPSHOT, 3, snapshot.index, path=str(path))])


@plant
def a_stale_checkpoint(cluster: StoppedCluster) -> Planted:
    path = cluster.replicas[0].shard / "checkpoint"
    checkpoint = Checkpoint.decode(path.read_bytes())
    path.write_bytes(replace(checkpoint, snapshot=_stale(checkpoint.snapshot)).encode())
    return Planted([Due(K.STALE_SNAPSHOT, 1, checkpoint.index, path=str(path))])


@plant
def a_damaged_base(cluster: StoppedCluster) -> Planted:
    replica = cluster.replicas[0]
    (path,) = sorted((replica.shard / "snapshots").iterdir())
    replica.flip(path, 60)
    return Planted([Due(K.DAMAGED_FILE, 1, path=str(path))])


# -- histories


def _sends(cluster: StoppedCluster) -> list[Send]:
    return [cluster.send(message) for message in cluster.written]


@plant
def an_acknowledged_message_missing(cluster: StoppedCluster) -> Planted:
    sends = _sends(cluster)
    last = [send for send in sends if (send.topic.startswith("orders"), send.queue) == (True, 0)][-1]
    assert last.offset is not None
    lost = replace(last, offset=last.offset + 1, sequence=last.sequence + 1)
    return Planted([Due(K.ACKNOWLEDGED_MISSING, 0, offset=last.offset + 1)], sends=[*sends, lost])


@plant
def an_acknowledged_message_with_another_payload(cluster: StoppedCluster) -> Planted:
    sends = _sends(cluster)
    sends[11] = replace(sends[11], crcs=[google_crc32c.value(b"something else")])
    return Planted([Due(K.ACKNOWLEDGED_ALTERED, 0, offset=sends[11].offset)], sends=sends)


@plant
def an_acknowledged_message_at_another_offset(cluster: StoppedCluster) -> Planted:
    sends = _sends(cluster)
    right = sends[11].offset
    assert right is not None
    sends[11] = replace(sends[11], offset=right + 100)
    return Planted([Due(K.ACKNOWLEDGED_ELSEWHERE, 0, offset=right)], sends=sends)


@plant
def a_message_that_surely_failed(cluster: StoppedCluster) -> Planted:
    sends = _sends(cluster)
    right = sends[11].offset
    sends[11] = replace(sends[11], outcome=OperationOutcome.FAIL, offset=None)
    return Planted([Due(K.FAILED_PRESENT, 0, offset=right)], sends=sends)


@plant
def an_acknowledged_message_twice(cluster: StoppedCluster) -> Planted:
    at = last_batch(cluster.replicas[0])
    headers = [each for each in cluster.replicas[0].headers() if (each.topic_id, each.queue) == (ORDERS, 0)]
    before = [each for each in headers if each.kind is EntryKind.BATCH][-2]
    first = BatchHeader.parse(cluster.replicas[0].bytes_of(before)[HEADER_SIZE:]).first_sequence
    _all(cluster, at.index, lambda header, body: (header, resealed_batch(body, first_sequence=first)))
    return Planted([Due(K.ACKNOWLEDGED_REPEATED, 0, offset=before.base_offset)], alone=False)


# -- what is no violation


@plant
def nothing(_: StoppedCluster) -> Planted:
    return Planted([])


@plant
def a_number_that_was_refused_and_given_again(cluster: StoppedCluster) -> Planted:
    sends = _sends(cluster)
    refused = replace(sends[11], outcome=OperationOutcome.FAIL, offset=None, crcs=[1])
    return Planted([], sends=[*sends[:11], refused, *sends[11:]])


@plant
def a_replica_that_is_behind(cluster: StoppedCluster) -> Planted:
    _cut(cluster.replicas[2].killed(), 58)
    return Planted([], alone=False)
