"""The stream in which a node registers with a name server: it reports the routes of one node."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import grpc
import pytest

from ledger.nameserver.registrations import Registrations
from ledger.nameserver.service import NameServerService
from ledger.v1 import broker_pb2, nameserver_pb2
from tests.ledger.broker.stream_client import AbortedError, StreamClient


def report(node: int) -> nameserver_pb2.Registration:
    routes = broker_pb2.GetRouteResponse(cluster="one", nodes=[broker_pb2.NodeRoute(node=node, address="host:1")])
    return nameserver_pb2.Registration(node=node, routes=routes)


def register(known: Registrations, client: StreamClient) -> asyncio.Task[None]:
    return asyncio.create_task(NameServerService(known).Register(None, cast(Any, client)))


async def test_a_stream_cannot_register_a_second_node() -> None:
    known, client = Registrations(lambda: 0.0), StreamClient(report(1), report(1), report(2))
    with pytest.raises(AbortedError, match="reports the routes of node 1: open another stream for node 2"):
        await register(known, client)
    assert client.ended is grpc.StatusCode.INVALID_ARGUMENT
    assert len(client.received) == 2
    assert len(known) == 0, "the end of the stream removes its node"


@pytest.mark.parametrize("node", [0, 1])
async def test_the_end_of_a_stream_removes_its_node(node: int) -> None:
    known, client = Registrations(lambda: 0.0), StreamClient(report(node))
    stream = register(known, client)
    await asyncio.sleep(0.001)
    assert len(known) == 1
    client.requests.put_nowait(None)
    await stream
    assert len(known) == 0
