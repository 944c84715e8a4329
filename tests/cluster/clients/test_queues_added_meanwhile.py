"""A topic gets a queue while a command reads the topic up to its end: the messages of the new queue are left out."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cluster.cli.messages.consume import ConsumeSelection, _consume
from cluster.cli.messages.message_writer import MessageWriter, text_format
from cluster.dead_letters import DeadLetterQueue
from ledger.batch import encode
from ledger.retries import dead_letter_topic
from ledger.v1 import broker_pb2
from ledgermq import AsyncAdmin
from tests.ledger.client.fake_broker import FakeBroker, FakeCluster

pytestmark = pytest.mark.real

TOPIC = dead_letter_topic("billing")


class GrowingBroker(FakeBroker):
    """A node whose topic has one queue with two messages. The second message can be read only after a client has
    fetched a message of a second queue, which the topic gets when the client has fetched the first message."""

    async def ListOffsets(  # noqa: N802 (gRPC names)
        self, request: broker_pb2.ListOffsetsRequest, context: Any
    ) -> broker_pb2.ListOffsetsResponse:
        response = await super().ListOffsets(request, context)
        for each in response.queues:
            each.end_offset = 2
        return response

    async def Fetch(self, request: broker_pb2.FetchRequest, context: Any) -> broker_pb2.FetchResponse:  # noqa: N802
        fetched = {asked.queue for asked in request.queues if asked.offset == 1}
        route = self.cluster.topics[TOPIC]
        if 0 in fetched and len(route.shards) == 1:
            route.shards.append(0)
            self.cluster.queues[route.topic_id, 1] = []
            self.append(1, b"of the new queue")
        if 1 in fetched and self.cluster.end(route.topic_id, 0) == 1:
            self.append(0, b"second")
        return await super().Fetch(request, context)

    def append(self, queue: int, value: bytes) -> None:
        topic_id = self.cluster.topics[TOPIC].topic_id
        self.cluster.append(
            encode(
                [value],
                topic_id=topic_id,
                queue=queue,
                producer_id=7,
                epoch=0,
                first_sequence=self.cluster.end(topic_id, queue),
                base_timestamp_ms=1,
            )
        )


@pytest.fixture
async def bootstrap(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    monkeypatch.setattr("ledger.client.connection.routes._REFRESH_SECONDS", 0.1)
    cluster = FakeCluster()
    broker = GrowingBroker(1, cluster)
    broker.applied = [cluster.create(TOPIC, 1)]
    broker.append(0, b"first")
    await broker.start()
    yield cluster.addresses[1]
    await broker.stop()


async def test_consume(bootstrap: str) -> None:
    printed = io.BytesIO()
    selection = ConsumeSelection((TOPIC,), "earliest", (), (), None, None, follow=False, on_dropped="error")
    await _consume(bootstrap, selection, MessageWriter(printed, text_format(b"\n", None)))
    assert printed.getvalue() == b"first\nsecond\n"


async def test_dead_letters(bootstrap: str) -> None:
    async with AsyncAdmin(bootstrap) as admin:
        letters = DeadLetterQueue("billing", admin, bootstrap)
        assert await letters.read({}, 10, lambda message: message.value) == ([b"first", b"second"], {})
