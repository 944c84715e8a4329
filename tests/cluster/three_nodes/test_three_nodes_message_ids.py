"""Message ids on real nodes: a message that is sent again gets the first result, also from another producer, after a
failover, after a restart, and with delivery times and transactions."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from ledger.errors import InvalidArgumentError, UnsupportedBatchError
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer
from ledgermq.errors import LedgerError
from tests.cluster.fleet import MakeFleet

pytestmark = pytest.mark.real


async def values_of(bootstrap: list[str], topic: str, count: int) -> list[bytes]:
    """Read a topic until nothing comes any more, at least `count` messages."""
    found: list[bytes] = []
    async with AsyncConsumer(topic, bootstrap_servers=bootstrap, max_wait_ms=200) as consumer:
        quiet = 0
        while len(found) < count or quiet < 2:
            more = [message.value for message in await consumer.getmany(timeout_ms=300)]
            found += more
            quiet = 0 if more else quiet + 1
    return found


async def test_a_message_that_is_sent_again_is_stored_once(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(3, shards=2)
    await fleet.start()
    leader = await fleet.leader()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_topic("orders", 4)
    async with AsyncProducer(fleet.bootstrap) as first, AsyncProducer(fleet.bootstrap) as second:
        sent = await asyncio.gather(*(first.send("orders", b"%d" % at, message_id=f"id {at}") for at in range(40)))
        assert {each.duplicate for each in sent} == {False}
        assert len({each.queue for each in sent}) == 4, "ids choose queues"
        # Another producer sends half of them again, among new messages.
        mixed = await asyncio.gather(
            *(second.send("orders", b"%d" % at, message_id=f"id {at}") for at in range(20, 60))
        )
        for at, again in zip(range(20, 40), mixed[:20], strict=True):
            assert (again.queue, again.offset, again.duplicate) == (sent[at].queue, sent[at].offset, True)
        assert {each.duplicate for each in mixed[20:]} == {False}

        await fleet.stop(leader)
        after = await asyncio.gather(*(first.send("orders", b"%d" % at, message_id=f"id {at}") for at in range(60)))
        assert [(each.queue, each.offset) for each in after[:40]] == [(each.queue, each.offset) for each in sent]
        assert all(each.duplicate for each in after)
        assert (await second.send("orders", b"plain")).duplicate is False
    await fleet.start(leader)
    await fleet.level()
    assert sorted(await values_of(fleet.bootstrap, "orders", 61)) == sorted(
        [b"%d" % at for at in range(60)] + [b"plain"]
    )


async def test_two_sends_at_the_same_time(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(3)
    await fleet.start()
    await fleet.leader()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_topic("orders", 2)
    async with AsyncProducer(fleet.bootstrap) as first, AsyncProducer(fleet.bootstrap) as second:
        both = await asyncio.gather(
            *(each.send("orders", b"1", message_id=b"same") for each in (first, second, first, second))
        )
        assert len({(each.queue, each.offset) for each in both}) == 1
        assert sorted(each.duplicate for each in both) == [False, True, True, True]
        assert await values_of(fleet.bootstrap, "orders", 1) == [b"1"]


async def test_delivery_times_transactions_and_restarts(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(1)
    await fleet.start()
    await fleet.leader()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_topic("orders", 2)
    at = datetime.now(UTC) + timedelta(seconds=3)
    async with AsyncProducer(fleet.bootstrap) as first, AsyncProducer(fleet.bootstrap) as second:
        waiting = await first.send("orders", b"late", deliver_at=at, message_id="late")
        again = await second.send("orders", b"late", deliver_at=at, message_id="late")
        assert (again.handle, again.queue) == (waiting.handle, waiting.queue)
        with pytest.raises(InvalidArgumentError, match="sent with or without a delivery time"):
            await second.send("orders", b"late", message_id="late")
        ids = []
        for producer in (first, second):
            transaction = producer.transaction("orders", group="checkout")
            await transaction.send(b"half", message_id="half")
            ids.append(transaction.id)
            with pytest.raises(InvalidArgumentError, match="Only the first message"):
                await transaction.send(b"more", message_id="more")
        assert ids[0] == ids[1]
        await transaction.commit()
        assert sorted(await values_of(fleet.bootstrap, "orders", 2)) == [b"half", b"late"]
        plain = await first.send("orders", b"plain", message_id="plain")
    await fleet.stop(1)
    await fleet.start(1)
    await fleet.leader()
    async with AsyncProducer(fleet.bootstrap) as third:
        again = await third.send("orders", b"plain", message_id="plain")
        assert (again.queue, again.offset, again.duplicate) == (plain.queue, plain.offset, True)


async def test_a_cluster_of_an_older_version_refuses_ids(
    make_fleet: MakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.broker.feature_level.FeatureLevel.raise_to_supported", _raises_nothing)
    monkeypatch.setattr("ledger.broker.feature_level.FeatureLevel.may_reach", lambda *_: False)
    fleet = make_fleet(1)
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_topic("orders", 1)
    async with AsyncProducer(fleet.bootstrap) as producer:
        with pytest.raises(UnsupportedBatchError, match="message ids need level 5") as refused:
            await producer.send("orders", b"1", message_id="1")
        assert isinstance(refused.value, LedgerError)
        assert (await producer.send("orders", b"1")).offset == 0


async def _raises_nothing(_: object) -> None:
    return None
