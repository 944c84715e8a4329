"""What tests of clients share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.ledger.client.fake_broker import FakeBroker, FakeCluster, lone_broker


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    """The only node of a cluster with the topic "t"."""
    async with lone_broker() as broker:
        yield broker


@pytest.fixture
def cluster(broker: FakeBroker) -> FakeCluster:
    """A cluster of one node with the topics "t" and "wide", which has three queues."""
    broker.cluster.create("wide", 3)
    return broker.cluster
