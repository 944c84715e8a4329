"""Tests `create_topic` after an attempt with unknown outcome: the existing topic may be the result of that attempt.

If the topic may be that result, the call succeeds; otherwise the call raises TopicExistsError.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest

import ledgermq
from ledger.errors import BusyError, LedgerError, NotLeaderError, TopicExistsError, UnavailableError, to_wire
from ledger.v1 import broker_pb2
from tests.ledger.client.fake_broker import FakeBroker, FakeCluster

pytestmark = pytest.mark.real

Turn = Callable[[FakeCluster], LedgerError | None]


class ScriptedBroker(FakeBroker):
    """A fake broker with a script. Each attempt to create a topic runs the next function of `turns`, which changes the
    cluster and returns the error to answer with. None means that the answer is lost. After the last function, the
    broker creates the topic as usual.
    """

    turns: list[Turn]

    async def CreateTopic(self, request: broker_pb2.CreateTopicRequest, context: Any) -> Any:  # noqa: N802
        if not self.turns:
            return await super().CreateTopic(request, context)
        answer = self.turns.pop(0)(self.cluster)
        if answer is None:
            return await context.abort(grpc.StatusCode.UNAVAILABLE, "the answer was lost")
        return broker_pb2.CreateTopicResponse(error=to_wire(answer))


def makes(queues: int, answer: LedgerError | None) -> Turn:
    def turn(cluster: FakeCluster) -> LedgerError | None:
        cluster.create("new", queues)
        return answer

    return turn


def does_nothing(answer: LedgerError | None) -> Turn:
    return lambda cluster: answer


@pytest.fixture
async def broker() -> AsyncIterator[ScriptedBroker]:
    broker = ScriptedBroker(1, FakeCluster())
    await broker.start()
    yield broker
    await broker.stop()


async def create(broker: ScriptedBroker, *turns: Turn) -> ledgermq.TopicDescription:
    broker.turns = list(turns)
    async with ledgermq.AsyncAdmin(broker.cluster.addresses[1]) as admin:
        description = await admin.create_topic("new", queues=2)
    assert not broker.turns
    return description


@pytest.mark.parametrize(
    "answer", [None, NotLeaderError("no longer"), UnavailableError("it stops")], ids=["lost", "not leader", "stops"]
)
async def test_what_an_attempt_in_doubt_made_is_ours(broker: ScriptedBroker, answer: LedgerError | None) -> None:
    assert (await create(broker, makes(2, answer))).queues == 2


@pytest.mark.parametrize(
    "answer", [None, NotLeaderError("not here"), BusyError("busy")], ids=["lost", "not leader", "busy"]
)
async def test_what_was_there_before_is_not(broker: ScriptedBroker, answer: LedgerError | None) -> None:
    broker.cluster.create("new", 2)
    with pytest.raises(TopicExistsError):
        await create(broker, does_nothing(answer))


async def test_what_came_while_an_attempt_was_refused_is_not(broker: ScriptedBroker) -> None:
    with pytest.raises(TopicExistsError):
        await create(broker, makes(2, BusyError("busy")))


async def test_what_has_other_queues_is_not(broker: ScriptedBroker) -> None:
    with pytest.raises(TopicExistsError):
        await create(broker, makes(3, None))
