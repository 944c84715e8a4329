"""Tests of order_service.py on a cluster of three real nodes, with the pytest plugin of `ledgermq[testing]`:

    pip install 'ledgermq[testing]' aiohttp pytest-asyncio
    pytest examples/test_order_service.py

Each test disturbs the cluster while the service works. After each test the plugin makes the cluster whole again.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from order_service import OrderService

from ledgermq.testing import Cluster, cluster_fixture

ledgermq_cluster = cluster_fixture(nodes=3, scope="module", settings={"retry_delays_s": [0.1]})

Service = TestClient[web.Request, web.Application]


@pytest_asyncio.fixture
async def service(ledgermq_cluster: Cluster, ledgermq_topic: str) -> AsyncIterator[Service]:
    service = OrderService(ledgermq_cluster.bootstrap, ledgermq_topic, f"billing-of-{ledgermq_topic}")
    async with TestClient(TestServer(service.app())) as client:
        yield client


async def order(service: Service, customer: str = "ada", amount: int = 10) -> str:
    async with service.post("/orders", json={"customer": customer, "amount": amount}) as answer:
        assert answer.status == 202
        return str((await answer.json())["id"])


async def ends_as(service: Service, number: str, state: str) -> None:
    async with asyncio.timeout(30):
        while True:
            async with service.get(f"/orders/{number}") as answer:
                if (await answer.json())["state"] == state:
                    return
            await asyncio.sleep(0.02)


@pytest.mark.asyncio
async def test_an_order_is_billed(service: Service) -> None:
    await ends_as(service, await order(service), "billed")


@pytest.mark.asyncio
async def test_a_payment_service_that_is_away_costs_a_retry(service: Service) -> None:
    await ends_as(service, await order(service, customer="unlucky"), "billed")


@pytest.mark.asyncio
async def test_an_order_that_cannot_be_billed_ends_in_the_dead_letters(service: Service) -> None:
    await ends_as(service, await order(service, amount=0), "failed")


@pytest.mark.asyncio
@pytest.mark.ledgermq_topic(queues=4)
async def test_a_killed_leader_loses_no_order(service: Service, ledgermq_cluster: Cluster) -> None:
    orders = [await order(service, f"customer {number}") for number in range(10)]
    await ledgermq_cluster.aio.kill_leader()
    orders += [await order(service, f"customer {number}") for number in range(10)]
    for number in orders:
        await ends_as(service, number, "billed")


@pytest.mark.asyncio
async def test_a_leader_that_hangs_loses_no_order(service: Service, ledgermq_cluster: Cluster) -> None:
    before = await order(service)
    await ledgermq_cluster.aio.pause(ledgermq_cluster.leader())
    after = await order(service)
    for number in (before, after):
        await ends_as(service, number, "billed")


@pytest.mark.asyncio
async def test_an_isolated_leader_loses_no_order(service: Service, ledgermq_cluster: Cluster) -> None:
    await ledgermq_cluster.aio.partition([ledgermq_cluster.leader()])
    number = await order(service)
    await ends_as(service, number, "billed")
