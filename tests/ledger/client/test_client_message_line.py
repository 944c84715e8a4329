"""Tests the line of messages of a push consumer: which of the consumed messages it finishes as parts of runs."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import cast

from ledger.client.group.assigned_queue import AssignedQueue, QueueRun
from ledger.client.group.message_line import MessageLine
from ledger.client.records import Message, TopicQueue


def run_of(queue: int, offsets: Iterable[int]) -> QueueRun:
    assigned = cast(AssignedQueue, SimpleNamespace(place=TopicQueue("orders", queue)))
    return QueueRun(assigned, [Message("orders", queue, offset, 0, 0, None, b"", None, (), 1) for offset in offsets])


class Finished:
    """Stands for a group consumer, and records what the line finishes."""

    def __init__(self) -> None:
        # (queue, first offset, count) of each part of a run.
        self.parts: list[tuple[int, int, int]] = []
        # Offsets of messages that were finished by themselves.
        self.single: list[int] = []

    def _finish_next(self, run: QueueRun, count: int) -> None:
        first = run.messages[run.finished]
        self.parts.append((first.queue, first.offset, count))
        run.finished += count

    def finish_held(self, messages: Iterable[Message]) -> None:
        self.single += [message.offset for message in messages]


def consume(line: MessageLine, count: int) -> None:
    for _ in range(count):
        line.consumed.append(line.messages.popleft())


def test_messages_that_are_consumed_in_order_are_finished_as_parts_of_runs() -> None:
    line, finished = MessageLine(keeps_runs=True), Finished()
    line.add([run_of(0, range(5)), run_of(1, range(10, 14))])
    consume(line, 3)
    line.settle(finished)
    consume(line, 6)
    line.settle(finished)
    line.add([run_of(0, range(5, 8))])
    consume(line, 3)
    line.settle(finished)
    assert finished.parts == [(0, 0, 3), (0, 3, 2), (1, 10, 4), (0, 5, 3)]
    assert finished.single == []


def test_while_a_message_is_with_the_listener_the_others_are_finished_by_themselves() -> None:
    line, finished = MessageLine(keeps_runs=True), Finished()
    line.add([run_of(0, range(6))])
    with_the_listener = line.messages.popleft()
    consume(line, 2)
    line.settle(finished)
    line.consumed.append(with_the_listener)
    consume(line, 1)
    line.settle(finished)
    assert finished.parts == []
    assert finished.single == [1, 2, 0, 3]


def test_a_message_of_an_earlier_read_does_not_count_as_one_of_a_later_read() -> None:
    """The message of the earlier read is with the listener while a later read adds messages, and one message of each
    read is consumed then."""
    line, finished = MessageLine(keeps_runs=True), Finished()
    line.add([run_of(0, [0])])
    earlier = line.messages.popleft()
    line.add([run_of(0, [1, 2])])
    consume(line, 1)
    line.consumed.append(earlier)
    line.settle(finished)
    assert (finished.parts, finished.single) == ([], [1, 0])


def test_behind_a_message_that_was_left_out_the_others_are_finished_by_themselves() -> None:
    line, finished = MessageLine(keeps_runs=True), Finished()
    line.add([run_of(0, range(4))])
    consume(line, 1)
    line.messages.popleft()
    line.left_out()
    consume(line, 1)
    line.settle(finished)
    assert (finished.parts, finished.single) == ([], [0, 2])
    consume(line, 1)
    line.settle(finished)
    line.add([run_of(0, [4])])
    consume(line, 1)
    line.settle(finished)
    assert (finished.parts, finished.single) == ([(0, 4, 1)], [0, 2, 3])


def test_a_line_that_threads_use_finishes_each_message_by_itself() -> None:
    line, finished = MessageLine(keeps_runs=False), Finished()
    line.add([run_of(0, range(2))])
    consume(line, 2)
    line.settle(finished)
    assert (finished.parts, finished.single) == ([], [0, 1])
