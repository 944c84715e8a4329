"""Tests the push consumer: with which messages it calls the listener, and when it stops calling it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from itertools import count
from types import SimpleNamespace
from typing import cast

import pytest

from ledger.client.connection.environment import Environment
from ledger.client.connection.lifetime import within
from ledger.client.group.assigned_queue import AssignedQueue, QueueRun
from ledger.client.records import TopicQueue
from ledger.errors import InternalError
from ledgermq import AsyncPushConsumer, Message, Outcome


def run_of(messages: list[Message]) -> QueueRun:
    return QueueRun(cast(AssignedQueue, SimpleNamespace(place=TopicQueue("orders", 0))), messages)


class OneRead:
    """Stands for the group consumer of a push consumer. The fake returns these messages once, and afterwards no
    more messages.
    """

    def __init__(self, messages: list[Message]) -> None:
        self.in_hand = list(messages)
        self.nothing_in_hand = asyncio.Event()
        self.finished: list[int] = []
        self.losses = 0
        self._messages = messages
        self.defect: InternalError | None = None
        self._assigned_queues = self  # a push consumer reads `losses` and `defect` there

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def _read_runs(self, _: int) -> list[QueueRun]:
        messages, self._messages = self._messages, []
        if not messages:
            await asyncio.Event().wait()
        return [run_of(messages)]

    def holds(self, message: Message) -> bool:
        return message in self.in_hand

    def _finish_next(self, run: QueueRun, count: int) -> None:
        self.finish_held(run.messages[run.finished : run.finished + count])
        run.finished += count

    def finish_held(self, messages: list[Message]) -> None:
        for message in messages:
            self.finished.append(message.offset)
            self._remove(message)

    def _remove(self, message: Message) -> None:
        self.in_hand.remove(message)
        if not self.in_hand:
            self.nothing_in_hand.set()


async def test_messages_that_wait_for_a_worker_are_not_handed_out_once_their_queue_is_another_members() -> None:
    called: list[int] = []
    first, gone = asyncio.Event(), asyncio.Event()

    async def listener(message: Message) -> None:
        called.append(message.offset)
        first.set()
        await gone.wait()

    reads = OneRead([Message("orders", 0, offset, 0, 0, None, b"", None, (), 1) for offset in range(5)])
    consumer = AsyncPushConsumer("orders", group="g", bootstrap_servers="a:1", listener=listener, concurrency=1)
    consumer._consumer = reads  # type: ignore[assignment]
    await consumer.start()
    await asyncio.wait_for(first.wait(), 5)
    reads.in_hand, reads.losses = reads.in_hand[:1], 1  # another member owns the remaining messages from now on
    gone.set()
    for _ in range(50):
        await asyncio.sleep(0)
    assert called == reads.finished == [0]
    await consumer.stop()


@pytest.mark.parametrize(("monotonic_s", "calls"), [(lambda: 0.0, 3), (count().__next__, 1)])
async def test_the_clock_of_the_environment_ends_the_turn_of_a_worker(
    monotonic_s: Callable[[], float], calls: int
) -> None:
    """The first clock stands still, so the worker handles all messages in one turn. The second clock advances one
    second at each call, so the turn ends after one message.
    """
    called: list[int] = []
    calls_of_first_turn: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def listener(message: Message) -> None:
        if not called:
            asyncio.get_running_loop().call_soon(lambda: calls_of_first_turn.set_result(len(called)))
        called.append(message.offset)

    reads = OneRead([Message("orders", 0, offset, 0, 0, None, b"", None, (), 1) for offset in range(3)])
    environment = Environment(monotonic_s=monotonic_s)
    consumer = within(environment, AsyncPushConsumer)(
        "orders", group="g", bootstrap_servers="a:1", listener=listener, concurrency=1
    )
    consumer._consumer = reads  # type: ignore[assignment]
    await consumer.start()
    assert await asyncio.wait_for(calls_of_first_turn, 5) == calls
    await consumer.stop()


async def test_a_worker_that_was_woken_for_a_message_does_not_delay_the_stop() -> None:
    """The worker is woken, and before it runs, the stop takes the message away. The worker must not wait again."""
    consumer = within(Environment(), AsyncPushConsumer)(
        "orders", group="g", bootstrap_servers="a:1", listener=lambda _: None, concurrency=1
    )
    consumer._consumer = OneRead([])  # type: ignore[assignment]
    await consumer.start()
    for _ in range(10):
        await asyncio.sleep(0)
    consumer._hand_over([run_of([Message("orders", 0, 0, 0, 0, None, b"", None, (), 1)])])
    await asyncio.wait_for(consumer.stop(timeout_s=20), 5)


async def test_a_stop_that_is_given_up_leaves_the_group_all_the_same() -> None:
    """The listener takes long, so the stop waits for it. Then the caller gives up."""
    listening, left = asyncio.Event(), asyncio.Event()

    async def listener(_: Message) -> None:
        listening.set()
        await asyncio.sleep(60)

    class Member(OneRead):
        async def stop(self) -> None:
            await asyncio.sleep(0)
            left.set()

    consumer = AsyncPushConsumer("orders", group="g", bootstrap_servers="a:1", listener=listener)
    consumer._consumer = Member(messages_of([0]))  # type: ignore[assignment]
    await consumer.start()
    await asyncio.wait_for(listening.wait(), 5)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(consumer.stop(), 0.01)
    await asyncio.wait_for(consumer.wait_closed(), 5)
    assert left.is_set()
    assert not consumer._tasks, "calls of the listener go on"
    await consumer.stop()


def messages_of(offsets: Iterable[int]) -> list[Message]:
    return [Message("orders", 0, offset, 0, 0, None, b"", None, (), 1) for offset in offsets]


class Moving(OneRead):
    """Like `OneRead`, and records the messages that are to be delivered again later."""

    def __init__(self, messages: list[Message]) -> None:
        super().__init__(messages)
        self.later: list[int] = []

    async def reconsume_later(self, message: Message) -> None:
        self.later.append(message.offset)
        self._remove(message)


@pytest.mark.parametrize("orderly", [False, True])
async def test_every_message_is_finished_once_though_some_calls_wait_and_others_do_not(orderly: bool) -> None:
    called: list[int] = []

    async def listener(message: Message) -> None:
        called.append(message.offset)
        if message.offset % 7 == 3:
            await asyncio.sleep(0)

    reads = OneRead(messages_of(range(100)))
    consumer = AsyncPushConsumer(
        "orders", group="g", bootstrap_servers="a:1", listener=listener, concurrency=3, orderly=orderly
    )
    consumer._consumer = reads  # type: ignore[assignment]
    await consumer.start()
    await asyncio.wait_for(reads.nothing_in_hand.wait(), 5)
    await consumer.stop()
    assert sorted(called) == sorted(reads.finished) == list(range(100))
    assert not orderly or called == reads.finished


async def test_a_failed_message_in_the_middle_is_delivered_later_and_the_others_are_finished() -> None:
    async def listener(message: Message) -> Outcome | None:
        if message.offset == 4:
            raise ValueError
        return Outcome.RECONSUME_LATER if message.offset == 8 else None

    reads = Moving(messages_of(range(12)))
    consumer = AsyncPushConsumer("orders", group="g", bootstrap_servers="a:1", listener=listener, concurrency=2)
    consumer._consumer = reads  # type: ignore[assignment]
    await consumer.start()
    await asyncio.wait_for(reads.nothing_in_hand.wait(), 5)
    await consumer.stop()
    assert reads.later == [4, 8]
    assert sorted(reads.finished) == [0, 1, 2, 3, 5, 6, 7, 9, 10, 11]


async def test_a_plain_listener_that_ends_its_thread_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    errors = []

    def listener(message: Message) -> None:
        if message.offset == 1:
            sys.exit(3)

    reads = Moving(messages_of(range(3)))
    consumer = AsyncPushConsumer(
        "orders", group="g", bootstrap_servers="a:1", listener=listener, on_error=lambda error, _: errors.append(error)
    )
    consumer._consumer = reads  # type: ignore[assignment]
    await consumer.start()
    await asyncio.wait_for(reads.nothing_in_hand.wait(), 5)
    await consumer.stop()
    assert (reads.later, sorted(reads.finished)) == ([1], [0, 2])
    assert [str(error) for error in errors] == ["the listener raised SystemExit(3), which is taken as a failure"]
    assert "the listener could not consume message orders:0:1" in caplog.text


async def test_a_message_whose_call_ends_with_the_stop_is_not_finished() -> None:
    """The listener is in the middle of a message when the stop gives up waiting for it."""
    waits = asyncio.Event()

    async def listener(message: Message) -> None:
        if message.offset == 2:
            waits.set()
            await asyncio.Event().wait()

    reads = OneRead(messages_of(range(4)))
    consumer = AsyncPushConsumer("orders", group="g", bootstrap_servers="a:1", listener=listener, concurrency=1)
    consumer._consumer = reads  # type: ignore[assignment]
    await consumer.start()
    await asyncio.wait_for(waits.wait(), 5)
    await consumer.stop(timeout_s=0)
    assert reads.finished == [0, 1]


async def test_workers_that_wait_for_the_listener_do_not_keep_messages_from_idle_workers() -> None:
    """One worker is woken first. All workers get messages although that worker still waits for its listener."""
    at_once: list[int] = []
    all_are_there = asyncio.Event()

    async def listener(message: Message) -> None:
        at_once.append(message.offset)
        if len(at_once) == 4:
            all_are_there.set()
        await all_are_there.wait()

    reads = OneRead(messages_of(range(4)))
    consumer = AsyncPushConsumer("orders", group="g", bootstrap_servers="a:1", listener=listener, concurrency=4)
    consumer._consumer = reads  # type: ignore[assignment]
    await consumer.start()
    await asyncio.wait_for(all_are_there.wait(), 5)
    await consumer.stop()
    assert sorted(reads.finished) == [0, 1, 2, 3]


async def test_an_orderly_message_that_fails_comes_again_before_the_next() -> None:
    called: list[int] = []

    async def listener(message: Message) -> Outcome | None:
        called.append(message.offset)
        return Outcome.RECONSUME_LATER if called.count(1) in (1, 2) and message.offset == 1 else None

    reads = OneRead(messages_of(range(3)))
    consumer = AsyncPushConsumer(
        "orders", group="g", bootstrap_servers="a:1", listener=listener, orderly=True, suspend_ms=0
    )
    consumer._consumer = reads  # type: ignore[assignment]
    await consumer.start()
    await asyncio.wait_for(reads.nothing_in_hand.wait(), 5)
    await consumer.stop()
    assert called == [0, 1, 1, 1, 2]
    assert reads.finished == [0, 1, 2]


async def fails() -> None:
    raise KeyError("a defect")


@pytest.mark.parametrize("task", ["_read", "_watch", "_work"])
async def test_a_defect_of_a_task_stops_the_consumer(task: str, caplog: pytest.LogCaptureFixture) -> None:
    told: list[Exception] = []
    consumer = AsyncPushConsumer(
        "orders",
        group="g",
        bootstrap_servers="a:1",
        listener=lambda _: None,
        concurrency=1,
        on_error=lambda error, _: told.append(error),
    )
    consumer._consumer = OneRead([])  # type: ignore[assignment]
    setattr(consumer, task, fails)
    await consumer.start()
    with pytest.raises(InternalError, match="KeyError"):
        await asyncio.wait_for(consumer.wait_closed(), 5)
    assert len(told) == 1
    assert "Traceback" in caplog.text


async def test_a_defect_of_the_group_consumer_stops_the_push_consumer() -> None:
    """Another read would raise the defect again."""

    class Defective(OneRead):
        async def _read_runs(self, _: int) -> list[QueueRun]:
            self.defect = self.defect or InternalError("a defect")
            raise self.defect

        def fetch_again(self) -> None: ...

    consumer = AsyncPushConsumer("orders", group="g", bootstrap_servers="a:1", listener=lambda _: None)
    consumer._consumer = Defective([])  # type: ignore[assignment]
    await consumer.start()
    with pytest.raises(InternalError, match=r"^a defect"):
        await asyncio.wait_for(consumer.wait_closed(), 5)
