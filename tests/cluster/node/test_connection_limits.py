"""The limits of gRPC connections: of one host, of all hosts, of callers that do not prove who they are, and of callers
that fill the memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from socket import SO_LINGER, SO_REUSEADDR, SOL_SOCKET, create_server, socket

import pytest
from grpc import aio

from cluster.node.delivered import Delivered
from cluster.node.process.sockets import sockets_of_this_process
from cluster.node.security.connection_limits import UNPROVEN_S, ConnectionLimits, Limits
from ledger.broker.fetch import response_budget
from ledger.v1 import broker_pb2
from ledger.v1.broker_pb2_grpc import BrokerStub
from ledgermq import AsyncConsumer, AsyncProducer
from tests.cluster.fleet import MakeFleet
from tests.cluster.half_requests import half_request
from tests.cluster.ports import free_base_port
from tests.cluster.waiter import eventually, until

pytestmark = pytest.mark.real

UNREAD_BYTES = 4 << 20
CHUNK = bytes(64 << 10)


class Port:
    """A listening port, the connections to it, and their limits. The clock is the test's."""

    def __init__(self, stack: ExitStack, *, ends_unproven: bool = False) -> None:
        self.now_s = 100.0
        self.clients: set[str] = set()
        self.nodes: set[str] = set()
        # The connections whose proofs were ended.
        self.ended: set[str] = set()
        self.delivered = Delivered()
        self._stack = stack
        self._accepted: dict[tuple[str, int], socket] = {}
        self._listening = stack.enter_context(create_server(("127.0.0.1", 0)))
        self.limits = ConnectionLimits(
            self._listening.getsockname()[1],
            Limits(3, UNREAD_BYTES, ends_unproven),
            self.delivered,
            clients=self.clients.__contains__,
            nodes=lambda: self.nodes,
            proven=lambda: self.clients | self.nodes,
            end_proofs=self.ended.update,
            monotonic_s=lambda: self.now_s,
        )

    def receive(self, connection: socket, size: int) -> None:
        """Send bytes to the port, which reads them."""
        accepted = self._accepted[connection.getsockname()]
        for _ in range(size // len(CHUNK)):
            connection.sendall(CHUNK)
            left = len(CHUNK)
            while left:
                left -= len(accepted.recv(left))

    def disconnect(self, connection: socket) -> None:
        """End a connection at once on both sides, so that another one can have its port."""
        accepted = self._accepted.pop(connection.getsockname())
        connection.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        accepted.close()

    def connect(self, port: int = 0) -> tuple[socket, str]:
        """Return a new connection, of this port of the caller, and its name on the side of the port."""
        connection = self._stack.enter_context(socket())
        connection.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)  # connections of other tests may have had the port
        connection.bind(("127.0.0.1", port))
        connection.connect(self._listening.getsockname())
        accepted, (host, port) = self._listening.accept()
        self._accepted[host, port] = self._stack.enter_context(accepted)
        self.check()
        return connection, f"ipv4:{host}:{port}"

    def check(self) -> None:
        self.limits.look(sockets_of_this_process())
        self.limits.judge()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def is_open(connection: socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True


def test_the_newest_connections_of_a_host_are_ended(stack: ExitStack) -> None:
    port = Port(stack)
    connections = [port.connect()[0] for _ in range(5)]
    assert [is_open(each) for each in connections] == [True, True, True, False, False]
    connections[0].close()
    connections[0] = port.connect()[0]
    assert not is_open(connections[0]), "the other side of the closed connection is still open"


def test_nodes_do_not_count(stack: ExitStack) -> None:
    port = Port(stack)
    connection, peer = port.connect()
    port.nodes.add(peer)
    port.check()
    port.nodes.clear()
    port.now_s += UNPROVEN_S
    others = [port.connect()[0] for _ in range(4)]
    assert is_open(connection), "a node needs no new proof for the streams that it has"
    assert [is_open(each) for each in others] == [True, True, True, False]


def test_a_caller_without_proof_has_a_deadline(stack: ExitStack) -> None:
    port = Port(stack, ends_unproven=True)
    (stranger, _), (client, peer) = port.connect(), port.connect()
    port.clients.add(peer)
    port.now_s += UNPROVEN_S - 1
    port.check()
    assert is_open(stranger)
    port.clients.clear()
    port.now_s += 1
    port.check()
    assert not is_open(stranger)
    assert is_open(client), "its proof has expired, which the next call notices"


def test_proofs_end_with_their_connection(stack: ExitStack) -> None:
    port = Port(stack)
    (first, first_peer), (_, other_peer) = port.connect(), port.connect()
    port.clients = {first_peer, other_peer}
    port.check()
    assert not port.ended
    port.disconnect(first)
    port.check()
    assert port.ended == {first_peer}


def test_a_connection_has_no_proofs_of_an_earlier_one_with_its_port(stack: ExitStack) -> None:
    port = Port(stack)
    number = free_base_port(1)  # a port that Linux gives to no other program between the two connections
    first, peer = port.connect(number)
    port.clients = {peer}
    port.disconnect(first)
    _, same = port.connect(number)  # nobody looked between the two connections
    assert same == peer
    assert port.ended == {peer}
    port.ended.clear()
    port.check()
    assert not port.ended, "the proofs of the second connection stay"


def test_proofs_of_a_connection_that_nobody_saw_end(stack: ExitStack) -> None:
    port = Port(stack)
    port.clients = {"ipv4:127.0.0.1:1"}
    port.check()
    assert not port.ended, "the connection may be younger than the look"
    port.check()
    assert port.ended == {"ipv4:127.0.0.1:1"}


def test_the_largest_incomplete_requests_are_ended(stack: ExitStack) -> None:
    port = Port(stack)
    (small, _), (large, _), (complete, peer) = port.connect(), port.connect(), port.connect()
    port.receive(small, 1 << 20)
    port.receive(large, 4 << 20)
    port.receive(complete, 16 << 20)
    port.delivered.add(peer, 16 << 20)
    port.check()
    assert [is_open(each) for each in (small, large, complete)] == [True, False, True]


def test_bytes_that_the_process_has_not_read_do_not_count(stack: ExitStack) -> None:
    port = Port(stack)
    connections = [port.connect()[0] for _ in range(3)]
    for connection in connections:
        connection.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while connection.send(CHUNK):
                pass
    port.check()
    assert all(is_open(each) for each in connections), "they wait in the kernel, which has limits of its own"


async def ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() is not None
    except ConnectionError:
        return True


async def test_requests_that_are_never_complete_are_ended(make_fleet: MakeFleet) -> None:
    """Each stream sends 6 of 7 MiB. The node ends connections until less than half of the limit is left."""
    fleet = make_fleet(1, max_unread_bytes=16 << 20)
    await fleet.start()
    async with AsyncExitStack() as stack:
        requests = [await stack.enter_async_context(half_request(fleet.address(1))) for _ in range(5)]
        sending = [asyncio.create_task(each.send("/ledger.v1.Broker/Produce", 7 << 20, 6 << 20)) for each in requests]

        async def enough_ended() -> bool:
            return sum(each.ended.done() for each in requests) >= 3

        await eventually(enough_ended, "three of five connections ended")
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)
        assert not all(each.ended.done() for each in requests)


