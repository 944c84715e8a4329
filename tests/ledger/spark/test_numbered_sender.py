"""Tests the sender of a task's rows against a fake node that reads nothing, and one that ends the stream."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any, cast

import grpc.aio
import pyarrow as pa
import pytest

from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.environment import PROCESS
from ledger.client.connection.session import Metadata, ProvenStream
from ledger.codec import Codec
from ledger.errors import AuthenticationError
from ledger.spark.sink import numbered_sender
from ledger.spark.sink.numbered_sender import NumberedSender, TaskIdentity
from ledger.spark.sink.outgoing_rows import Slice, slices, tables
from ledger.v1 import broker_pb2
from tests.ledger.client.fake_broker import FakeBroker, FakeCluster

pytestmark = pytest.mark.real

ROWS = 8
# Five batches, which may be in flight, are larger than an HTTP/2 window, of at most 4 MiB here.
ROW_BYTES = 1_000_000


class HangingBroker(FakeBroker):
    """A node that does not read the first produce stream, so that this stream's HTTP/2 window stays full."""

    hung = False

    async def Produce(  # noqa: N802 (gRPC names)
        self, request_iterator: AsyncIterator[broker_pb2.ProduceRequest], context: Any
    ) -> AsyncIterator[broker_pb2.ProduceResponse]:
        if not self.hung:
            self.hung = True
            await asyncio.Event().wait()
        async for response in super().Produce(request_iterator, context):
            yield response


@pytest.fixture
async def broker() -> AsyncIterator[HangingBroker]:
    cluster = FakeCluster()
    cluster.create("t", 1)
    made = HangingBroker(1, cluster)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def client(broker: HangingBroker) -> AsyncIterator[ClusterClient]:
    made = ClusterClient(
        (broker.cluster.addresses[1],),
        client_id="spark",
        request_timeout_ms=5_000,
        retry_backoff_ms=20,
        rng=random.Random(1),
        environment=PROCESS,
    )
    await made.start()
    yield made
    await made.close()


def sender(client: ClusterClient) -> NumberedSender:
    return NumberedSender(client, TaskIdentity(producer_id=7, epoch=0), Codec.NONE)


async def some_slices(client: ClusterClient) -> list[Slice]:
    """Return rows that make a batch each."""
    topic = await client.topic("t")
    rows = pa.RecordBatch.from_pydict({"value": [b"%06d" % number + bytes(ROW_BYTES) for number in range(ROWS)]})
    (table,) = tables(iter([rows]), "t", "arrival", 1 << 30)
    found = list(slices(table, lambda _: topic, 0))
    assert len(found) == ROWS
    return found


async def test_a_node_that_reads_nothing_is_given_up_and_the_batches_are_sent_again(
    broker: HangingBroker, client: ClusterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbered_sender, "_ANSWER_TIMEOUT_S", 0.3)
    task = sender(client)
    async with asyncio.timeout(20):
        await task.send(await some_slices(client))
    assert task.sent.rows == ROWS
    assert [value[:6] for value in broker.cluster.values("t", 0)] == [b"%06d" % number for number in range(ROWS)]


async def test_a_write_to_a_stream_that_has_ended_is_explained_by_the_next_read(
    broker: HangingBroker, client: ClusterClient
) -> None:
    broker.hung = True
    address = broker.cluster.addresses[1]
    call = client.connections.stub(address).Produce()
    batch = sender(client)._numbered((await some_slices(client))[0])
    broker.cluster.troubles = ["lose"]
    await numbered_sender._write(call, address, batch)
    await call.code()  # the node has ended the stream
    await numbered_sender._write(call, address, batch)
    with pytest.raises(grpc.aio.AioRpcError, match="the answer was lost"):
        await numbered_sender._answer(call, address)


class ProvingBroker(HangingBroker):
    """A node that knows one token, and refuses a stream with another one before the stream begins."""

    hung = True
    token = "token 1"

    async def Produce(  # noqa: N802 (gRPC names)
        self, request_iterator: AsyncIterator[broker_pb2.ProduceRequest], context: Any
    ) -> AsyncIterator[broker_pb2.ProduceResponse]:
        if ("authorization", self.token) not in context.invocation_metadata():
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the node does not know this token")
        async for response in super().Produce(request_iterator, context):
            yield response


class Session:
    """The proof of a client: it keeps the token of the node until a call says that the token has ended."""

    def __init__(self, node: ProvingBroker) -> None:
        self._node, self._token, self.is_refused = node, node.token, False

    async def metadata(self) -> Metadata:
        if self.is_refused:
            raise AuthenticationError("the password is wrong")
        self._token = self._token or self._node.token
        return (("authorization", self._token),)

    def ended(self, metadata: Metadata) -> None:
        self._token = ""


async def proving(broker: HangingBroker, client: ClusterClient) -> tuple[ProvingBroker, Session]:
    """Let the client send to another node of the cluster, to which it must prove who it is."""
    node = ProvingBroker(1, broker.cluster)
    await node.start()
    session = Session(node)
    stub = cast(Any, client.connections.stub(broker.cluster.addresses[1]))
    client.routes.table.nodes[1] = broker.cluster.addresses[1]
    produce = stub.Produce
    stub.Produce = lambda: ProvenStream(produce, session)
    return node, session


async def test_a_task_proves_again_who_it_is_after_its_connection_was_made_anew(
    broker: HangingBroker, client: ClusterClient
) -> None:
    """A Python worker of Spark runs one task after another with the same connection. The node has restarted between
    two tasks, and knows no token of the connection before."""
    rows = await some_slices(client)
    node, _ = await proving(broker, client)
    node.token = "token 2"
    task = sender(client)
    async with asyncio.timeout(20):
        await task.send(rows[:2])
    assert task.sent.rows == 2
    await node.stop()


async def test_a_task_proves_again_who_it_is_when_its_proof_ends_during_a_stream(
    broker: HangingBroker, client: ClusterClient
) -> None:
    rows = await some_slices(client)
    node, _ = await proving(broker, client)
    broker.cluster.troubles = [AuthenticationError("this user has a new password")]
    task = sender(client)
    async with asyncio.timeout(20):
        await task.send(rows[:2])
    assert task.sent.rows == 2
    assert len(broker.cluster.values("t", 0)) == 2
    await node.stop()


async def test_a_task_whose_new_proof_fails_fails_at_once(broker: HangingBroker, client: ClusterClient) -> None:
    rows = await some_slices(client)
    node, session = await proving(broker, client)
    session.is_refused = True
    with pytest.raises(AuthenticationError, match="the password is wrong"):
        async with asyncio.timeout(20):
            await sender(client).send(rows[:2])
    await node.stop()
