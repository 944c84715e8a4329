"""Which calls of a listener take too long, and that each is told once, to whoever looks and to whoever made it."""

from __future__ import annotations

from ledger import Message
from ledger.client.call_watch import CallWatch

MESSAGE = Message("t", 0, 7, 0, 0, None, b"x", None, (), 1)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_call_is_overdue_once_its_time_is_over_and_is_told_once() -> None:
    clock = Clock()
    watch = CallWatch(10, clock)
    watch.begin("a", MESSAGE)
    clock.now = 5
    watch.begin("b", MESSAGE)
    assert watch.overdue() == []
    clock.now = 10
    assert [(call.worker, call.message) for call in watch.overdue()] == [("a", MESSAGE)]
    assert watch.overdue() == []
    assert (watch.is_overdue("a"), watch.is_overdue("b")) == (True, False)
    assert (watch.end("a"), watch.end("b")) == (False, True)
    assert watch.timeouts == 1


def test_a_worker_begins_anew_behind_a_call_that_took_too_long() -> None:
    clock = Clock()
    watch = CallWatch(10, clock)
    watch.begin("a", MESSAGE)
    clock.now = 60
    assert len(watch.overdue()) == 1
    assert not watch.end("a")
    watch.begin("a", MESSAGE)
    assert watch.overdue() == []
    assert watch.end("a")


def test_a_call_that_ends_before_anybody_looks_was_in_time() -> None:
    """However long it took: its outcome counts, as nobody has given it up."""
    clock = Clock()
    watch = CallWatch(10, clock)
    watch.begin("a", MESSAGE)
    clock.now = 60
    assert watch.end("a")
    assert (watch.overdue(), watch.timeouts) == ([], 0)
