"""A cancellation of a task is not lost, is not replaced by another error, and does not leave a client half closed.

A cancellation of something that the program awaits is an error like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest

from cluster.node.embedded import EmbeddedNode
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.group.rebalance_callbacks import RebalanceCallbacks
from ledger.client.records import TopicQueue
from ledger.client.shared.receives import SharedReceives
from ledger.client.shared.shard_link import ShardLink
from ledger.client.shared.shared_message import MessageLease
from ledger.client.transactions import producer_transactions
from ledger.client.transactions.checks import GroupChecks
from ledger.errors import ClosedError, LedgerError, NoLeaderError, UnknownGroupError
from ledger.v1 import consumer_group_pb2, consumer_group_pb2_grpc, transaction_pb2_grpc
from ledgermq import (
    AsyncAdmin,
    AsyncGroupConsumer,
    AsyncProducer,
    AsyncPushConsumer,
    AsyncRequester,
    Message,
)
from tests.cluster.waiter import until

pytestmark = pytest.mark.real

SECONDS = 20


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[EmbeddedNode]:
    async with EmbeddedNode(tmp_path / "node", flush="async") as node:
        async with AsyncAdmin(node.bootstrap) as admin:
            await admin.create_topic("topic", queues=1)
        yield node


async def something_cancelled() -> None:
    other = asyncio.create_task(asyncio.sleep(60))
    asyncio.get_running_loop().call_soon(other.cancel)
    await other


async def cancelled(work: Awaitable[object], after_s: float = 0.0) -> None:
    """Cancel `work` when it has begun, and check that it ends so."""
    task = asyncio.ensure_future(work)
    await asyncio.sleep(after_s)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(SECONDS):
            await task


# -- code of the program that raises CancelledError although nobody cancelled the consumer


@pytest.mark.parametrize("swallows", [False, True])
async def test_the_worker_of_a_push_consumer_outlives_a_cancellation_in_its_listener(
    node: EmbeddedNode, swallows: bool
) -> None:
    """`swallows`: the listener ends in order when `consume_timeout_ms` cancels it."""
    seen: list[bytes] = []
    counts: list[int] = []

    async def listener(message: Message) -> None:
        seen.append(message.value)
        worker = asyncio.current_task()
        assert worker is not None
        counts.append(worker.cancelling())
        if message.value == b"0" and swallows:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                return
        elif message.value == b"0":
            await something_cancelled()

    async with (
        AsyncProducer(node.bootstrap) as producer,
        AsyncPushConsumer(
            "topic",
            group="group",
            listener=listener,
            bootstrap_servers=node.bootstrap,
            concurrency=1,
            consume_timeout_ms=500,
        ),
    ):
        for number in range(4):
            await producer.send("topic", b"%d" % number)
        await until(lambda: len(set(seen)) == 4, "the messages behind it are consumed")
    assert set(counts) == {0}, "a worker whose call was cancelled counts as cancelled no more"


async def test_a_rebalance_callback_may_raise_a_cancellation_and_may_be_cancelled() -> None:
    async def callback(_: object) -> None:
        await something_cancelled()

    async def waits(_: object) -> None:
        await asyncio.sleep(60)

    place = TopicQueue("topic", 0)
    await RebalanceCallbacks("group", ["topic"], on_assigned=callback).assigned([place])
    await cancelled(RebalanceCallbacks("group", ["topic"], on_assigned=waits).assigned([place]))


# -- calls that are cancelled


def receive_of_two_shards(*, acknowledge: Any, ask: Any) -> Coroutine[Any, Any, None]:
    """Return a receive of a shared consumer that acknowledges a message of each of two shards. `acknowledge` and `ask`
    stand for the calls of the shards."""

    async def links() -> list[Any]:
        return [SimpleNamespace(shard=0), SimpleNamespace(shard=1)]

    receives: Any = SharedReceives(
        cast(Any, SimpleNamespace(current=links)),
        acknowledge,
        lambda: 1,
        max_bytes=1,
        check_crcs=True,
        deserializer=None,
    )
    receives._one = ask
    of_shards = [SimpleNamespace(lease=MessageLease(shard, 1, 0, 0, 1, 0)) for shard in (0, 1)]
    receiving: Coroutine[Any, Any, None] = receives.fill(1, 30_000, 20_000, of_shards, 0)
    return receiving


async def test_a_receive_that_is_cancelled_says_so_although_an_acknowledgement_fails() -> None:
    async def waits(*_: object, **__: object) -> None:
        await asyncio.sleep(60)

    async def fails(*_: object, **__: object) -> int:
        await asyncio.sleep(0.1)
        raise NoLeaderError("nobody leads shard 0")

    await cancelled(receive_of_two_shards(acknowledge=fails, ask=waits), 0.05)


async def test_a_receive_that_fails_waits_for_its_acknowledgements() -> None:
    done: list[bool] = []

    async def fails(*_: object, **__: object) -> None:
        raise NoLeaderError("shard 0 has no leader")

    async def acknowledges(*_: object, **__: object) -> int:
        await asyncio.sleep(0.1)
        done.append(True)
        return 1

    with pytest.raises(NoLeaderError):
        await receive_of_two_shards(acknowledge=acknowledges, ask=fails)
    assert done, "the acknowledgement at the other shard was not broken off"


async def test_a_cancelled_task_may_make_calls_while_it_cleans_up(
    node: EmbeddedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first attempt fails as at a leader that has just died, and the client tries again."""
    async with AsyncAdmin(node.bootstrap) as admin:
        ask, fails = ClusterClient.ask, [True]

        async def asked(self: ClusterClient, address: str, send: Callable[..., Any], seconds: float) -> Any:
            async def attempt(stub: Any, within_s: float) -> Any:
                if fails and fails.pop():
                    nothing = grpc.aio.Metadata()
                    raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, "connection reset")
                return await send(stub, within_s)

            return await ask(self, address, attempt, seconds)

        async def work() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                monkeypatch.setattr(ClusterClient, "ask", asked)
                await admin.delete_topic("topic")

        await cancelled(work())
        assert not fails
        assert "topic" not in [topic.name for topic in await admin.list_topics()]


