"""Types of topics, from clients and the command line to the leader of another shard than the one that knows them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from cluster.cli.topics.topic import topic as topic_command
from ledger.errors import InvalidArgumentError, TopicExistsError
from ledgermq import AsyncAdmin, AsyncProducer
from tests.cluster.fleet import Fleet
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path, 1, shards=2)
    await fleet.start()
    await fleet.leader()
    try:
        yield fleet
    finally:
        await fleet.close()


async def test_a_leader_refuses_what_the_type_does_not_allow(fleet: Fleet) -> None:
    async with AsyncAdmin(fleet.bootstrap) as admin, AsyncProducer(fleet.bootstrap) as producer:
        for word in ("normal", "fifo", "delay", "transaction", "mixed"):
            made = await admin.create_topic(word, 2, type=word)
            assert (made.type, set(made.shards)) == (word, {0, 1})
        for queue in range(2):  # the shard that knows the types, and the other one
            await producer.send("normal", b"1", queue=queue)
            with pytest.raises(
                InvalidArgumentError, match="topic 'normal' has the type normal, which takes no messages"
            ):
                await producer.send("normal", b"1", queue=queue, delay=timedelta(hours=1))
            await producer.send("fifo", b"1", key=b"k", queue=queue)
            with pytest.raises(InvalidArgumentError, match="a message has no key"):
                await producer.send("fifo", b"1", queue=queue)
            await producer.send("delay", b"1", queue=queue, delay=timedelta(hours=1))
            with pytest.raises(InvalidArgumentError, match="takes no plain messages: give messages a `deliver_at`"):
                await producer.send("delay", b"1", queue=queue)
            with pytest.raises(InvalidArgumentError, match="send messages in a transaction"):
                await producer.send("transaction", b"1", queue=queue)
        async with producer.transaction("transaction", group="checkout") as transaction:
            await transaction.send(b"1")
        for word in ("normal", "fifo", "delay"):
            with pytest.raises(InvalidArgumentError, match="takes no messages of transactions"):
                async with producer.transaction(word, group="checkout") as transaction:
                    await transaction.send(b"1", key=b"k")


async def test_a_type_is_shown_and_changed(fleet: Fleet) -> None:
    async with AsyncAdmin(fleet.bootstrap) as admin, AsyncProducer(fleet.bootstrap) as producer:
        await admin.create_topic("orders", 1, type="delay")
        with pytest.raises(TopicExistsError):
            await admin.create_topic("orders", 1, type="fifo")
        assert (await admin.create_topic("orders", 1, type="fifo", exist_ok=True)).type == "delay"
        assert (await admin.describe_topic("orders")).type == "delay"
        altered = await admin.alter_topic("orders", type="normal")
        assert (altered.type, altered.queues) == ("normal", 1)
        assert {each.name: each.type for each in await admin.list_topics()}["orders"] == "normal"
        await producer.send("orders", b"1")
        both = await admin.alter_topic("orders", 2, type="mixed")
        assert (both.type, both.queues) == ("mixed", 2)
        assert (await admin.alter_topic("orders", 3)).type == "mixed"
        with pytest.raises(InvalidArgumentError, match="there is nothing to change"):
            await admin.alter_topic("orders")
        with pytest.raises(InvalidArgumentError, match="'priority' is no type of a topic"):
            await admin.alter_topic("orders", type="priority")
        with pytest.raises(InvalidArgumentError, match="'priority' is no type of a topic"):
            await admin.create_topic("other", type="priority")


async def test_nodes_of_an_older_version_refuse_types(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.broker.feature_level.FeatureLevel.raise_to_supported", _raises_nothing)
    fleet.running[1]._shards.replicas.topics.state.feature_level = 4
    async with AsyncAdmin(fleet.bootstrap) as admin:
        with pytest.raises(InvalidArgumentError, match="types of topics need level 5: some nodes run an older version"):
            await admin.create_topic("orders", type="fifo")
        assert (await admin.create_topic("orders")).type == "mixed"
        with pytest.raises(InvalidArgumentError, match="types of topics need level 5"):
            await admin.alter_topic("orders", type="fifo")


async def _raises_nothing(_: object) -> None:
    return None


async def test_types_survive_a_restart(fleet: Fleet) -> None:
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_topic("orders", type="fifo")
    await fleet.stop(1)
    await fleet.start(1)
    await fleet.leader()

    async def found() -> str:
        async with AsyncAdmin(fleet.bootstrap) as admin:
            return (await admin.describe_topic("orders")).type

    assert await eventually(found, "the node serves again") == "fifo"


def test_the_command_line(tmp_path: Path) -> None:
    """A wrong call of `ledgermq topic` needs no cluster."""
    done = CliRunner().invoke(topic_command, ["create", "orders", "--type", "priority"])
    assert done.exit_code == 2
    assert "'priority' is not one of 'mixed', 'normal', 'fifo', 'delay', 'transaction'" in done.output
    done = CliRunner().invoke(topic_command, ["alter", "orders", "--bootstrap", "localhost:1"])
    assert done.exit_code == 2
    assert "give --queues or --type" in done.output
