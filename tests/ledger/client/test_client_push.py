"""Tests the push consumer: with which messages it calls the listener, and when it stops calling it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count

import pytest

from ledger.client.connection.environment import Environment
from ledger.client.connection.lifetime import within
from ledgermq import AsyncPushConsumer, Message


class OneRead:
    """Stands for the group consumer of a push consumer. The fake returns these messages once, and afterwards no
    more messages.
    """

    def __init__(self, messages: list[Message]) -> None:
        self.in_hand = list(messages)
        self.finished: list[int] = []
        self.losses = 0
        self._messages = messages

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def getmany(self, _: int) -> list[Message]:
        messages, self._messages = self._messages, []
        if not messages:
            await asyncio.Event().wait()
        return messages

    def holds(self, message: Message) -> bool:
        return message in self.in_hand

    def finish_held(self, messages: list[Message]) -> None:
        for message in messages:
            self.in_hand.remove(message)
            self.finished.append(message.offset)


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
    consumer._hand_over([Message("orders", 0, 0, 0, 0, None, b"", None, (), 1)])
    await asyncio.wait_for(consumer.stop(timeout_s=20), 5)
