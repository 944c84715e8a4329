"""Tests which messages of an assigned queue are in hand: handed out to the program and not finished."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from ledger.client.consumer.cursor import Cursor
from ledger.client.group.assigned_queue import AssignedQueue
from ledgermq import Message


def message(offset: int) -> Message:
    return Message("orders", 0, offset, 0, 0, None, b"", None, (), 1)


def assigned_queue_of(*fetched: Message) -> AssignedQueue:
    """Return an assigned queue that has fetched all these messages."""
    cursor = SimpleNamespace(take=lambda count: list(fetched[:count]), position=9, fetch_offset=0)
    return AssignedQueue(cast(Cursor, cursor), shard=0, epoch=3, resets=0, settled=(), most=10, span=10)


def test_what_was_handed_out_by_an_earlier_claim_is_not_in_hand() -> None:
    """A message object that was handed out under an earlier claim is not in hand, even if an equal message is.
    Otherwise an ordered listener would get the old message too early.
    """
    before, again = message(7), message(7)
    assert before == again
    assigned = assigned_queue_of(message(6), again)
    assert not assigned.has_in_hand(again)
    assigned.take(2)
    assert assigned.has_in_hand(again)
    assert not assigned.has_in_hand(before)
    assigned.finish_held([again])
    assert not assigned.has_in_hand(again)


@pytest.mark.parametrize("was_reset", [True, False])
def test_only_behind_a_reset_a_message_is_to_be_consumed_once_more_though_it_was_finished_meanwhile(
    was_reset: bool,
) -> None:
    before, again = message(7), message(7)
    assigned = assigned_queue_of(again)
    assigned.was_reset = was_reset
    assigned.take(1)
    assigned.finish_held([before])
    assert assigned.has_in_hand(again) == was_reset


def test_what_a_copy_of_a_message_finishes_is_finished() -> None:
    """Finishing by offset also finishes the original message object. A program may give a message to another process
    and finish the copy that comes back.
    """
    again = message(7)
    assigned = assigned_queue_of(again)
    assigned.take(1)
    assigned.finish([7])
    assert not assigned.has_in_hand(again)


def test_the_next_messages_of_a_run_are_finished_together() -> None:
    assigned = assigned_queue_of(*map(message, range(3, 7)))
    run = assigned.take_run(4)
    assert run is not None
    assert assigned.finish_next(run, 3)
    assert (assigned.finished_up_to, assigned.is_finished) == (6, False)
    assert [assigned.has_in_hand(one) for one in run.messages] == [False, False, False, True]
    assert assigned.finish_next(run, 1)
    assert (assigned.finished_up_to, assigned.is_finished) == (9, True)


def test_a_message_of_a_run_can_be_finished_by_itself_and_then_the_others_too() -> None:
    assigned = assigned_queue_of(*map(message, range(3, 7)))
    run = assigned.take_run(4)
    assert run is not None
    assigned.finish_next(run, 1)
    assigned.finish([5])
    assert not assigned.finish_next(run, 1)
    assert [assigned.has_in_hand(one) for one in run.messages] == [False, True, False, True]
    assert assigned.finished_up_to == 4
    assigned.finish_held([run.messages[1]])
    assert assigned.finished_up_to == 6


def test_a_run_is_in_hand_when_the_next_run_is_taken() -> None:
    fetched = list(map(message, range(3, 7)))
    cursor = SimpleNamespace(take=lambda count: [fetched.pop(0) for _ in range(count)], position=9, fetch_offset=0)
    assigned = AssignedQueue(cast(Cursor, cursor), shard=0, epoch=3, resets=0, settled=(), most=10, span=10)
    first, second = assigned.take_run(2), assigned.take_run(2)
    assert first is not None
    assert second is not None
    assert not assigned.finish_next(first, 2)
    assert assigned.finish_next(second, 2)
    assert assigned.finished_up_to == 3
    assigned.finish_held(first.messages)
    assert assigned.is_finished


def test_a_seek_drops_the_run_that_was_taken_last() -> None:
    assigned = assigned_queue_of(message(3))
    assigned.cursor.seek = lambda offset: None  # type: ignore[method-assign]
    run = assigned.take_run(1)
    assert run is not None
    assigned.seek(20)
    assert assigned.is_finished
    assert not assigned.has_in_hand(run.messages[0])
    assert not assigned.finish_next(run, 1)
