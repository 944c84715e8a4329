"""Nodes are killed while official clients of all languages, and a stand-in for Go's, send, receive and acknowledge."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ledgermq import AsyncAdmin
from ledgermq.testing import Cluster
from tests.rocketmq.secured import TOPIC, SecuredTarget, secured_target
from tests.rocketmq.shops import Shop, assert_in_order, opened_shops, trade

pytestmark = [pytest.mark.real, pytest.mark.timeout(420)]


async def test_clients_go_on_when_each_node_is_killed_in_turn() -> None:
    async with Cluster(nodes=3, shards=2, rocketmq=True) as cluster, AsyncAdmin(cluster.bootstrap) as admin:
        await admin.create_topic(TOPIC, 4)
        addresses = [cluster.rocketmq_address(node) for node in cluster.nodes]
        async with opened_shops(admin, addresses) as shops:
            await trade(shops, cluster.nodes, cluster.kill, cluster.restart)
            assert_no_error(shops)


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[SecuredTarget]:
    with secured_target(tmp_path, queues=4, shards=2) as target:
        yield target


async def test_clients_that_sign_go_on_over_tls(secured: SecuredTarget) -> None:
    cluster, connection = secured.cluster, {"ca": str(secured.ca), **secured.signed()}
    async with (
        AsyncAdmin(cluster.bootstrap, **cluster.client_options) as admin,
        opened_shops(admin, secured.addresses, secured.trust, **connection) as shops,
    ):
        await trade(
            shops,
            range(1, len(secured.addresses) + 1),
            lambda node: asyncio.to_thread(cluster.kill, node),
            lambda node: asyncio.to_thread(cluster.restart, node),
        )
        assert_no_error(shops)


def assert_no_error(shops: Sequence[Shop]) -> None:
    for shop in shops:
        assert "retries" not in shop.can or shop.errors == [], f"{shop.name}: {shop.errors[:3]}"
        assert shop.acknowledged
    assert_in_order(shops)
