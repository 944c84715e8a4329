"""Requests that are not complete: how many a server receives at the same time, and how long it waits for each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
import pytest_asyncio
from grpc import aio

from cluster.node.receiving import (
    MOST,
    MOST_OF_A_CONNECTION,
    MOST_OF_A_HOST,
    Context,
    Receiving,
)
from cluster.node.request_guard import RequestGuard
from ledger.broker.access.places import Places
from ledger.v1 import broker_pb2, broker_pb2_grpc
from tests.cluster.fleet import Fleet
from tests.cluster.node_process import NodeProcess
from tests.cluster.scrape import is_ready
from tests.cluster.secured import PASSWORD, write_secret
from tests.cluster.waiter import eventually, until

ANY_SIZE = (("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1))


class Stalled:
    """A call whose caller does not send its request until `sent` is set."""

    def __init__(self, host: int, port: int = 1) -> None:
        self.sent = asyncio.Event()
        self.is_read = False
        self.code: grpc.StatusCode | None = None
        self._peer = f"ipv4:10.0.0.{host}:{port}"

    def peer(self) -> str:
        return self._peer

    async def read(self) -> str:
        self.is_read = True
        await self.sent.wait()
        return self._peer

    async def abort(self, code: grpc.StatusCode, _: str) -> None:
        self.code = code
        raise aio.AbortError


class Calls:
    """Calls that wait for their turns."""

    def __init__(self) -> None:
        self.receiving = Receiving()
        self.all: list[Stalled] = []
        self._tasks: list[asyncio.Task[Any]] = []

    async def add(self, *calls: Stalled) -> None:
        self.all += calls
        for call in calls:
            self._tasks.append(asyncio.create_task(self.receiving.read(cast("Context", call))))
        for _ in range(10):
            await asyncio.sleep(0)

    @property
    def read(self) -> int:
        """How many requests the server has begun to read."""
        return sum(call.is_read for call in self.all)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest_asyncio.fixture
async def calls() -> AsyncIterator[Calls]:
    calls = Calls()
    yield calls
    await calls.end()


async def test_a_connection_has_few_turns(calls: Calls) -> None:
    await calls.add(*(Stalled(1) for _ in range(20)))
    assert calls.read == MOST_OF_A_CONNECTION
    calls.all[0].sent.set()
    await calls.add()
    assert calls.read == MOST_OF_A_CONNECTION + 1, "the next call has the turn of the first"


async def test_a_host_cannot_take_all_turns(calls: Calls) -> None:
    await calls.add(*(Stalled(1, port) for port in range(50)))
    assert calls.read == MOST_OF_A_HOST < MOST
    await calls.add(other := Stalled(2))
    assert other.is_read


async def test_all_hosts_have_so_many_turns(calls: Calls) -> None:
    await calls.add(*(Stalled(host, port) for host in range(5) for port in range(20)))
    assert calls.read == MOST
    for call in calls.all:
        call.sent.set()
    await calls.add()
    assert calls.read == len(calls.all)


async def test_too_many_waiting_calls_are_refused(calls: Calls) -> None:
    calls.receiving._calls = Places(5, 3)
    await calls.add(*(Stalled(1, port) for port in range(4)))
    assert [call.code for call in calls.all] == [None, None, None, grpc.StatusCode.UNAVAILABLE]


async def test_a_request_has_a_deadline(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.node.receiving.RECEIVE_S", 0.05)
    await calls.add(*(Stalled(1, port) for port in range(2 * MOST_OF_A_HOST)))
    await until(lambda: all(call.code for call in calls.all), "all calls ended")
    assert {call.code for call in calls.all} == {grpc.StatusCode.DEADLINE_EXCEEDED}


async def test_a_turn_is_shorter_while_another_call_of_the_host_waits(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.node.receiving.PATIENCE_S", 0.05)
    stalled = [Stalled(1, port) for port in range(MOST_OF_A_HOST)]
    await calls.add(*stalled, elsewhere := Stalled(2))
    waiting = Stalled(1, 100)
    waiting.sent.set()
    await calls.add(waiting)
    assert not waiting.is_read
    await until(lambda: waiting.is_read, "the call has a turn")
    # On a slow machine some of them began later, and keep their turns as soon as no call waits any more.
    assert any(call.code is grpc.StatusCode.DEADLINE_EXCEEDED for call in stalled)
    assert elsewhere.code is None, "nobody waits for the turn of the other host"


class Echo(broker_pb2_grpc.BrokerServicer):
    async def GetStatus(self, request: Any, context: Any) -> broker_pb2.GetStatusResponse:  # noqa: N802
        return broker_pb2.GetStatusResponse(node=7)


@pytest.mark.real
async def test_a_call_without_a_request_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller opens a call and sends nothing. Without the guard, gRPC would wait for ever."""
    monkeypatch.setattr("cluster.node.receiving.RECEIVE_S", 0.2)
    server = aio.server(interceptors=[RequestGuard()])
    broker_pb2_grpc.add_BrokerServicer_to_server(Echo(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        silent: Any = channel.stream_unary("/ledger.v1.Broker/GetStatus")
        calls = [silent() for _ in range(2 * MOST_OF_A_CONNECTION)]
        codes = await asyncio.gather(*(call.code() for call in calls))
        assert set(codes) == {grpc.StatusCode.DEADLINE_EXCEEDED}
        assert (await broker_pb2_grpc.BrokerStub(channel).GetStatus(broker_pb2.GetStatusRequest())).node == 7
        call = silent(iter(()))
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
    await server.stop(None)


@pytest.mark.real
async def test_a_stranger_is_refused_before_its_request_is_read(tmp_path: Path) -> None:
    secret = write_secret(tmp_path / "secret")
    fleet = Fleet(tmp_path, 1, authentication=True, cluster_secret_file=secret, first_administrator_password=PASSWORD)
    await fleet.start()
    try:
        async with aio.insecure_channel(fleet.address(1)) as channel:
            for method in ("/ledger.v1.Broker/Fetch", "/ledger.v1.Security/AddUser", "/raft.v1.Raft/Introduce"):
                silent: Any = channel.stream_unary(method)
                assert await silent(timeout=5).code() is grpc.StatusCode.UNAUTHENTICATED, method
    finally:
        await fleet.close()


@pytest.mark.real
async def test_large_requests_at_the_same_time_need_little_memory(tmp_path: Path) -> None:
    """60 requests of 7.9 MiB arrive on ten connections, while an eighth of them may be received at the same time."""
    fleet = Fleet(tmp_path, 1)
    with NodeProcess(fleet.write_toml(1)) as node:
        await eventually(lambda: is_ready(fleet.http(1)), "the node serves")
        before, most = memory_of(node.pid), 0
        channels = [aio.insecure_channel(fleet.address(1), options=ANY_SIZE) for _ in range(10)]
        garbage = b"\xff" * int(7.9 * (1 << 20))
        requests = [asyncio.create_task(refused(channels[number % 10], garbage)) for number in range(60)]
        while not all(request.done() for request in requests):
            most = max(most, memory_of(node.pid))
            await asyncio.wait(requests, timeout=0.02)
        await asyncio.gather(*requests)
        for channel in channels:
            await channel.close()
    assert most - before < 200 << 20, f"{before} bytes before, {most} at most"


async def refused(channel: aio.Channel, request: bytes) -> None:
    call: Any = channel.unary_unary("/ledger.v1.Broker/CreateTopic")
    with pytest.raises(aio.AioRpcError) as ended:
        await call(request, timeout=60)
    assert ended.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def memory_of(pid: int) -> int:
    """Return the bytes of memory that a process keeps, without mapped files."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) << 10
