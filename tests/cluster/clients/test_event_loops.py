"""An asyncio client that is used in another event loop than its own says so at once, and does not wait for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ledgermq import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncGroupConsumer,
    AsyncProducer,
    AsyncPushConsumer,
    AsyncRequester,
    AsyncSharedConsumer,
)
from ledgermq.errors import ClosedError

pytestmark = pytest.mark.real


async def nothing(_: object) -> None:
    """Handle a message."""


CLIENTS: dict[str, tuple[Callable[[str], Any], Callable[[Any], Awaitable[object]]]] = {
    "producer": (AsyncProducer, lambda client: client.send("orders", b"x")),
    "flush": (AsyncProducer, lambda client: client.flush()),
    "consumer": (lambda at: AsyncConsumer("orders", bootstrap_servers=at), lambda client: client.getmany()),
    "group": (
        lambda at: AsyncGroupConsumer("orders", group="g", bootstrap_servers=at),
        lambda client: client.getmany(),
    ),
    "push": (
        lambda at: AsyncPushConsumer("orders", group="p", listener=nothing, bootstrap_servers=at),
        lambda client: client.wait_assigned(),
    ),
    "shared": (
        lambda at: AsyncSharedConsumer("orders", group="shared", bootstrap_servers=at),
        lambda client: client.receive(),
    ),
    "admin": (AsyncAdmin, lambda client: client.list_topics()),
    "requester": (
        lambda at: AsyncRequester(at, reply_topic="replies"),
        lambda client: client.request("orders", b"x"),
    ),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_works_in_the_event_loop_that_started_it(tmp_path: Path, bootstrap: str, name: str) -> None:
    make, use = CLIENTS[name]

    async def begin() -> Any:
        client = make(bootstrap)
        await client.start()
        return client

    async def within_ten_s(work: Awaitable[object]) -> None:
        async with asyncio.timeout(10):
            await work

    client = asyncio.run(begin())
    for work in (use, lambda client: client.stop()):
        with pytest.raises(ClosedError, match="was started in another event loop"):
            asyncio.run(within_ten_s(work(client)))
