"""Tests which calls of a listener count as overdue. Each overdue call is reported once to the watcher, and to the
worker when the call ends.
"""

from __future__ import annotations

from ledger.client.group.call_watch import CallWatch
from ledgermq import Message

MESSAGE = Message("t", 0, 7, 0, 0, None, b"x", None, (), 1)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_call_is_overdue_once_it_was_seen_for_its_time_and_is_told_once() -> None:
    clock = Clock()
    watch = CallWatch(10, clock)
    first, second = watch.of("a"), watch.of("b")
    first.message = MESSAGE
    assert watch.overdue() == []
    clock.now = 5
    second.message = MESSAGE
    assert watch.overdue() == []
    clock.now = 10
    assert watch.overdue() == [(first, MESSAGE)]
    assert watch.overdue() == []
    assert (first.is_overdue, second.is_overdue) == (True, False)
    assert (first.end(), second.end()) == (False, True)
    assert watch.timeouts == 1


def test_a_worker_begins_anew_behind_a_call_that_took_too_long() -> None:
    clock = Clock()
    watch = CallWatch(10, clock)
    call = watch.of("a")
    call.message = MESSAGE
    watch.overdue()
    clock.now = 60
    assert len(watch.overdue()) == 1
    assert not watch.of("a").end()
    call.message = MESSAGE
    assert watch.overdue() == []
    assert not call.is_overdue
    assert call.end()


def test_a_call_that_ends_before_anybody_looks_was_in_time() -> None:
    """The watch finds overdue calls only when `overdue` is called. A long call that ends before `overdue` is called
    counts as in time, and its result is used.
    """
    clock = Clock()
    watch = CallWatch(10, clock)
    watch.of("a").message = MESSAGE
    clock.now = 60
    assert watch.of("a").end()
    assert (watch.overdue(), watch.timeouts) == ([], 0)


def test_calls_about_the_same_message_are_told_apart() -> None:
    """An ordered consumer calls the listener again with the same message. The time of each call counts separately."""
    clock = Clock()
    watch = CallWatch(10, clock)
    call = watch.of("a")
    for clock.now in (0, 6, 12, 18):
        call.message = MESSAGE
        assert watch.overdue() == []
        call.end()


def test_a_worker_between_two_calls_is_not_overdue() -> None:
    clock = Clock()
    watch = CallWatch(10, clock)
    watch.of("a").message = MESSAGE
    assert watch.overdue() == []
    assert watch.of("a").end()
    clock.now = 60
    assert watch.overdue() == []


def test_the_time_of_each_message_counts_by_itself_though_only_the_last_call_is_ended() -> None:
    clock = Clock()
    watch = CallWatch(10, clock)
    call = watch.of("a")
    for clock.now in (0, 6, 12, 18):
        call.message = MESSAGE._replace(offset=int(clock.now))
        assert watch.overdue() == []
    clock.now = 28
    assert watch.overdue() == [(call, call.message)]
    assert call.is_overdue
    call.message = MESSAGE
    assert (call.is_overdue, call.end()) == (False, True)
