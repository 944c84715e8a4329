"""Streams from a client inside a node to the same node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode, aio

from cluster.node.own_streams import MOST_UNREAD, OwnStream, StreamMethod
from ledger.broker.access.callers import Caller, present_caller
from ledger.errors import AuthenticationError
from tests.cluster.rocketmq_stubs import RawClient, rocketmq_fleet

CALLER = Caller("alice", 1)


async def echo(_: Any, context: Any) -> None:
    while (request := await context.read()) is not aio.EOF:
        await context.write(request)


@asynccontextmanager
async def opened(method: StreamMethod) -> AsyncIterator[OwnStream]:
    stream = OwnStream(method, lambda: CALLER)
    try:
        yield stream
    finally:
        stream.cancel()


async def test_requests_and_responses_keep_their_order() -> None:
    async with opened(echo) as stream:
        await stream.wait_for_connection()
        for number in range(10):
            await stream.write(number)
        assert [await stream.read() for _ in range(10)] == [*range(10)]


async def test_the_method_runs_for_the_caller() -> None:
    async def who(_: Any, context: Any) -> None:
        await context.write(present_caller())

    async with opened(who) as stream:
        assert await stream.read() is CALLER
        assert await stream.read() is aio.EOF
        assert await stream.code() is StatusCode.OK


async def test_a_method_can_end_its_stream_with_a_status() -> None:
    async def refusing(_: Any, context: Any) -> None:
        await context.abort(StatusCode.RESOURCE_EXHAUSTED, "too many streams")

    async with opened(refusing) as stream:
        assert await stream.read() is aio.EOF
        assert (await stream.code(), await stream.details()) == (StatusCode.RESOURCE_EXHAUSTED, "too many streams")
        with pytest.raises(asyncio.InvalidStateError):
            await stream.write(1)


async def test_a_caller_who_may_not_call_any_more_is_refused() -> None:
    def gone() -> Caller:
        raise AuthenticationError("the user was removed")

    stream = OwnStream(echo, gone)
    assert await stream.read() is aio.EOF
    assert (await stream.code(), await stream.details()) == (StatusCode.UNAUTHENTICATED, "the user was removed")


async def test_a_defect_of_a_method_ends_only_its_stream(caplog: pytest.LogCaptureFixture) -> None:
    async def failing(_: Any, context: Any) -> None:
        raise ZeroDivisionError("secret")

    async with opened(failing) as stream:
        assert await stream.read() is aio.EOF
        assert await stream.code() is StatusCode.INTERNAL
        assert "secret" not in await stream.details()
    assert "defect" in caplog.text
    caplog.clear()  # `nothing_unheard` fails a test in which a method raises


async def test_a_cancelled_stream_ends_for_both_sides() -> None:
    ended = asyncio.Event()

    async def waiting(_: Any, context: Any) -> None:
        try:
            await context.read()
        finally:
            ended.set()

    async with opened(waiting) as stream:
        reading = asyncio.create_task(stream.read())
        await asyncio.sleep(0)
        stream.cancel()
        assert await reading is aio.EOF
        assert await stream.code() is StatusCode.CANCELLED
        assert ended.is_set()


async def test_a_method_that_reads_nothing_holds_up_its_client() -> None:
    async with opened(lambda _, context: asyncio.Event().wait()) as stream:  # type: ignore[arg-type,return-value]
        for number in range(MOST_UNREAD):
            await stream.write(number)
        writing = asyncio.create_task(stream.write("one more"))
        await asyncio.sleep(0)
        assert not writing.done()
        stream.cancel()
        with pytest.raises(asyncio.InvalidStateError):
            await writing


@pytest.mark.real
async def test_a_node_that_leads_takes_messages_without_a_connection_to_itself(tmp_path: Path) -> None:
    async with rocketmq_fleet(tmp_path) as fleet, RawClient(fleet.settings(1).rocketmq) as client:
        await client.sent("orders")
        (message,) = await client.some("billing", "orders", 1)
        assert message.body == b"hello"
        assert fleet.running[1]._services.broker._streams == 0
