"""Tests name servers with three real nodes that register with them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import pytest
import pytest_asyncio
from click.testing import CliRunner
from grpc import aio

from cluster.cli.servers.nameserver import nameserver
from cluster.local.processes import DevCluster
from cluster.node.nameserver import NameServer, NameServerError, NameServerSecurity
from ledger.v1 import broker_pb2, broker_pb2_grpc, nameserver_pb2, nameserver_pb2_grpc
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer
from tests.cluster.ports import free_base_port
from tests.cluster.waiter import until

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def addresses() -> list[str]:
    port = free_base_port(2)
    return [f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, addresses: list[str]) -> Iterator[DevCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEDGERMQ_NAMESERVERS", ",".join(addresses))
        cluster = DevCluster(tmp_path_factory.mktemp("named"))
        cluster.start(3, base_port=free_base_port(3))
        yield cluster
        cluster.purge()


@pytest_asyncio.fixture
async def servers(cluster: DevCluster, addresses: list[str]) -> AsyncIterator[list[NameServer]]:
    security = NameServerSecurity(cluster_secret_file=cluster.credentials.directory / "cluster.secret")
    servers = [NameServer(address, security) for address in addresses]
    for server in servers:
        await server.start()
        await until(lambda server=server: len(server.registrations) == 3, "all nodes have registered")  # type: ignore[misc]
    yield servers
    for server in servers:
        await server.stop()


async def test_clients_that_know_only_name_servers_find_the_nodes_and_go_on_without_them(
    servers: list[NameServer], addresses: list[str]
) -> None:
    names = ",".join(addresses)
    async with AsyncAdmin(names) as admin:
        await admin.create_topic("named", 2)
    async with AsyncProducer(names) as producer, AsyncConsumer("named", bootstrap_servers=names) as consumer:
        await producer.send("named", b"before")
        assert (await anext(consumer)).value == b"before"
        await asyncio.gather(*(server.stop() for server in servers))
        for number in range(50):
            await producer.send("named", b"%d" % number)
            assert (await anext(consumer)).value == b"%d" % number


async def test_a_name_server_of_secured_nodes_tells_nobody_the_topics(
    servers: list[NameServer], addresses: list[str]
) -> None:
    async with AsyncAdmin(addresses[0]) as admin:
        await admin.create_topic("hidden", 1)
        assert "hidden" in {topic.name for topic in await admin.list_topics()}
    await until(
        lambda: "hidden" in {topic.name for topic in servers[0].registrations.routes(()).topics}, "the nodes report it"
    )
    async with aio.insecure_channel(addresses[0]) as channel:
        told = await broker_pb2_grpc.BrokerStub(channel).GetRoute(broker_pb2.GetRouteRequest(), timeout=5)
        assert {node.node for node in told.nodes} == {1, 2, 3}
        assert told.nodes_only
        assert not told.topics


async def test_only_nodes_that_prove_themselves_register(servers: list[NameServer], addresses: list[str]) -> None:
    async with aio.insecure_channel(addresses[0], options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        stream: Any = nameserver_pb2_grpc.NameServerStub(channel).Register(timeout=5)
        routes = broker_pb2.GetRouteResponse(cluster="dev", nodes=[broker_pb2.NodeRoute(node=1, address="evil:1")])
        with contextlib.suppress(aio.AioRpcError):
            await stream.write(nameserver_pb2.Registration(node=1, routes=routes))
        assert await stream.code() is grpc.StatusCode.UNAUTHENTICATED
        assert "evil:1" not in [node.address for node in servers[0].registrations.routes(()).nodes]


async def test_a_name_server_knows_of_changes_at_once_and_of_a_dead_node_too(
    servers: list[NameServer], cluster: DevCluster
) -> None:
    known = servers[0].registrations
    async with AsyncAdmin(cluster.bootstrap) as admin:
        await admin.create_topic("news", 3)
    await until(lambda: "news" in [topic.name for topic in known.routes(()).topics], "the topic is known")

    victim = await asyncio.to_thread(cluster.leader)
    await asyncio.to_thread(cluster.kill, victim)
    await until(lambda: len(known) == 2, "the dead node is gone")
    await until(lambda: known.routes(()).shards[0].leader not in (0, victim), "the new leader is known")
    await asyncio.to_thread(cluster.restart, victim)
    await until(lambda: len(known) == 3, "it is back")


async def test_a_port_in_use_is_named(servers: list[NameServer], addresses: list[str]) -> None:
    with pytest.raises(NameServerError, match=f"cannot listen on {addresses[0]}"):
        await NameServer(addresses[0]).start()


async def test_what_a_name_server_knows_is_shown(servers: list[NameServer], addresses: list[str]) -> None:
    shown = await asyncio.to_thread(CliRunner().invoke, nameserver, ["show", addresses[0]])
    assert shown.exit_code == 0
    assert "127.0.0.1" in shown.output
    assert "LEADS" in shown.output
