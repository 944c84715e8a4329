"""The parts of a slow request follow each other, and their sum is the time of the request."""

from __future__ import annotations

import pytest

from ledger.broker.slow.entry_parts import entry_parts
from ledger.broker.slow.senders import Senders
from ledger.slow_request import UNKNOWN_CLIENT, CallingClient, FollowerPart, RequestPart, SlowRequest
from raft.entry_times import EntryTimes


def stepped(*, held: float = 13.0, acknowledged: float | None = 20.0) -> EntryTimes:
    """Entry 5, which was proposed at 10: written from 11 to 12, committed at 20, and applied at 21."""
    now = 0.0
    times = EntryTimes(lambda: now, lambda: 0, last_index=4, commit=4, applied=4)
    times.has_acknowledged(2, 4)
    times.has_acknowledged(3, 4)
    now = 12.0
    times.wrote(5, 5, 11.0)
    times.held.reached(5, held)
    if acknowledged is not None:
        times.acknowledged[2].reached(5, acknowledged)
    times.committed.reached(5, 20.0)
    times.applied.reached(5, 21.0)
    return times


def test_the_parts_are_the_steps_of_the_entry() -> None:
    found = entry_parts(stepped(), 5, 10.0, 24.0)
    assert found.parts == (("turn", 1.0), ("write", 1.0), ("commit", 8.0), ("apply", 1.0), ("answer", 3.0))
    assert found.flush_ms == 1.0
    assert found.followers == (FollowerPart(2, 8.0), FollowerPart(3, None))


@pytest.mark.parametrize("index", [4, 6])
def test_an_entry_that_is_not_remembered_has_only_an_answer(index: int) -> None:
    assert entry_parts(stepped(), index, 10.0, 24.0) == ((("answer", 14.0),), None, ())


@pytest.mark.parametrize(("proposed", "ended"), [(10.0, 24.0), (15.0, 24.0), (22.0, 23.0), (10.0, 19.0)])
def test_the_sum_is_the_whole_time(proposed: float, ended: float) -> None:
    parts = entry_parts(stepped(), 5, proposed, ended).parts
    assert sum(part.ms for part in parts) == ended - proposed
    assert all(part.ms >= 0 for part in parts)


@pytest.mark.parametrize(
    ("held", "acknowledged", "slowest"), [(13.0, 20.0, "replication"), (20.0, 13.0, "flush"), (13.0, None, "flush")]
)
def test_a_commit_waited_for_the_last_of_its_majority(held: float, acknowledged: float | None, slowest: str) -> None:
    found = entry_parts(stepped(held=held, acknowledged=acknowledged), 5, 10.0, 24.0)
    slow = SlowRequest(
        0, 14.0, "Produce", UNKNOWN_CLIENT, found.parts, flush_ms=found.flush_ms, followers=found.followers
    )
    assert slow.slowest_part == slowest


def test_the_slowest_part_is_named() -> None:
    slow = SlowRequest(0, 9.0, "Fetch", UNKNOWN_CLIENT, (RequestPart("queue", 6.0), RequestPart("read", 3.0)))
    assert slow.slowest_part == "queue"


def test_the_clients_of_producers_are_bounded() -> None:
    senders = Senders(most=2)
    for number in (1, 2, 1, 3):
        senders.note(number, CallingClient(f"client {number}"))
    assert senders.get(2) is None
    assert senders.get(1) == CallingClient("client 1")
