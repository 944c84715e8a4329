"""Messages on the wire, and the byte ranges that a leader sends to several followers in one turn."""

from __future__ import annotations

import pytest

from raft.core import (
    Append,
    AppendResponse,
    CommittedEntry,
    Heartbeat,
    HeartbeatResponse,
    RaftMessage,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from raft.transport.bulk import parse
from raft.transport.wire import answer_from_wire, answer_to_wire, control_from_wire, control_to_wire, ranges_to_wire
from raft.v1 import raft_pb2


def append_to(receiver: int, *, prev_index: int, last_index: int, commit: int = 4, term: int = 2) -> Append:
    return Append(
        sender=1,
        receiver=receiver,
        term=term,
        prev_index=prev_index,
        prev_term=2,
        runs=(),
        last_index=last_index,
        commit=commit,
    )


def test_followers_that_are_level_are_sent_the_same_bytes() -> None:
    entries = b"entries" * 10
    level = [(append_to(receiver, prev_index=5, last_index=6), entries) for receiver in (2, 3)]
    (two, first), (three, second) = ranges_to_wire(level)
    assert (two, three) == (2, 3)
    assert first is second
    assert bytes(parse(first).entries) == entries


def test_each_is_sent_its_own_where_anything_differs() -> None:
    ranges = [
        (append_to(2, prev_index=5, last_index=6), b"six"),
        (append_to(2, prev_index=6, last_index=7), b"seven"),
        (append_to(3, prev_index=5, last_index=7), b"sixseven"),
        (append_to(4, prev_index=5, last_index=6, commit=3), b"six"),
        (append_to(5, prev_index=5, last_index=6, term=3), b"six"),
    ]
    sent = []
    for receiver, message in ranges_to_wire(ranges):
        bulk = parse(message)
        sent.append((receiver, bulk.head.term, bulk.head.prev_index, bulk.head.commit, bytes(bulk.entries)))
    assert sent == [
        (2, 2, 5, 4, b"six"),
        (2, 2, 6, 4, b"seven"),
        (3, 2, 5, 4, b"sixseven"),
        (4, 2, 5, 3, b"six"),
        (5, 3, 5, 4, b"six"),
    ]


def test_what_is_sent_is_not_a_view_of_the_log() -> None:
    log = bytearray(b"as it was")
    ((_, message),) = ranges_to_wire([(append_to(2, prev_index=5, last_index=6), memoryview(log))])
    log[:] = b"cut, gone"
    assert bytes(parse(message).entries) == b"as it was"


@pytest.mark.parametrize("chain", [0, 0xFFFF_FFFF])
def test_a_contradicted_entry_arrives(chain: int) -> None:
    entry = CommittedEntry(7, 3, chain)
    answer = AppendResponse(2, 1, 4, rejected=True, suspicion=9, contradicted=entry)
    assert answer_from_wire(answer_to_wire(answer), 2, 1) == answer


def test_a_follower_that_owes_nothing_says_so() -> None:
    for owes_nothing in (True, False):
        answer = HeartbeatResponse(2, 1, 4, 5, 9, 2, owes_nothing=owes_nothing)
        assert control_from_wire(control_to_wire(answer), 2, 1) == answer


@pytest.mark.parametrize(
    "message",
    [
        VoteRequest(1, 2, 7, 30, 6, pre=True, transfer=True, unanimous=True),
        VoteResponse(1, 2, 7, granted=True, pre=True, suspicion=5, wall_ms=1_700_000_000_000),
        Heartbeat(1, 2, 7, commit=30, round=9, lifted=5),
        HeartbeatResponse(1, 2, 7, 9, 5, 2, refuses_writes=True, wall_ms=1_700_000_000_000),
        TimeoutNow(1, 2, 7),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_control_message_arrives_as_it_was_sent(message: RaftMessage) -> None:
    wire = raft_pb2.ControlMessage.FromString(control_to_wire(message).SerializeToString())
    assert control_from_wire(wire, sender=1, receiver=2) == message


def test_an_older_program_takes_writes_and_tells_no_clock() -> None:
    older = raft_pb2.ControlMessage(heartbeat_response=raft_pb2.HeartbeatResponse(term=7, round=9))
    assert control_from_wire(older, sender=1, receiver=2) == HeartbeatResponse(1, 2, 7, 9)
