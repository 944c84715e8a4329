"""Tests how large the fetches of many consumers of one process are."""

from __future__ import annotations

from typing import Any

import pytest

import ledgermq
from ledger.client.connection.environment import Environment
from ledger.client.connection.fetch_shares import LEAST_BYTES, TOTAL_BYTES, FetchShares
from ledger.client.connection.lifetime import within
from ledger.v1 import broker_pb2
from tests.ledger.client.fake_broker import FakeBroker, FakeCluster

MIB = 1 << 20


class OneOfMany:
    """Stands for a fetcher."""


@pytest.mark.parametrize(
    ("fetchers", "max_bytes", "expected"),
    [
        (1, MIB, MIB),
        (TOTAL_BYTES // MIB, MIB, MIB),
        (2 * TOTAL_BYTES // MIB, MIB, MIB // 2),
        (10_000, MIB, LEAST_BYTES),
        (10_000, 1_000, 1_000),
        (1, 32 * MIB, 32 * MIB),
    ],
)
def test_fetchers_share_the_bytes_and_each_has_a_least_size(fetchers: int, max_bytes: int, expected: int) -> None:
    shares, many = FetchShares(), [OneOfMany() for _ in range(fetchers)]
    for each in many:
        shares.join(each)
    assert shares.fetch_bytes(max_bytes) == expected


def test_a_fetcher_that_has_left_or_was_dropped_has_no_share() -> None:
    shares, one, other = FetchShares(), OneOfMany(), OneOfMany()
    shares.join(one)
    shares.join(other)
    assert shares.fetch_bytes(32 * MIB) == 16 * MIB
    shares.leave(one)
    assert shares.fetch_bytes(32 * MIB) == 32 * MIB
    shares.join(one)
    del other
    assert shares.fetch_bytes(32 * MIB) == 32 * MIB


class SizesBroker(FakeBroker):
    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__(1, cluster)
        self.sizes: list[int] = []

    async def Fetch(self, request: broker_pb2.FetchRequest, context: Any) -> broker_pb2.FetchResponse:  # noqa: N802
        self.sizes.append(request.max_bytes)
        return await super().Fetch(request, context)


@pytest.mark.real
async def test_a_consumer_asks_for_its_share_and_gives_it_back_when_it_stops() -> None:
    cluster = FakeCluster()
    cluster.create("t", 1)
    broker = SizesBroker(cluster)
    await broker.start()
    environment = Environment()
    others = [OneOfMany() for _ in range(63)]
    for other in others:
        environment.fetch_shares.join(other)
    async with within(environment, ledgermq.AsyncConsumer)(
        "t", bootstrap_servers=list(cluster.addresses.values())
    ) as consumer:
        await consumer.getmany(timeout_ms=50)
    assert set(broker.sizes) == {MIB // 2}
    assert environment.fetch_shares.fetch_bytes(32 * MIB) == 32 * MIB // 63
    await broker.stop()
