"""getbatches() of consumer groups: columns, acknowledgement, redelivery, retries, and release on a rebalance."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pyarrow
import pytest

from cluster.local.processes import DevCluster
from ledger.errors import InvalidArgumentError
from ledgermq import AsyncAdmin, AsyncGroupConsumer, AsyncProducer, GroupBatch, GroupConsumer, OutgoingMessage
from tests.cluster.ports import free_base_port

pytestmark = pytest.mark.real

COUNT, SECONDS = 3_000, 30


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEDGERMQ_RETRY_DELAYS_S", "0.1")
        cluster = DevCluster(tmp_path_factory.mktemp("batches"))
        cluster.start(1, base_port=free_base_port(1))
        yield cluster
        cluster.purge()


@pytest.fixture
async def topic(cluster: DevCluster, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A topic of two queues with COUNT messages, in batches of several sizes."""
    name = request.node.name.partition("[")[0][-60:]
    async with AsyncAdmin(cluster.bootstrap) as admin, AsyncProducer(cluster.bootstrap, batch_bytes=20_000) as producer:
        await admin.create_topic(name, 2)
        for queue in range(2):
            messages = [
                OutgoingMessage(
                    b"%d-%d" % (queue, number), "k" if number % 2 else None, "odd" if number % 2 else "even"
                )
                for number in range(COUNT // 2)
            ]
            await producer.send_many(name, messages, queue=queue)
        yield name


def member(cluster: DevCluster, topic: str, **settings: Any) -> AsyncGroupConsumer:
    return AsyncGroupConsumer(topic, group=f"of-{topic}"[:63], bootstrap_servers=cluster.bootstrap, **settings)


async def consumed(one: AsyncGroupConsumer, count: int) -> list[bytes]:
    """Read and finish batches until they had `count` messages."""
    values: list[bytes] = []
    async with asyncio.timeout(SECONDS):
        while len(values) < count:
            for batch in await one.getbatches():
                values += batch.values()
                one.finish(batch)
    return values


async def offsets(cluster: DevCluster, topic: str) -> int:
    async with AsyncAdmin(cluster.bootstrap) as admin:
        group = await admin.describe_consumer_group(f"of-{topic}"[:63])
    return sum(queue.offset or 0 for queue in group.queues if queue.topic == topic)


async def test_what_is_finished_is_acknowledged_and_the_rest_comes_again(cluster: DevCluster, topic: str) -> None:
    async with member(cluster, topic, auto_acknowledge=False) as one:
        held: list[GroupBatch] = []
        async with asyncio.timeout(SECONDS):
            while sum(map(len, held)) < COUNT:
                held += await one.getbatches()
        assert all(map(one.holds, held))
        unfinished = [batch for batch in held if batch.offset > 200]
        one.finish(*(batch for batch in held if batch not in unfinished))
        await one.acknowledge()
        assert not one.holds(held[0])
        assert await offsets(cluster, topic) == COUNT - sum(map(len, unfinished))
    async with member(cluster, topic, auto_acknowledge=False) as other:
        again = await consumed(other, sum(map(len, unfinished)))
        assert sorted(again) == sorted(value for batch in unfinished for value in batch.values())
        await other.acknowledge()
    assert await offsets(cluster, topic) == COUNT


async def test_columns_agree_with_messages_and_arrow_copies_nothing(cluster: DevCluster, topic: str) -> None:
    async with member(cluster, topic, tags="odd") as filtered, asyncio.timeout(SECONDS):
        (some, *_) = await filtered.getbatches()
    async with member(cluster, topic, start="earliest") as one, asyncio.timeout(SECONDS):
        place = await one_of(one)
        await one.seek(*place, 0)
        whole = None
        while whole is None:
            whole = next((batch for batch in await one.getbatches() if batch.queue == place[1]), None)
    assert set(some.tags()) == {"odd"}
    for batch in (some, whole):
        messages, table = batch.messages(), batch.to_arrow()
        assert [message.value for message in messages] == batch.values() == table["value"].to_pylist()
        assert [message.key for message in messages] == batch.keys() == table["key"].to_pylist()
        assert [message.tag for message in messages] == batch.tags() == table["tag"].to_pylist()
        assert [message.offset for message in messages] == batch.offsets.tolist() == table["offset"].to_pylist()
        assert [message.timestamp_ms for message in messages] == table["timestamp_ms"].to_pylist()
        assert [message.headers for message in messages] == batch.headers()
        assert isinstance(table, pyarrow.RecordBatch)
    start, source = whole.batch.bodies.ctypes.data, whole.to_arrow()["value"].buffers()[2]
    assert source.address == start, "the values are the bytes that were fetched"


async def one_of(one: AsyncGroupConsumer) -> tuple[str, int]:
    place = (await one.wait_assigned())[0]
    return place.topic, place.queue


async def test_a_message_of_a_batch_is_retried_alone(cluster: DevCluster, topic: str) -> None:
    async with member(cluster, topic, auto_acknowledge=False) as one, asyncio.timeout(SECONDS):
        batch = next(iter(await one.getbatches()))
        first, *_, last = batch.messages()
        for message in (first, last):
            await one.reconsume_later(message)
        one.finish(first)
        assert one.holds(batch), "only finish(batch) finishes it"
        one.finish(batch)
        again: list[Any] = []
        while len(again) < 2:
            for retried in await one.getbatches():
                again += [message for message in retried.messages() if message.attempt > 1]
                one.finish(retried)
    assert sorted(message.value for message in again) == sorted([first.value, last.value])


async def test_a_new_member_gets_what_the_old_one_did_not_finish(cluster: DevCluster, topic: str) -> None:
    seen: Counter[bytes] = Counter()
    settings: dict[str, Any] = {"auto_acknowledge": False, "release_timeout_ms": 200}
    async with member(cluster, topic, **settings) as old, asyncio.timeout(SECONDS):
        held: list[GroupBatch] = []
        while sum(map(len, held)) < COUNT:
            held += await old.getbatches()
        async with member(cluster, topic, **settings) as new:
            ((_, queue),) = await new.wait_assigned()
            seen.update(await consumed(new, COUNT // 2))
            lost = [batch for batch in held if batch.queue == queue]
            assert not any(map(old.holds, lost))
            old.finish(*lost)  # too late: ignored
            kept = [batch for batch in held if batch.queue != queue]
            assert all(map(old.holds, kept))
            old.finish(*kept)
            await old.acknowledge()
            await new.acknowledge()
    assert seen == Counter(value for batch in lost for value in batch.values())
    assert await offsets(cluster, topic) == COUNT


async def test_the_synchronous_consumer_finishes_at_the_next_read(cluster: DevCluster, topic: str) -> None:
    def work() -> list[bytes]:
        values: list[bytes] = []
        with GroupConsumer(topic, group=f"of-{topic}"[:63], bootstrap_servers=cluster.bootstrap) as one:
            while len(values) < COUNT:
                values += [value for batch in one.getbatches(SECONDS * 1000) for value in batch.values()]
            assert one.getbatches(timeout_ms=1) == []
        return values

    assert len(set(await asyncio.to_thread(work))) == COUNT
    assert await offsets(cluster, topic) == COUNT


async def test_without_pyarrow_to_arrow_says_what_to_install(
    cluster: DevCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with member(cluster, topic) as one, asyncio.timeout(SECONDS):
        (batch, *_) = await one.getbatches()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidArgumentError, match="pip install pyarrow"):
        batch.to_arrow()
