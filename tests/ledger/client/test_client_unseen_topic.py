"""A consumer whose topic goes out of sight: the user loses a right to it, or the topic is deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

import ledgermq
from ledger.client.connection.route_table import RoutedTopic
from ledger.errors import UnknownTopicError
from tests.ledger.client.fake_broker import FakeBroker, started

pytestmark = pytest.mark.real

MESSAGES = 6


@pytest.fixture
async def consumer(broker: FakeBroker) -> AsyncIterator[ledgermq.AsyncConsumer[bytes]]:
    """A consumer that has read 2 of the 6 messages of its topic, which has one queue."""
    producer = await started(broker)
    await producer.send_many("t", [b"%d" % number for number in range(MESSAGES)], queue=0)
    await producer.stop()
    made = ledgermq.AsyncConsumer("t", bootstrap_servers=broker.cluster.addresses[1], max_wait_ms=20)
    await made.start()
    assert await values(made, 2) == [b"0", b"1"]
    yield made
    await made.stop()


async def values(consumer: ledgermq.AsyncConsumer[bytes], count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        some = await consumer.getmany(count - len(found), timeout_ms=5_000)
        assert some, "nothing more is read"
        found += [message.value for message in some]
    return found


def routed(consumer: ledgermq.AsyncConsumer[bytes], topic: RoutedTopic | None) -> RoutedTopic | None:
    """Let the nodes report this topic, or that there is none. Return what they have reported before."""
    table = consumer._client.routes.table
    before = table.topics.pop("t", None)
    if topic is not None:
        table.topics["t"] = topic
    consumer._topic_changed("t")
    return before


async def test_a_topic_that_is_seen_again_is_read_on_where_the_consumer_was(
    consumer: ledgermq.AsyncConsumer[bytes],
) -> None:
    topic = routed(consumer, None)
    with pytest.raises(UnknownTopicError):
        await consumer.getmany(1, timeout_ms=0)
    routed(consumer, topic)
    assert consumer.position("t", 0) == 2
    assert await values(consumer, 4) == [b"2", b"3", b"4", b"5"]


async def test_a_queue_that_was_paused_is_paused_when_it_is_seen_again(
    consumer: ledgermq.AsyncConsumer[bytes],
) -> None:
    consumer.pause(("t", 0))
    routed(consumer, routed(consumer, None))
    assert consumer.is_paused("t", 0)
    consumer.resume()
    assert await values(consumer, 4) == [b"2", b"3", b"4", b"5"]


async def test_a_queue_that_the_topic_got_meanwhile_is_read_from_its_first_message(
    broker: FakeBroker, consumer: ledgermq.AsyncConsumer[bytes]
) -> None:
    topic = routed(consumer, None)
    assert topic is not None
    broker.cluster.queues[topic.topic_id, 1] = []
    routed(consumer, replace(topic, shards=(0, 0)))
    assert [consumer.position("t", queue) for queue in (0, 1)] == [2, 0]


async def test_another_topic_of_the_name_is_read_from_its_first_message(
    broker: FakeBroker, consumer: ledgermq.AsyncConsumer[bytes]
) -> None:
    topic = routed(consumer, None)
    assert topic is not None
    broker.cluster.queues[77, 0] = []
    routed(consumer, replace(topic, topic_id=77))
    assert consumer.position("t", 0) == 0
    routed(consumer, None)
    routed(consumer, topic)
    assert consumer.position("t", 0) == 0, "the place in a topic that was deleted was kept"