async def test_a_client_that_does_not_read_its_response_is_ended_when_others_need_the_room(
    make_fleet: MakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_budget, "PATIENCE_S", 0.5)
    fleet = make_fleet(1)
    await fleet.start()
    await fleet.leader()
    topic = await fleet.create_topic()
    async with AsyncProducer(fleet.bootstrap) as producer:
        await producer.send_many("topic", [bytes(60_000)] * 50)
    budget = fleet.running[1]._services.response_budget
    request = broker_pb2.FetchRequest(
        queues=[broker_pb2.QueueFetch(topic_id=topic, queue=0, offset=0)], max_bytes=1 << 20
    )
    async with half_request(fleet.address(1)) as silent:
        await silent.ask("/ledger.v1.Broker/Fetch", request.SerializeToString())
        await until(lambda: budget.bytes_under_way > 0, "the response waits for its client")
        await asyncio.sleep(1)
        assert not silent.ended.done(), "others do not need the room"
        monkeypatch.setattr(budget, "_most_bytes", budget.bytes_under_way)
        async with AsyncConsumer("topic", bootstrap_servers=fleet.bootstrap) as consumer:
            left = 50
            while left:
                left -= len(await consumer.getmany(100, timeout_ms=5000))
        assert silent.ended.done()


async def test_requests_that_are_complete_end_no_connection(
    make_fleet: MakeFleet, caplog: pytest.LogCaptureFixture
) -> None:
    """A client sends more than the limit, and reads more than it."""
    fleet = make_fleet(1, max_unread_bytes=16 << 20)
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic()
    async with AsyncProducer(fleet.bootstrap) as producer:
        for _ in range(20):
            await producer.send_many("topic", [bytes(60_000)] * 50)
    async with AsyncConsumer("topic", bootstrap_servers=fleet.bootstrap) as consumer:
        left = 1000
        while left:
            left -= len(await consumer.getmany(100, timeout_ms=5000))
    assert not [line for line in caplog.messages if line.startswith("ended a connection")]


@pytest.mark.parametrize("most", [16, 40])
async def test_a_node_has_room_again_when_connections_end(make_fleet: MakeFleet, most: int) -> None:
    """gRPC ends connections beyond `max_connections`, and the node ends connections beyond the limit of a host."""
    fleet = make_fleet(1, max_connections=most, max_connections_per_host=16)
    await fleet.start()
    host, port = fleet.address(1).split(":")
    silent = [await asyncio.open_connection(host, int(port)) for _ in range(60)]
    waiting = [asyncio.create_task(ended(reader)) for reader, _ in silent]

    async def enough_ended() -> bool:
        return sum(task.done() for task in waiting) >= 60 - 16

    await eventually(enough_ended, "the connections beyond the limit ended")
    for _, writer in silent:
        writer.close()
    await asyncio.gather(*waiting)

    async def is_served() -> bool:
        async with aio.insecure_channel(fleet.address(1), options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
            try:
                return bool(await BrokerStub(channel).GetStatus(broker_pb2.GetStatusRequest(), timeout=2))
            except aio.AioRpcError:
                return False

    await eventually(is_served, "the node has room again")