class SilentNode(consumer_group_pb2_grpc.ConsumerGroupsServicer, transaction_pb2_grpc.TransactionsServicer):
    """Opens no stream of a shared group, and ends each stream of checks in order."""

    streams = 0

    async def Share(self, requests: object, context: Any) -> None:  # noqa: N802 (gRPC)
        self.streams += 1
        try:
            await context.read()
            await asyncio.sleep(60)
        finally:
            self.streams -= 1

    async def CheckTransactions(self, requests: object, context: Any) -> None:  # noqa: N802 (gRPC)
        await context.read()


@pytest.fixture
async def silent() -> AsyncIterator[tuple[SilentNode, grpc.aio.Channel]]:
    server, service = grpc.aio.server(), SilentNode()
    consumer_group_pb2_grpc.add_ConsumerGroupsServicer_to_server(service, server)
    transaction_pb2_grpc.add_TransactionsServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield service, channel
    await server.stop(0)


def client_of(stub: object) -> Any:
    table = SimpleNamespace(leader_address=lambda _: "node", nodes={1: "node"}, topics={})
    return SimpleNamespace(
        routes=SimpleNamespace(table=table, note=lambda *_: None),
        connections=SimpleNamespace(stub=lambda _: stub),
        check_open=lambda: None,
        request_timeout_ms=30_000,
    )


async def test_a_call_that_is_cancelled_while_its_stream_opens_leaves_no_stream(
    silent: tuple[SilentNode, grpc.aio.Channel],
) -> None:
    service, channel = silent
    client = client_of(consumer_group_pb2_grpc.ConsumerGroupsStub(channel))
    link = ShardLink(client, 0, lambda shard: consumer_group_pb2.ShareOpening(shard=shard))
    for _ in range(3):
        change = asyncio.ensure_future(link.change([consumer_group_pb2.WantedChange()]))
        await until(lambda: service.streams == 1, "the stream is there")
        await cancelled(change)
        await until(lambda: service.streams == 0, "the stream has ended")
    await link.close()


