"""An asyncio client is started once and stopped once. A start that failed can be repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ledgermq import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncGroupConsumer,
    AsyncProducer,
    AsyncPushConsumer,
    AsyncRequester,
    AsyncResponder,
    AsyncSharedConsumer,
)
from ledgermq.errors import ClosedError, InvalidArgumentError, UnknownTopicError

pytestmark = pytest.mark.real


async def listener(_: Any) -> None: ...


async def handler(_: Any) -> bytes:
    return b"reply"


CLIENTS: dict[str, Callable[[str], Any]] = {
    "consumer": lambda at: AsyncConsumer("orders", bootstrap_servers=at),
    "group": lambda at: AsyncGroupConsumer("orders", group="queues", bootstrap_servers=at),
    "producer": AsyncProducer,
    "push": lambda at: AsyncPushConsumer("orders", group="pushed", listener=listener, bootstrap_servers=at),
    "requester": AsyncRequester,
    "responder": lambda at: AsyncResponder("orders", group="answers", handler=handler, bootstrap_servers=at),
    "shared": lambda at: AsyncSharedConsumer("orders", group="shared", bootstrap_servers=at),
}


@pytest.mark.parametrize("name", [*CLIENTS, "admin"])
async def test_a_second_start_is_refused_and_harms_nothing(name: str, bootstrap: str) -> None:
    async with CLIENTS.get(name, AsyncAdmin)(bootstrap) as client:
        with pytest.raises(InvalidArgumentError, match="This client is started already"):
            await client.start()
        assert not getattr(client, "closed", False)


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_client_that_was_stopped_says_at_the_start_that_it_is_closed(name: str, bootstrap: str) -> None:
    """For example, a program makes its producer once, and runs `asyncio.run` twice."""
    client = CLIENTS[name](bootstrap)
    async with client:
        pass
    with pytest.raises(ClosedError, match="This client is closed: make a new one"):
        await client.start()


async def test_a_start_that_failed_can_be_repeated(bootstrap: str) -> None:
    clients = [
        AsyncConsumer("later", bootstrap_servers=bootstrap),
        AsyncGroupConsumer("later", group="later", bootstrap_servers=bootstrap),
        AsyncPushConsumer("later", group="later-pushed", listener=listener, bootstrap_servers=bootstrap),
        AsyncSharedConsumer("later", group="shared", bootstrap_servers=bootstrap),
        AsyncResponder(
            "later",
            group="later-answers",
            handler=handler,
            reply_topics="later-replies",
            bootstrap_servers=bootstrap,
        ),
        AsyncRequester(bootstrap, reply_topic="later-replies"),
    ]
    for client in clients:
        with pytest.raises(UnknownTopicError):
            await client.start()
    async with AsyncAdmin(bootstrap) as admin:
        await admin.create_topic("later", 1)
        await admin.create_topic("later-replies", 1)
    for client in clients:
        await client.start()
    assert isinstance(clients[-1], AsyncRequester)
    assert (await clients[-1].request("later", b"request")).value == b"reply"
    for client in clients:
        await client.stop()
