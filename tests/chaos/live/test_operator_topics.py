"""How a chaos run creates its topics, at a broker that may create a topic and answer too late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.errors import ChaosError
from chaos.live import operator
from chaos.live.operator import ClusterOperator
from ledger.v1 import broker_pb2
from tests.ledger.client.fake_broker import FakeBroker, FakeCluster

pytestmark = pytest.mark.real

# Longer than the operator waits for one request.
_TOO_LATE_S = 30.0


class LateBroker(FakeBroker):
    """Creates a topic at the first attempt, and does not answer in time."""

    attempts = 0

    async def CreateTopic(self, request: broker_pb2.CreateTopicRequest, context: Any) -> Any:  # noqa: N802
        self.attempts += 1
        response = await super().CreateTopic(request, context)
        if self.attempts == 1:
            await asyncio.sleep(_TOO_LATE_S)
        return response


@pytest.fixture
async def broker() -> AsyncIterator[LateBroker]:
    broker = LateBroker(1, FakeCluster())
    await broker.start()
    yield broker
    await broker.stop()


@contextmanager
def operator_of(broker: FakeBroker) -> Iterator[ClusterOperator]:
    environment = SimpleNamespace(nodes=[1], address=broker.cluster.addresses.__getitem__)
    made = ClusterOperator(cast("Any", environment))
    try:
        yield made
    finally:
        made.close()


async def test_a_topic_whose_creation_was_answered_too_late_is_there(
    broker: LateBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator, "_CHANGE_S", 10.0)
    with operator_of(broker) as made:
        await asyncio.to_thread(made.create_topic, "new", 2)
    assert broker.attempts == 2


async def test_a_topic_with_another_number_of_queues_is_not_the_topic_of_the_run(broker: LateBroker) -> None:
    broker.attempts = 1
    broker.cluster.create("new", 3)
    with operator_of(broker) as made, pytest.raises(ChaosError, match="has 3 queues and not 2"):
        await asyncio.to_thread(made.create_topic, "new", 2)