async def test_checks_end_also_if_grpc_hides_their_cancellation(
    silent: tuple[SilentNode, grpc.aio.Channel],
) -> None:
    """The stream ends in the turn of the cancellation, and gRPC returns only the end of the stream."""
    _, channel = silent
    stub = transaction_pb2_grpc.TransactionsStub(channel)
    calls: list[Any] = []

    def check_transactions() -> Any:
        calls.append(transaction_pb2_grpc.TransactionsStub(channel).CheckTransactions())
        return calls[-1]

    stub.CheckTransactions = check_transactions
    for _ in range(5):
        calls.clear()
        checks = GroupChecks(client_of(stub), "group", lambda _: "commit")
        while not (calls and calls[-1].done()):  # noqa: ASYNC110 (until that very turn)
            await asyncio.sleep(0)
        async with asyncio.timeout(SECONDS):
            await checks.stop()


# -- clients that are closed by a task that is cancelled


async def test_a_sender_of_a_transaction_learns_that_the_producer_was_closed(
    node: EmbeddedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(producer_transactions, "prepare", never)
    producer = AsyncProducer(node.bootstrap)
    await producer.start()
    sending = asyncio.ensure_future(producer.transaction("topic", group="group").send(b"x"))
    await asyncio.sleep(0.05)
    await producer.stop()
    with pytest.raises(ClosedError):
        await sending


async def test_a_stop_that_is_cancelled_still_closes_the_client(node: EmbeddedNode) -> None:
    async with AsyncAdmin(node.bootstrap) as admin:
        await admin.create_topic("replies", queues=1)
    closed = AsyncAdmin(node.bootstrap)
    await closed.start()
    link = closed._client.link
    await cancelled(closed.stop())
    await until(lambda: link._ending is not None and link._ending.done(), "the connection of the admin is closed")
    requester = AsyncRequester(node.bootstrap)
    await requester.start()
    await cancelled(requester.stop())
    await requester.stop()
    with pytest.raises(LedgerError):
        await requester._producer.send("topic", b"x")


async def test_a_stop_of_an_embedded_node_that_is_cancelled_frees_its_directory(tmp_path: Path) -> None:
    first = EmbeddedNode(tmp_path, flush="async")
    await first.start()
    await cancelled(first.stop())
    await first.stop()
    async with EmbeddedNode(tmp_path, flush="async"):
        pass


async def test_a_producer_that_stops_rolls_cancelled_transactions_back_first(node: EmbeddedNode) -> None:
    async def working(producer: AsyncProducer[Any], sent: asyncio.Event) -> None:
        async with producer.transaction("topic", group="group") as transaction:
            await transaction.send(b"x")
            sent.set()
            await asyncio.sleep(60)

    async with AsyncAdmin(node.bootstrap) as admin:
        async with AsyncProducer(node.bootstrap) as producer:
            for _ in range(3):
                sent = asyncio.Event()
                task = asyncio.create_task(working(producer, sent))
                await sent.wait()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        assert await admin.transactions() == []


@pytest.mark.parametrize("after_s", [0.0, 0.005, 0.02, 0.05])
async def test_a_start_that_is_cancelled_leaves_no_member(node: EmbeddedNode, after_s: float) -> None:
    def plain(**settings: Any) -> AsyncGroupConsumer[bytes]:
        return AsyncGroupConsumer("topic", group="group", bootstrap_servers=node.bootstrap, **settings)

    async with AsyncAdmin(node.bootstrap) as admin:
        for consumer in (plain(), plain(max_attempts=1), a_push_consumer(node)):
            starting = asyncio.ensure_future(consumer.start())
            await asyncio.sleep(after_s)
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            if not starting.cancelled():
                await consumer.stop()
        with contextlib.suppress(UnknownGroupError):
            assert (await admin.describe_consumer_group("group")).members == ()


def a_push_consumer(node: EmbeddedNode) -> AsyncPushConsumer[bytes]:
    async def listener(_: Message) -> None: ...

    return AsyncPushConsumer("topic", group="group", listener=listener, bootstrap_servers=node.bootstrap)
