"""A signal handler that raises an exception in a read of a synchronous consumer, such as Ctrl-C, loses no message."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.node.embedded import EmbeddedNode
from ledger.client.sync import loop_thread
from ledgermq import Admin, Consumer, GroupConsumer, Producer, SharedConsumer

pytestmark = pytest.mark.real

MESSAGES, LEASE_MS = 100, 1_000
NUMBERS = itertools.count()


class Interrupts:
    """Raises KeyboardInterrupt in each third call of a synchronous client, when the call has its result and the waiting
    thread does not have it yet."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.on = False
        self._calls = 0
        result = loop_thread._Call.result

        def interrupted(call: loop_thread._Call[Any]) -> Any:
            returned = result(call)
            self._calls += self.on
            if self.on and self._calls % 3 == 0:
                raise KeyboardInterrupt
            return returned

        patch.setattr(loop_thread._Call, "result", interrupted)


@pytest.fixture
def interrupts(monkeypatch: pytest.MonkeyPatch) -> Interrupts:
    return Interrupts(monkeypatch)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedNode]:
    with EmbeddedNode(tmp_path_factory.mktemp("node"), flush="async") as node:
        yield node


@pytest.fixture
def topic(node: EmbeddedNode) -> str:
    name = f"topic-{next(NUMBERS)}"
    with Admin(node.bootstrap) as admin, Producer(node.bootstrap) as producer:
        admin.create_topic(name, queues=1)
        producer.send_many(name, [b"%d" % number for number in range(MESSAGES)])
    return name


def read(consumer: Consumer | GroupConsumer | SharedConsumer, way: str, interrupts: Interrupts) -> list[int]:
    """Return the offsets of the messages that the program got, which tries again after each interrupt."""
    offsets: list[int] = []
    interrupts.on = True
    while len(offsets) < MESSAGES:
        with contextlib.suppress(KeyboardInterrupt):
            if way == "iteration":
                offsets.append(next(consumer).offset)
            elif way == "getmany":
                assert not isinstance(consumer, SharedConsumer)
                offsets += [message.offset for message in consumer.getmany(7)]
            else:
                assert isinstance(consumer, GroupConsumer)
                offsets += [batch.offsets[at] for batch in consumer.getbatches() for at in range(len(batch.offsets))]
    interrupts.on = False
    return offsets


@pytest.mark.parametrize("way", ["iteration", "getmany"])
def test_a_consumer_reads_on_where_it_was_interrupted(
    node: EmbeddedNode, topic: str, interrupts: Interrupts, way: str
) -> None:
    with Consumer(topic, bootstrap_servers=node.bootstrap, start="earliest") as consumer:
        assert read(consumer, way, interrupts) == list(range(MESSAGES))


@pytest.mark.parametrize("way", ["iteration", "getmany", "batches"])
def test_a_member_of_a_group_finishes_all_messages(
    node: EmbeddedNode, topic: str, interrupts: Interrupts, way: str
) -> None:
    with GroupConsumer(topic, group=topic, bootstrap_servers=node.bootstrap, start="earliest") as consumer:
        assert read(consumer, way, interrupts) == list(range(MESSAGES))
        consumer.getmany(timeout_ms=1)  # to ask for more finishes the last messages
    with Admin(node.bootstrap) as admin:
        queues = admin.describe_consumer_group(topic).queues
    assert [queue.offset for queue in queues if queue.topic == topic] == [MESSAGES]


def test_a_message_of_a_shared_group_is_acknowledged_only_after_the_program_got_it(
    node: EmbeddedNode, topic: str, interrupts: Interrupts
) -> None:
    with Admin(node.bootstrap) as admin:
        admin.create_consumer_group(topic, mode="shared")
    with SharedConsumer(topic, group=topic, bootstrap_servers=node.bootstrap, lease_ms=LEASE_MS) as consumer:
        assert sorted(read(consumer, "iteration", interrupts)) == list(range(MESSAGES))
