"""RocketMQ's protocol on three nodes: any node serves any queue, and a client sees no error when a node dies."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc.aio
import pytest

from cluster.local.processes import DevCluster
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2
from ledgermq import AsyncAdmin
from tests.cluster.ports import free_base_port
from tests.cluster.rocketmq_stubs import RawClient, consumer_settings, resource

pytestmark = pytest.mark.real

GROUP = "billing"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DevCluster]:
    cluster = DevCluster(tmp_path)
    cluster.start(3, base_port=free_base_port(3), shards=2)
    yield cluster
    cluster.purge()


@pytest.fixture
async def admin(cluster: DevCluster) -> AsyncIterator[AsyncAdmin]:
    async with AsyncAdmin(cluster.bootstrap) as admin:
        await admin.create_topic("orders", 4)
        yield admin


def fronts(cluster: DevCluster) -> list[str]:
    return [state.rocketmq for state in cluster.status()]


async def test_a_route_has_all_nodes_and_every_node_serves_every_queue(cluster: DevCluster, admin: AsyncAdmin) -> None:
    addresses = fronts(cluster)
    for number, address in enumerate(addresses):
        async with RawClient(address) as client:
            route = await client.call("QueryRoute", service_pb2.QueryRouteRequest(topic=resource("orders")))
            assert {queue.broker.name for queue in route.message_queues} == {"dev-0", "dev-1"}
            for queue in route.message_queues:
                named = {f"{each.host}:{each.port}" for each in queue.broker.endpoints.addresses}
                assert named == set(addresses)
            for part in range(8):
                await client.sent("orders", b"%d" % (number * 8 + part))
    async with RawClient(addresses[1]) as receiver, RawClient(addresses[2]) as other:
        found = await receiver.some(GROUP, "orders", 24)
        assert sorted(int(message.body) for message in found) == list(range(24))
        answer = await other.ack(GROUP, "orders", *found)
        assert answer.status.code == pb.OK


async def test_the_route_of_a_node_js_client_is_one_address_for_all_nodes(
    cluster: DevCluster, admin: AsyncAdmin
) -> None:
    async with RawClient(fronts(cluster)[0], language="HTTP") as client:
        route = await client.call("QueryRoute", service_pb2.QueryRouteRequest(topic=resource("orders")))
        (address,) = route.message_queues[0].broker.endpoints.addresses
        named = f"{address.host}:{address.port}"
    assert named.startswith("ipv4:")
    assert set(named.removeprefix("ipv4:").split(",")) == set(fronts(cluster))


def tags(expression: str) -> pb.FilterExpression:
    return pb.FilterExpression(type=pb.TAG, expression=expression)


async def test_a_consumer_changes_its_filter_by_way_of_another_node(cluster: DevCluster, admin: AsyncAdmin) -> None:
    # One consumer uses all nodes, because each queue of its route begins with another address.
    first, second, third = [RawClient(address, client_id="consumer") for address in fronts(cluster)]
    async with RawClient(fronts(cluster)[0]) as another, first, second, third:
        for consumer in (first, second):
            await another.sent("orders", b"a", tag="a")
            (message,) = await consumer.some(GROUP, "orders", 1, expression=tags("a"))
            await consumer.ack(GROUP, "orders", message)
        waiting = asyncio.create_task(first.messages(GROUP, "orders", expression=tags("a"), poll_s=15))
        receiving = asyncio.create_task(third.some(GROUP, "orders", 1, expression=tags("b")))
        await asyncio.sleep(0.5)
        await another.sent("orders", b"b", tag="b")
        assert [message.body for message in await receiving] == [b"b"]
        assert await waiting == [], "a receive with the earlier filter ends without an error"


async def test_a_consumer_that_was_killed_does_not_keep_its_filter(cluster: DevCluster, admin: AsyncAdmin) -> None:
    address = fronts(cluster)[0]
    killed = RawClient(address)
    async with killed.telemetry(consumer_settings(GROUP, "orders")):
        await killed.messages(GROUP, "orders", expression=tags("a"))
    await killed.channel.close()
    async with RawClient(address) as restarted, asyncio.timeout(30):  # it would keep it for 90 s
        await restarted.sent("orders", b"b", tag="b")
        while (await restarted.receive(GROUP, "orders", expression=tags("b")))[0].status.code != pb.OK:  # noqa: ASYNC110
            await asyncio.sleep(0.2)


async def test_a_leader_that_stands_still_holds_up_no_acknowledgement(cluster: DevCluster, admin: AsyncAdmin) -> None:
    states = cluster.status()
    stopped = next(state for state in states if 1 in state.leads)
    assert stopped.pid is not None
    address = next(state.rocketmq for state in states if state is not stopped)
    async with RawClient(address) as client:
        for number in range(32):
            await client.sent("orders", b"%d" % number)
        found = await client.some(GROUP, "orders", 32)
        os.kill(stopped.pid, signal.SIGSTOP)
        try:
            async with asyncio.timeout(8):  # the stopped leader would be waited for 10 s
                answer = await client.ack(GROUP, "orders", *found)
            assert answer.status.code == pb.OK, answer
        finally:
            os.kill(stopped.pid, signal.SIGCONT)


@pytest.mark.timeout(200)
async def test_no_send_receive_or_acknowledgement_fails_when_nodes_die(cluster: DevCluster, admin: AsyncAdmin) -> None:
    """A client has the addresses of all nodes, as every official client does."""
    target = "ipv4:" + ",".join(fronts(cluster))
    sent: set[int] = set()
    received: set[int] = set()
    stop, all_sent = asyncio.Event(), asyncio.Event()

    async def produce(client: RawClient) -> None:
        number = 0
        while not stop.is_set():
            message = client.message("orders", b"%d" % number)
            for attempt in range(3):
                try:
                    answer = await client.send(message)
                except grpc.aio.AioRpcError:
                    assert attempt < 2, "three attempts of one send failed"
                    continue
                assert answer.status.code == pb.OK, answer
                break
            sent.add(number)
            number += 1
        all_sent.set()

    async def consume(client: RawClient) -> None:
        while not (all_sent.is_set() and sent <= received):
            try:
                found = await client.messages(GROUP, "orders", poll_s=5, invisible_s=10)
            except grpc.aio.AioRpcError:
                continue  # the connection broke: a client asks again, at the next address
            received.update(int(message.body) for message in found)
            if found:
                await acknowledge(client, found)

    async def acknowledge(client: RawClient, found: list[pb.Message]) -> None:
        for attempt in range(3):
            try:
                answer = await client.ack(GROUP, "orders", *found)
            except grpc.aio.AioRpcError:
                assert attempt < 2, "three attempts of one acknowledgement failed"
                continue
            assert all(entry.status.code == pb.OK for entry in answer.entries), answer
            return

    async with (
        RawClient(target) as producer,
        RawClient(target) as consumer,
        asyncio.timeout(170),
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(produce(producer))
        tasks.create_task(consume(consumer))
        for node in (1, 2):
            await asyncio.sleep(4)
            cluster.kill(node)
            await asyncio.sleep(4)
            await asyncio.to_thread(cluster.start)
        stop.set()
    assert len(sent) > 50
    assert received == sent
