"""How a client asks the nodes for routes. The nodes are fakes."""

from __future__ import annotations

import asyncio
import gc
from random import Random
from typing import Any, cast

import grpc
import pytest
from grpc import aio

from ledger.client.connection.backoff import Backoff
from ledger.client.connection.channels import Connections, meaning_of
from ledger.client.connection.routes import Routes
from ledger.errors import AuthenticationError, UnavailableError
from ledger.v1 import broker_pb2

# A node refuses a call, or the proof before the call.
REFUSALS = (
    aio.AioRpcError(grpc.StatusCode.UNAUTHENTICATED, aio.Metadata(), aio.Metadata(), details="no proof"),
    AuthenticationError("no proof"),
)


class FakeNode:
    """Answers with a leader of shard 0, or refuses the client after `wait`."""

    def __init__(self, refusal: Exception | None = None) -> None:
        self.wait = asyncio.Event()
        self._refusal = refusal

    async def GetRoute(self, _: Any, *, timeout: float) -> broker_pb2.GetRouteResponse:  # noqa: N802
        if self._refusal is not None:
            await self.wait.wait()
            raise self._refusal
        response = broker_pb2.GetRouteResponse(cluster="test", configuration_index=1)
        response.nodes.add(node=1, address="good:1")
        response.shards.add(shard=0, leader=1, term=1)
        return response


class StartingNode(FakeNode):
    """Fails `failures` requests with `details`, and answers then."""

    def __init__(self, failures: int, details: str) -> None:
        super().__init__()
        self.asked = 0
        self._failures, self._details = failures, details

    async def GetRoute(self, _: Any, *, timeout: float) -> broker_pb2.GetRouteResponse:  # noqa: N802
        self.asked += 1
        if self.asked <= self._failures:
            raise aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, aio.Metadata(), aio.Metadata(), details=self._details)
        return await super().GetRoute(_, timeout=timeout)


class FakeConnections:
    def __init__(self, **nodes: FakeNode) -> None:
        self._nodes = nodes

    def stub(self, address: str) -> FakeNode:
        return self._nodes[address.partition(":")[0]]


def routes_of(connections: FakeConnections, *addresses: str) -> Routes:
    return Routes(cast("Connections", connections), addresses, Backoff(1, 1, Random(1)))


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_refusal_behind_the_first_answer_is_no_unread_error(refusal: Exception) -> None:
    """Nobody waits for the second node once the first has named all leaders."""
    unread: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unread.append(context))
    refusing = FakeNode(refusal)
    routes = routes_of(FakeConnections(good=FakeNode(), bad=refusing), "good:1", "bad:1")
    await routes.refresh()
    refusing.wait.set()
    for _ in range(5):
        await asyncio.sleep(0)
    gc.collect()
    await routes.close()
    assert not unread


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_client_that_all_nodes_refuse_is_told(refusal: Exception) -> None:
    refusing = FakeNode(refusal)
    refusing.wait.set()
    routes = routes_of(FakeConnections(bad=refusing), "bad:1")
    with pytest.raises(AuthenticationError, match="no proof"):
        await routes.refresh()


async def test_a_new_client_asks_again_when_the_nodes_are_busy_or_starting() -> None:
    node = StartingNode(3, "tcp handshaker shutdown")
    routes = routes_of(FakeConnections(good=node), "good:1")
    await routes.start()
    assert node.asked == 4
    assert routes.table.leader_node(0) == 1
    await routes.close()


@pytest.mark.parametrize(
    ("within_s", "details", "asked"),
    [
        (0.0, "tcp handshaker shutdown", 1),
        (5.0, "ipv4:127.0.0.1:1: connect: Connection refused (111)", 1),
        (5.0, "DNS resolution failed for good:1", 1),
    ],
)
async def test_a_new_client_gives_up(within_s: float, details: str, asked: int) -> None:
    """The client raises the error at once if its time is over, or if waiting does not help."""
    node = StartingNode(100, details)
    routes = routes_of(FakeConnections(good=node), "good:1")
    with pytest.raises(UnavailableError, match="None of the nodes answers: good:1"):
        await routes.start(within_s)
    assert node.asked == asked
    await routes.close()


async def test_a_node_that_may_answer_soon_is_waited_for_though_nothing_listens_at_the_others() -> None:
    node = StartingNode(1, "this node has followed no leader of shard 0 since its start")
    dead = StartingNode(100, "connect: Connection refused (111)")
    routes = routes_of(FakeConnections(good=node, dead=dead), "good:1", "dead:1")
    await routes.start()
    assert node.asked == 2
    await routes.close()


@pytest.mark.parametrize(
    ("details", "told"),
    [
        (
            "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Tls handshake failed "
            "(TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:100000f7:SSL routines:OPENSSL_internal:WRONG_VERSION_NUMBER: "
            "Invalid certificate verification context: OK",
            "does not use TLS",
        ),
        (
            "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Tls handshake failed "
            "(TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:1000007d:SSL routines:OPENSSL_internal:"
            "CERTIFICATE_VERIFY_FAILED: self signed certificate: OK",
            "an authority that this client knows",
        ),
        (
            "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Tls handshake failed "
            "(TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:1000007d:SSL routines:OPENSSL_internal:"
            "CERTIFICATE_VERIFY_FAILED: certificate has expired: OK",
            "has ended",
        ),
        (
            "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Tls handshake failed "
            "(TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:1000007d:SSL routines:OPENSSL_internal:"
            "CERTIFICATE_VERIFY_FAILED: certificate is not yet valid: OK",
            "compare the clocks",
        ),
        ("failed to connect to all addresses; last error: UNAVAILABLE: ipv4:127.0.0.1:1: Socket closed", "turn on TLS"),
        (
            "errors resolving h:1: [field:hostname lookup error:address lookup failed for h:1: Domain name not found]",
            "name of the host is not known",
        ),
        ("failed to connect to all addresses; last error: UNKNOWN: ipv4:1: connect: Connection refused", "refused"),
    ],
)
def test_what_grpc_says_about_an_address_is_told_for_people(details: str, told: str) -> None:
    """The details are those of grpcio 1.85, for the mistakes that the sentences name."""
    assert told in meaning_of(details)
    assert not meaning_of(details).endswith(("OK", "]"))
