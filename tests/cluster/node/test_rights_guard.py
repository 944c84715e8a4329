"""The audit lines of acts: also of those whose call was cancelled, that failed, or that were refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest
from grpc import aio

from cluster.node.request_guard import RequestGuard
from cluster.node.security.rights_guard import Method, RightsGuard
from ledger.broker.access.audit import MAX_REFUSED, AuditLog
from ledger.broker.access.authorizer import Authorizer
from ledger.broker.access.callers import Caller
from ledger.broker.access.sessions import Sessions
from ledger.broker.replicas import Replicas
from ledger.errors import InvalidArgumentError, LedgerError, NoLeaderError, to_wire
from ledger.v1 import operations_pb2, operations_pb2_grpc
from tests.cluster.waiter import until

REMOVE = "/ledger.v1.Operations/RemoveNode"
REQUEST = operations_pb2.RemoveNodeRequest(node=3)


class NoNodes:
    """Implements NodeCallers: no call is one of a node."""

    are_needed = True

    def node_of(self, context: object) -> int:
        return 0


class GuardedNode:
    """The guard of a node on which alice may do everything."""

    def __init__(self) -> None:
        self.audit = AuditLog()
        authorizer: Any = SimpleNamespace(check=lambda *_: None)
        self.guard = RightsGuard(
            Replicas(),
            cast("Authorizer", authorizer),
            Sessions(lambda: 0.0),
            NoNodes(),
            authentication=True,
            everybody=Caller("alice"),
            audit=self.audit,
        )

    def lines(self) -> list[str]:
        return [line.text for line in self.audit.after(0)]

    def call(self, behavior: Method) -> asyncio.Task[Any]:
        context: Any = SimpleNamespace(peer=lambda: "ipv4:127.0.0.1:1")
        checked: Any = self.guard.call(REMOVE, behavior)(REQUEST, context)
        return asyncio.create_task(checked)


async def test_an_act_is_recorded_when_its_call_is_cancelled() -> None:
    node, is_running = GuardedNode(), asyncio.Event()

    async def remove(request: object, context: object) -> None:
        is_running.set()
        await asyncio.Event().wait()

    call = node.call(remove)
    await is_running.wait()
    assert node.lines() == []
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    (line,) = node.lines()
    assert line.startswith("alice from ipv4:127.0.0.1:1: /ledger.v1.Operations/RemoveNode node=3: ")
    assert line.endswith(": the call was cancelled before its end: the act may have been done")


async def test_an_act_is_recorded_when_the_node_fails_and_the_line_has_no_text_of_the_error() -> None:
    node = GuardedNode()

    async def remove(request: object, context: object) -> None:
        raise RuntimeError("the secret of the node")

    with pytest.raises(RuntimeError):
        await node.call(remove)
    (line,) = node.lines()
    assert line.endswith(" node=3: the node failed with RuntimeError: the act may have been done")


async def test_an_act_that_returns_is_recorded_once_with_its_outcome() -> None:
    node = GuardedNode()
    responses = [operations_pb2.ChangeResponse(), operations_pb2.ChangeResponse()]
    responses[1].error.message = "node 3 is no member"

    async def remove(request: object, context: object) -> operations_pb2.ChangeResponse:
        return responses.pop(0)

    await node.call(remove)
    await node.call(remove)
    assert [line.rpartition("node=3: ")[2] for line in node.lines()] == ["done", "node 3 is no member"]


@pytest.mark.parametrize(
    ("error", "lines"),
    [(InvalidArgumentError("x" * 10_000), MAX_REFUSED), (NoLeaderError("try again"), MAX_REFUSED + 40)],
    ids=["surely refused", "may have been done"],
)
async def test_acts_that_a_method_surely_refuses_do_not_fill_the_log(error: LedgerError, lines: int) -> None:
    """Every user may ask for a token, and has a limit of tokens."""
    node = GuardedNode()

    async def remove(request: object, context: object) -> operations_pb2.ChangeResponse:
        return operations_pb2.ChangeResponse(error=to_wire(error))

    for _ in range(MAX_REFUSED + 40):
        await node.call(remove)
    assert len(node.lines()) == lines
    assert max(map(len, node.lines())) < 1_000


class Members(operations_pb2_grpc.OperationsServicer):
    """Removes a node, which takes until `may_end` is set. The caller cannot stop it."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.removals: list[asyncio.Task[bool]] = []

    async def RemoveNode(self, request: Any, context: Any) -> operations_pb2.ChangeResponse:  # noqa: N802
        self.removals.append(asyncio.create_task(self.may_end.wait()))
        await asyncio.shield(self.removals[-1])
        return operations_pb2.ChangeResponse()


@asynccontextmanager
async def serving(node: GuardedNode, members: Members) -> AsyncIterator[Any]:
    """Serve the members of a node, and yield a stub."""
    server = aio.server(interceptors=[RequestGuard(), node.guard])
    operations_pb2_grpc.add_OperationsServicer_to_server(members, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield operations_pb2_grpc.OperationsStub(channel)
    finally:
        await server.stop(None)


@pytest.mark.real
@pytest.mark.parametrize("cancels", [True, False], ids=["the caller cancels", "the deadline ends"])
async def test_a_caller_that_leaves_after_its_request_leaves_a_line(*, cancels: bool) -> None:
    node, members = GuardedNode(), Members()
    async with serving(node, members) as stub:
        call = stub.RemoveNode(REQUEST, timeout=30 if cancels else 1)
        await until(lambda: bool(members.removals), "the method runs")
        if cancels:
            call.cancel()
        assert await call.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED)
        await until(lambda: bool(node.lines()), "the act is recorded", deadline_s=5)
    members.may_end.set()
    assert await members.removals[0], "the act goes on"
    (line,) = node.lines()
    assert line.endswith("the call was cancelled before its end: the act may have been done")
