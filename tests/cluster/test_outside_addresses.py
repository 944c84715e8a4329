"""Tests nodes with two addresses: one address for other nodes, and one for clients outside of the nodes' network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer
from tests.cluster.fleet import Fleet

pytestmark = pytest.mark.real


def outside(address: str) -> str:
    return address.replace("127.0.0.1", "127.0.0.2")


@pytest_asyncio.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path)
    for node in fleet.nodes:
        everywhere = fleet.address(node).replace("127.0.0.1", "0.0.0.0")
        told = {each: outside(fleet.address(each)) for each in fleet.nodes}
        fleet.override(node, listen=everywhere, outside=told, insecure=True)
    await fleet.start()
    yield fleet
    await fleet.close()


async def test_a_client_from_outside_reaches_all_nodes_there_and_follows_a_new_leader(fleet: Fleet) -> None:
    given = outside(fleet.address(1))
    async with AsyncAdmin(given) as admin:
        await admin.create_topic("far", 1)
        assert {status.address for status in await admin.cluster()} == {outside(each) for each in fleet.bootstrap}
        async with AsyncProducer(given) as producer:
            await producer.send("far", b"one")
            leader = await fleet.leader()
            await fleet.stop(leader)
            await producer.send("far", b"two")
        async with AsyncConsumer("far", bootstrap_servers=outside(fleet.address(await fleet.leader()))) as consumer:
            assert [(await anext(consumer)).value for _ in range(2)] == [b"one", b"two"]


async def test_a_client_from_inside_is_told_what_the_nodes_use(fleet: Fleet) -> None:
    async with AsyncAdmin(fleet.address(1)) as admin:
        assert {status.address for status in await admin.cluster()} == set(fleet.bootstrap)
