"""Producers of one event loop send small messages in common batches."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ledgermq
from ledger.batch import Batch, BatchHeader
from ledger.errors import (
    BufferFullError,
    BusyError,
    ClosedError,
    DeliveryTimeoutError,
    InvalidArgumentError,
    LedgerError,
    ProducerFencedError,
    UnavailableError,
)
from tests.cluster.waiter import until
from tests.ledger.client.fake_broker import FakeBroker, started, stopped

pytestmark = pytest.mark.real

SECONDS = 10
PRODUCERS = 40
# More bytes than a producer may have in common batches.
MANY_BYTES = 100_000


async def ready(broker: FakeBroker, count: int, **settings: Any) -> list[ledgermq.AsyncProducer]:
    """Return producers that know the topics "t" and "wide"."""
    broker.cluster.topics.get("wide") or broker.cluster.create("wide", 2)
    producers = [await started(broker, **settings) for _ in range(count)]
    for producer in producers:
        await producer._queue_selection.resolve("t")
        await producer._queue_selection.resolve("wide")
    return producers


def ids(broker: FakeBroker) -> list[int]:
    """Return the producer id of each batch in the log."""
    return [BatchHeader.parse(each.body).producer_id for each in broker.cluster.queues[1, 0]]


async def results(futures: Sequence[asyncio.Future[Any]]) -> list[Any]:
    return await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), SECONDS)


async def test_small_messages_of_many_producers_go_in_one_batch(broker: FakeBroker) -> None:
    producers = await ready(broker, PRODUCERS)
    places = await asyncio.gather(*(producer.send("t", b"%d" % n) for n, producer in enumerate(producers)))
    assert [place.offset for place in places] == list(range(PRODUCERS))
    assert broker.cluster.values("t", 0) == [b"%d" % number for number in range(PRODUCERS)]
    assert broker.cluster.appends == 1
    await stopped(*producers)


@pytest.mark.parametrize("setting", [{"linger_ms": 6}, {"compression": "lz4"}, {"retries": 3}, {"retry_backoff_ms": 7}])
async def test_producers_with_other_settings_have_other_batches(broker: FakeBroker, setting: dict[str, Any]) -> None:
    (one,), (other,) = await ready(broker, 1), await ready(broker, 1, **setting)
    await asyncio.gather(one.send("t", b"a"), other.send("t", b"b"))
    assert len(set(ids(broker))) == 2
    await stopped(one, other)


async def test_messages_in_bulk_go_in_batches_of_their_own(broker: FakeBroker) -> None:
    bulk, small = await ready(broker, 2)
    ranges, place = await asyncio.gather(bulk.send_many("t", [b"a", b"b"]), small.send("t", b"c"))
    assert len(set(ids(broker))) == 2
    assert {ranges[0].first_offset, place.offset} in ({0, 2}, {1, 0})
    await stopped(bulk, small)


async def test_a_producer_with_a_history_has_batches_of_its_own(broker: FakeBroker, tmp_path: Path) -> None:
    """The history identifies messages by the id of their producer."""
    (other,) = await ready(broker, 1)
    one = await started(broker, history=tmp_path / "history.jsonl")
    await asyncio.gather(one.send("t", b"a"), other.send("t", b"b"))
    assert one._delivery.producer_id in ids(broker)
    assert len(set(ids(broker))) == 2
    await stopped(one, other)


async def test_a_producer_that_changes_to_batches_of_its_own_keeps_its_order(broker: FakeBroker) -> None:
    one, other = await ready(broker, 2, batch_bytes=32_000)
    chance, sends, expected = random.Random(1), list[asyncio.Future[Any]](), list[bytes]()
    for number in range(1_000):
        broker.late_s = chance.choice((0, 0, 0.002))
        value = b"%d:" % number + bytes(chance.choice((0, 0, 0, 100, 1_000, 5_000)))
        expected.append(value)
        if chance.random() < 0.1:
            sends.append(asyncio.ensure_future(one.send_many("t", [value, value], key="k")))
            expected.append(value)
        else:
            sends.append(asyncio.ensure_future(one.send("t", value, key="k")))
        sends.append(other.send_nowait("t", b"other"))
        if chance.random() < 0.05:
            await asyncio.sleep(chance.choice((0, 0.01)))
            if chance.random() < 0.3:
                await asyncio.gather(*sends)
    await asyncio.gather(*sends)
    assert [value for value in broker.cluster.values("t", 0) if value != b"other"] == expected
    assert one._delivery.producer_id in ids(broker), "some batches are of this producer alone"
    assert len(ids(broker)) > len([each for each in ids(broker) if each == one._delivery.producer_id])
    await stopped(one, other)


async def test_own_batches_wait_for_a_common_batch_whose_result_is_unknown(broker: FakeBroker) -> None:
    (one,) = await ready(broker, 1, delivery_timeout_ms=1_000)
    broker.late_s = 1.6
    lost = one.send_nowait("t", b"lost", key="k")
    with pytest.raises(DeliveryTimeoutError) as raised:
        await lost
    assert raised.value.maybe_committed
    later = asyncio.create_task(one.send_many("t", [b"later", b"later"], key="k"))
    await asyncio.sleep(0.05)
    assert broker.cluster.values("t", 0) == []
    broker.late_s = 0
    await asyncio.wait_for(later, SECONDS)
    assert broker.cluster.values("t", 0) == [b"lost", b"later", b"later"]
    await stopped(one)


async def test_only_the_messages_that_a_broker_names_are_refused(broker: FakeBroker) -> None:
    producers = await ready(broker, 5)
    broker.cluster.troubles = [InvalidArgumentError("no key", places=(1, 3))]
    told = await results([producer.send_nowait("t", b"%d" % n) for n, producer in enumerate(producers)])
    refused = [number for number, each in enumerate(told) if isinstance(each, InvalidArgumentError)]
    assert refused == [1, 3]
    assert [each.offset for number, each in enumerate(told) if number not in refused] == [0, 1, 2]
    assert broker.cluster.values("t", 0) == [b"0", b"2", b"4"]
    assert (await producers[1].send("t", b"after")).offset == 3
    await stopped(*producers)


async def test_only_named_messages_are_refused_also_after_a_lost_attempt(broker: FakeBroker) -> None:
    producers = await ready(broker, 3)
    broker.cluster.troubles = [UnavailableError("lost"), InvalidArgumentError("no key", places=(1,))]
    told = await results([producer.send_nowait("t", b"%d" % n) for n, producer in enumerate(producers)])
    assert [isinstance(each, InvalidArgumentError) for each in told] == [False, True, False]
    assert broker.cluster.values("t", 0) == [b"0", b"2"]
    await stopped(*producers)


@pytest.mark.parametrize("extra", [{"message_id": "7"}, {"look_up_keys": ["7"]}])
async def test_a_message_that_a_broker_refuses_for_a_while_does_not_delay_those_of_others(
    broker: FakeBroker, extra: dict[str, Any]
) -> None:
    one, other = await ready(broker, 2)
    broker.cluster.troubles = [BusyError("the feature level is too low")] * 1_000
    waits = one.send_nowait("t", b"a", **extra)
    await until(lambda: len(broker.cluster.troubles) < 1_000, "the broker refuses it")
    broker.cluster.troubles.clear()
    assert await other.send("t", b"b")
    assert await waits
    assert len(set(ids(broker))) == 2
    await stopped(one, other)


@pytest.mark.parametrize("places", [(), (0, 1, 2), (7, 9_999)])
async def test_a_whole_batch_is_refused_if_the_broker_names_no_message_or_all(
    broker: FakeBroker, places: tuple[int, ...]
) -> None:
    producers = await ready(broker, 3)
    broker.cluster.troubles = [InvalidArgumentError("no", places=places)]
    told = await results([producer.send_nowait("t", b"a") for producer in producers])
    assert all(isinstance(each, InvalidArgumentError) for each in told)
    assert (await producers[0].send("t", b"after")).offset == 0
    await stopped(*producers)


async def test_a_call_with_several_messages_succeeds_or_fails_as_a_whole(broker: FakeBroker) -> None:
    """A slice of a send_many has one result."""
    (one,) = await ready(broker, 1)
    broker.late_s = 0.05
    first = one.send_nowait("t", b"first")
    await asyncio.sleep(0)
    many = [asyncio.ensure_future(one.send_many("t", [b"a", b"b"], queue=0)) for _ in range(3)]
    broker.cluster.troubles = ["", InvalidArgumentError("no", places=(3,))]
    told = await results([first, *many])
    assert [isinstance(each, LedgerError) for each in told] == [False, False, True, False]
    assert broker.cluster.values("t", 0) == [b"first", b"a", b"b", b"a", b"b"]
    await stopped(one)


async def test_a_producer_that_stops_leaves_the_messages_of_others(broker: FakeBroker) -> None:
    leaving, staying = await ready(broker, 2, delivery_timeout_ms=5_000)
    broker.late_s = 0.3
    mine, other = leaving.send_nowait("t", b"mine"), staying.send_nowait("t", b"other")
    stop = asyncio.create_task(leaving.stop())
    await asyncio.sleep(0.1)
    stop.cancel()  # the program does not wait for the results
    await asyncio.gather(stop, return_exceptions=True)
    with pytest.raises(DeliveryTimeoutError) as raised:
        await asyncio.wait_for(mine, SECONDS)
    assert raised.value.maybe_committed
    assert (await asyncio.wait_for(other, SECONDS)).offset == 1
    with pytest.raises(ClosedError):
        leaving.send_nowait("t", b"late")
    await stopped(staying)


async def test_a_producer_that_is_stopped_twice_at_the_same_time_leaves_once(broker: FakeBroker) -> None:
    leaving, staying = await ready(broker, 2)
    broker.late_s = 0.1
    mine = leaving.send_nowait("t", b"mine")
    stops = [asyncio.create_task(leaving.stop()) for _ in range(2)]
    assert await results(stops) == [None, None]
    assert mine.result().offset == 0
    assert staying._common is not None
    assert staying._common._common.users == 1
    assert staying._client.link._users == 1
    assert (await asyncio.wait_for(staying.send("t", b"other"), SECONDS)).offset == 1
    await stopped(staying)


async def test_a_second_stop_waits_for_the_end_of_the_first(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one,) = await ready(broker, 1)
    close, may_close = one._sender.close, asyncio.Event()

    async def close_later() -> None:
        await may_close.wait()
        await close()

    monkeypatch.setattr(one._sender, "close", close_later)
    first = asyncio.create_task(one.stop())
    await until(lambda: one._ending is not None, "the first stop closes the producer")
    second = asyncio.create_task(one.stop())
    await asyncio.sleep(0.01)
    assert not second.done()
    may_close.set()
    assert await results([first, second]) == [None, None]
    await one.stop()


async def test_a_stop_and_a_flush_wait_for_the_messages_of_their_producer_alone(broker: FakeBroker) -> None:
    broker.cluster.create("away", 1, shards=[1])
    one, other = await ready(broker, 2, delivery_timeout_ms=60_000)
    broker.cluster.others[1] = 99  # no node leads this shard
    waits = other.send_nowait("away", b"waits")
    mine = one.send_nowait("t", b"mine")
    await asyncio.wait_for(one.flush(), SECONDS)
    assert mine.done()
    await asyncio.wait_for(one.stop(), SECONDS)
    assert not waits.done()
    broker.cluster.others[1] = 1
    await asyncio.wait_for(waits, SECONDS)
    await stopped(other)


async def test_each_producer_has_a_buffer_of_its_own(broker: FakeBroker) -> None:
    full, other = await ready(broker, 2, buffer_bytes=1_000)
    broker.late_s = 0.2
    first = full.send_nowait("t", bytes(900))
    with pytest.raises(BufferFullError):
        full.send_nowait("t", bytes(900))
    await asyncio.gather(first, other.send("t", bytes(900)))
    assert full._buffer.used == other._buffer.used == 0
    await stopped(full, other)


async def test_a_common_producer_id_that_is_fenced_is_replaced_in_its_queue(broker: FakeBroker) -> None:
    one, other = await ready(broker, 2, retry_backoff_ms=200)
    broker.cluster.troubles = [BusyError("later")]
    waits = one.send_nowait("wide", b"first", queue=1)
    await until(lambda: not broker.cluster.troubles, "the broker refuses it")
    broker.cluster.troubles = [ProducerFencedError("another producer has this id")]
    with pytest.raises(ProducerFencedError):
        await one.send("wide", b"a", queue=0)
    assert (await other.send("wide", b"b", queue=0)).offset == 0
    assert (await one.send("wide", b"c", queue=0)).offset == 1
    second = one.send_nowait("wide", b"second", queue=1)
    assert [place.offset for place in await results([waits, second])] == [0, 1]
    await stopped(one, other)


async def test_sequencers_of_topics_that_are_not_used_make_room(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.client.producer.common_batches.MAX_QUEUES", 10)
    (one,) = await ready(broker, 1)
    for number in range(20):
        broker.cluster.create(f"topic-{number}", 1 if number < 10 else 4)
        assert (await one.send(f"topic-{number}", b"a")).offset == 0
    assert one._common is not None
    assert one._common._common._queues == sum(each.queues for each in one._common._common._topics.values()) <= 10
    assert (await one.send("topic-0", b"b")).offset == 1
    await stopped(one)


async def test_a_receipt_that_fails_when_its_producer_stops_hides_nothing(broker: FakeBroker) -> None:
    one, other = await ready(broker, 2)
    troubles: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context["message"]))
    broker.silent = True
    futures = [one.send_nowait("t", b"a") for _ in range(2)]
    assert one._common is not None
    first = next(iter(one._common._owed))

    def fail(error: LedgerError) -> None:
        raise OSError("no space left")

    first._inner = SimpleNamespace(failed=fail)
    stop = asyncio.create_task(one.stop())
    await asyncio.sleep(0.05)
    stop.cancel()
    await asyncio.gather(stop, return_exceptions=True)
    assert isinstance(futures[1].exception(), DeliveryTimeoutError)
    assert troubles == ["a program cannot take the result of a send"]
    assert other._common is not None
    assert other._common._common.users == 1
    futures[0].cancel()
    await other.stop()


async def test_a_burst_goes_in_batches_of_its_producer(broker: FakeBroker) -> None:
    (one,) = await ready(broker, 1)
    futures = [one.send_nowait("t", bytes(1_000)) for _ in range(MANY_BYTES // 1_000)]
    assert [place.offset for place in await results(futures)] == list(range(len(futures)))
    assert one._delivery.producer_id in ids(broker)
    assert sum(Batch(each.body).header.count for each in broker.cluster.queues[1, 0]) == len(futures)
    await stopped(one)
