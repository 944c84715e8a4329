"""Tests that a batch result is delivered to receipts in parts, and that each message gets its own offset."""

from __future__ import annotations

import pytest

from ledger.client.producer.producer_batch import Acknowledged, Answer, BatchResult, ProducerBatch, Receipt
from ledger.errors import ClosedError, LedgerError
from ledger.timed import WaitingMessages

ANSWER = Acknowledged(base_offset=100, term=1, append_time_ms=2, duplicate=False)


class Note:
    """A receipt that records its results. A `broken` receipt raises OSError when it is acknowledged."""

    def __init__(self, *, broken: bool = False) -> None:
        self.told: list[tuple[int, int] | LedgerError] = []
        self._broken = broken

    def acknowledged(self, queue: int, first_offset: int, count: int, answer: Acknowledged) -> None:
        if self._broken:
            raise OSError("no room for a history")
        self.told.append((first_offset, count))

    def scheduled(self, queue: int, waiting: WaitingMessages, answer: Acknowledged) -> None:
        raise AssertionError("the messages have no delivery times")

    def failed(self, error: LedgerError) -> None:
        self.told.append(error)


def results(outcome: Answer, *receipts: tuple[Receipt, int]) -> BatchResult:
    return BatchResult(0, receipts, outcome, 0, ProducerBatch(0, 0.0, 0.0))


def test_a_part_at_a_time() -> None:
    notes = [Note() for _ in range(5)]
    one = results(ANSWER, *zip(notes, (3, 1, 2, 1, 4), strict=True))
    assert [one.deliver(2), one.is_delivered] == [2, False]
    assert [len(note.told) for note in notes] == [1, 1, 0, 0, 0]
    assert [one.deliver(2), one.is_delivered] == [2, False]
    assert [one.deliver(2), one.is_delivered] == [1, True]
    assert [note.told for note in notes] == [[(100, 3)], [(103, 1)], [(104, 2)], [(106, 1)], [(107, 4)]]


def test_a_failure_too() -> None:
    error, notes = ClosedError("closed"), [Note() for _ in range(3)]
    one = results(error, *((note, 1) for note in notes))
    assert [one.deliver(2), one.deliver()] == [2, 1]
    assert [note.told for note in notes] == [[error]] * 3


def test_a_receipt_that_raises_does_not_shift_the_others() -> None:
    notes = [Note(), Note(broken=True), Note()]
    one = results(ANSWER, *((note, 2) for note in notes))
    with pytest.raises(OSError, match="history"):
        one.deliver(3)
    assert one.deliver(3) == 1
    assert one.is_delivered
    assert [note.told for note in notes] == [[(100, 2)], [], [(104, 2)]]
