"""Calls of a listener: what counts as consumed, how many at a time, and what becomes of one that takes too long."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

import pytest

from ledger import Message, Outcome
from ledger.client.listener_calls import Listener, ListenerCalls

MESSAGE = Message("t", 0, 7, 0, 0, None, b"x", None, (), 1)
LONG_S, SHORT_S = 60.0, 0.02


async def call(calls: ListenerCalls) -> bool:
    await calls.take_worker()
    return await calls.call(MESSAGE)


def calls_of(
    listener: Listener, timeout_s: float = LONG_S, *, concurrency: int = 1, in_order: bool = False
) -> ListenerCalls:
    return ListenerCalls(listener, concurrency, timeout_s, in_order=in_order)


class Hanging:
    """A plain function that returns when it is let go."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.began = 0

    def __call__(self, message: Message) -> None:
        self.began += 1
        assert self.go_on.wait(30)


def coroutine_of(outcome: Callable[[], Outcome | None]) -> Listener:
    async def listener(message: Message) -> Outcome | None:
        return outcome()

    return listener


def plain_of(outcome: Callable[[], Outcome | None]) -> Listener:
    return lambda message: outcome()


def fails() -> None:
    raise RuntimeError("no")


def times_out_itself() -> None:
    raise TimeoutError("of its own")


@pytest.mark.parametrize("kind", [coroutine_of, plain_of])
@pytest.mark.parametrize(
    ("outcome", "consumed"),
    [
        (lambda: None, True),
        (lambda: Outcome.SUCCESS, True),
        (lambda: Outcome.RECONSUME_LATER, False),
        (fails, False),
        (times_out_itself, False),
    ],
)
async def test_what_counts_as_consumed(
    kind: Callable[[Callable[[], Outcome | None]], Listener], outcome: Callable[[], Outcome | None], consumed: bool
) -> None:
    calls = calls_of(kind(outcome))
    assert [await call(calls) for _ in range(3)] == [consumed] * 3, "its worker is free again each time"
    assert calls.timeouts == 0
    calls.close()


async def test_a_coroutine_that_takes_too_long_is_cancelled_and_not_consumed(caplog: pytest.LogCaptureFixture) -> None:
    cancelled = asyncio.Event()

    async def listener(message: Message) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    calls = calls_of(listener, SHORT_S)
    with caplog.at_level(logging.ERROR):
        assert await call(calls) is False
    assert cancelled.is_set()
    assert calls.timeouts == 1
    assert "t:0:7 is with the listener for more than 0.02 s: it is cancelled" in caplog.text
    assert await call(calls) is False, "the worker is free"


async def test_a_thread_that_takes_too_long_is_given_up_and_calls_nothing_else_until_it_returns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hanging = Hanging()
    calls = calls_of(hanging, SHORT_S)
    with caplog.at_level(logging.ERROR):
        assert await call(calls) is False
    assert "its thread cannot be stopped" in caplog.text
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await calls.take_worker()
    assert hanging.began == 1
    hanging.go_on.set()
    assert await call(calls) is True
    assert (hanging.began, calls.timeouts) == (2, 1)
    calls.close()


async def test_in_order_a_thread_is_waited_for_however_long_it_takes() -> None:
    hanging = Hanging()
    calls = calls_of(hanging, SHORT_S, in_order=True)
    called = asyncio.create_task(call(calls))
    while calls.timeouts < 3:  # noqa: ASYNC110 (nobody announces it)
        await asyncio.sleep(SHORT_S)
    assert not called.done()
    hanging.go_on.set()
    assert await called is True
    calls.close()


async def test_no_more_calls_at_a_time_than_were_asked_for() -> None:
    running, most = 0, 0

    async def listener(message: Message) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    calls = calls_of(listener, concurrency=3)
    assert all(await asyncio.gather(*(call(calls) for _ in range(20))))
    assert most == 3
