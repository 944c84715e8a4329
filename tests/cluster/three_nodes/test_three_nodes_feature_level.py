"""Feature levels in a real cluster: a shard reaches the latest level, and a node that is too old stays up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest
import pytest_asyncio

from cluster.node.runtime import Runtime
from ledger.errors import DeliveryTimeoutError, UnsupportedBatchError
from ledger.state.feature_levels import LATEST_LEVEL, LOOK_UP_KEYS
from ledgermq import AsyncAdmin, AsyncProducer
from raft.errors import CannotApplyError
from store import EntryKind, Header
from tests.cluster.fleet import Fleet, MakeFleet, sample_batch
from tests.cluster.scrape import reason_not_ready, scrape
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("levels"))
    await fleet.start()
    await fleet.leader()
    yield fleet
    await fleet.close()


async def test_a_shard_reaches_the_latest_level_on_every_node(fleet: Fleet) -> None:
    async def levels() -> bool:
        return {status.feature_level for status in (await fleet.statuses()).values()} == {LATEST_LEVEL}

    await eventually(levels, "every node has applied the latest level")
    for node in fleet.nodes:
        assert (await scrape(fleet.http(node))).of("ledgermq_raft_feature_level", shard="0") == LATEST_LEVEL


async def test_a_node_that_is_too_old_stays_up_and_readable_and_does_not_lead(fleet: Fleet) -> None:
    topic = await fleet.create_topic()
    leader, old = await fleet.leader(), await fleet.follower()
    await fleet.produce(leader, sample_batch(topic, first_sequence=0))
    await fleet.level()
    replica = fleet.running[old]._shards.first.replica
    assert replica is not None
    apply = replica.apply

    def apply_known(header: Header, body: memoryview) -> None:
        """Apply an entry as a program that knows no command of the newest version would do."""
        if header.kind is EntryKind.COMMAND:
            raise CannotApplyError(header.index, "a command is unknown to this program: upgrade this node")
        apply(header, body)

    replica.apply = apply_known  # type: ignore[method-assign]
    await fleet.create_topic("payments")
    assert "upgrade this node" in await reason_not_ready(fleet.http(old), "applies no more entries")
    status = await fleet.status(old)
    assert "upgrade this node" in status.stopped
    assert (await scrape(fleet.http(old))).of("ledgermq_raft_stopped", shard="0") == 1

    await fleet.produce(leader, sample_batch(topic, first_sequence=2))
    fetched = await fleet.fetch(old, topic, 0)
    assert fetched.end_offset == 2, "the node is read up to the entry that it cannot apply"

    await fleet.stop(old)
    await fleet.start(old)  # with the program of the other nodes
    await fleet.level()
    assert not (await fleet.status(old)).stopped


@pytest.mark.asyncio(loop_scope="function")
async def test_look_up_keys_wait_until_every_node_knows_them(
    make_fleet: MakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = make_fleet(3, spread_leaders=False)
    with monkeypatch.context() as patch:
        patch.setattr("cluster.node.node.Runtime", partial(Runtime, latest_level=LOOK_UP_KEYS - 1))
        await fleet.start(1)
    await fleet.start(2, 3)

    async with AsyncAdmin(fleet.bootstrap) as admin, AsyncProducer(fleet.bootstrap) as producer:
        await admin.create_topic("orders", 1)
        if (await fleet.status(1)).role == "leader":
            await admin.transfer_leadership(2)

        async def refused() -> bool:
            """True when the leader knows what the older node supports. Until then it asks the producer to try again."""
            try:
                async with AsyncProducer(fleet.bootstrap, delivery_timeout_ms=500) as impatient:
                    await impatient.send("orders", b"x", look_up_keys=["order-1"])
            except UnsupportedBatchError as error:
                return "some nodes run an older version, upgrade them" in str(error)
            except DeliveryTimeoutError:
                return False
            raise AssertionError("the older node cannot apply the batch")

        await eventually(refused, "a batch with look-up keys is refused")
        await producer.send("orders", b"without", key="order-1")
        await fleet.stop(1)
        await fleet.start(1)  # with the program of the other nodes
        await fleet.leader()
        await producer.send("orders", b"with", look_up_keys=["order-1"])
        found = await admin.query_messages("orders", "order-1")
        assert [message.value for message in found] == [b"with", b"without"]
    await fleet.level()
    assert not any(status.stopped for status in (await fleet.statuses()).values())
