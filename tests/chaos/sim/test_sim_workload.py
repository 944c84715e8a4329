"""The history of the clients notices each violation."""

from __future__ import annotations

import pytest

from chaos.sim.stack.workload import surely_failed
from chaos.sim.stack.workload_history import NO_ORDER, LoadHistory, MessagePlace, SendOutcome
from ledger.errors import (
    BusyError,
    ClosedError,
    DeliveryTimeoutError,
    LedgerError,
    NotLeaderError,
    UnavailableError,
    UnknownTopicError,
)


class Notes:
    def __init__(self) -> None:
        self.failures: list[str] = []
        self.history = LoadHistory(lambda invariant, _: self.failures.append(invariant))


@pytest.fixture
def notes() -> Notes:
    return Notes()


def test_a_history_without_fault(notes: Notes) -> None:
    history = notes.history
    one, two, three = (history.send(1, "t") for _ in range(3))
    history.committed(0, 0, [one.name + b":x", two.name + b":"])
    history.acknowledged(one, MessagePlace("t", 0, 0))
    history.unknown(two)
    history.failed(three)
    history.deliver(150, MessagePlace("t", 0, 0), one.name + b":x")
    history.deliver(150, MessagePlace("t", 0, 1), two.name + b":")
    assert notes.failures == []
    assert history.outcomes[SendOutcome.PENDING] == 0
    assert history.ends() == {("t", 0): 2}
    assert (history.total, history.delivered, history.position(150, "t", 0)) == (2, 2, 2)


def test_acknowledged_and_not_committed_or_elsewhere(notes: Notes) -> None:
    history = notes.history
    one, two = history.send(1, "t"), history.send(1, "t")
    history.acknowledged(one, MessagePlace("t", 0, 0))
    history.committed(0, 0, [two.name])
    history.acknowledged(two, MessagePlace("t", 0, 1))
    assert notes.failures == ["acknowledged is committed"] * 2


def test_committed_twice(notes: Notes) -> None:
    one = notes.history.send(1, "t")
    notes.history.committed(0, 0, [one.name, one.name])
    assert "exactly once" in notes.failures


def test_committed_out_of_order_is_judged_by_line_and_queue(notes: Notes) -> None:
    history = notes.history
    one, two = history.send(1, "t"), history.send(1, "t")
    of_many = history.send(1, "t", line=1)
    history.committed(1, 0, [two.name])
    history.committed(0, 0, [of_many.name])
    assert notes.failures == []
    history.committed(1, 1, [one.name])
    assert notes.failures == ["in its producer's order"]


def test_what_was_promised_no_order_may_come_in_any(notes: Notes) -> None:
    history = notes.history
    one, two = history.send(1, "t", NO_ORDER), history.send(1, "t", NO_ORDER)
    history.committed(0, 0, [two.name, one.name])
    assert notes.failures == []
    history.committed(0, 2, [one.name])
    assert notes.failures == ["exactly once"]


def test_what_surely_failed_and_is_there(notes: Notes) -> None:
    history = notes.history
    one, two = history.send(1, "t"), history.send(1, "t")
    history.failed(one)
    history.committed(0, 0, [one.name, two.name])
    history.failed(two)
    assert notes.failures == ["failed is not committed"] * 2


def test_what_nobody_sent(notes: Notes) -> None:
    notes.history.committed(0, 0, [b"7.7:x"])
    assert notes.failures == ["committed was sent"]


@pytest.mark.parametrize(
    ("places", "failure"),
    [
        ([0, 2], "no gap, no repeat"),
        ([0, 0], "no gap, no repeat"),
        ([0, 1, 2, 3], "delivered is committed"),
    ],
)
def test_delivered_wrongly(notes: Notes, places: list[int], failure: str) -> None:
    history = notes.history
    sent = [history.send(1, "t") for _ in range(4)]
    history.committed(0, 0, [each.name for each in sent[:3]])
    for offset in places:
        history.deliver(150, MessagePlace("t", 0, offset), sent[offset].name)
    assert notes.failures == [failure]


def test_delivered_with_another_value(notes: Notes) -> None:
    history = notes.history
    one, two = history.send(1, "t"), history.send(1, "t")
    history.committed(0, 0, [one.name])
    history.deliver(150, MessagePlace("t", 0, 0), two.name)
    assert notes.failures == ["delivered is committed"]


def test_reads(notes: Notes) -> None:
    history = notes.history
    history.committed(0, 0, [history.send(1, "t").name for _ in range(3)])
    history.read("t", 0, floor=2, end=2)
    history.read("t", 0, floor=2, end=3)
    assert notes.failures == []
    history.read("t", 0, floor=2, end=1)
    history.read("t", 0, floor=2, end=4)
    assert notes.failures == ["reads are not stale", "read is committed"]
    assert history.reads == 4


@pytest.mark.parametrize(
    ("error", "surely"),
    [
        (DeliveryTimeoutError("late", maybe_committed=False), True),
        (DeliveryTimeoutError("late", maybe_committed=True), False),
        (ClosedError("closed"), True),
        (BusyError("busy"), True),
        (UnknownTopicError("unknown"), True),
        (NotLeaderError("elsewhere"), False),
        (UnavailableError("away"), False),
    ],
)
def test_which_errors_leave_no_doubt(error: LedgerError, surely: bool) -> None:
    assert surely_failed(error) is surely


def test_messages_behind_which_the_log_begins_are_skipped(notes: Notes) -> None:
    history = notes.history
    sent = [history.send(1, "t") for _ in range(4)]
    history.committed(0, 0, [each.name for each in sent])
    history.begins("t", 0, 2)
    history.skip(150, "t", 0, 2)
    history.deliver(150, MessagePlace("t", 0, 2), sent[2].name)
    assert notes.failures == []
    assert history.skipped == 2
    history.skip(150, "t", 0, 4)
    assert notes.failures == ["nothing kept is skipped"]
