"""Producers of one event loop share connections, routes, and the streams for small batches."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import ledgermq
from ledger.batch import BatchHeader
from ledger.errors import ClosedError, DeliveryTimeoutError, UnavailableError
from ledger.v1 import broker_pb2
from ledger.v1.broker_pb2_grpc import add_BrokerServicer_to_server
from tests.ledger.client.fake_broker import FakeBroker, FakeCluster, lone_broker, started, stopped

pytestmark = pytest.mark.real

SECONDS = 10
PRODUCERS = 40


async def test_batches_of_many_producers_that_are_ready_together_go_in_one_request(broker: FakeBroker) -> None:
    producers = [await started(broker) for _ in range(PRODUCERS)]
    await asyncio.gather(*(producer.send_many("t", [b"1", b"2"]) for producer in producers))
    broker.cluster.requests, broker.cluster.largest_request = 0, 0
    places = await asyncio.gather(*(producer.send_many("t", [b"3", b"4"]) for producer in producers))
    offsets = range(2 * PRODUCERS, 4 * PRODUCERS, 2)
    assert sorted(place.first_offset for (place,) in places) == list(offsets)
    assert broker.cluster.largest_request == PRODUCERS
    assert broker.cluster.requests == 1
    senders = {BatchHeader.parse(each.body).producer_id for each in broker.cluster.queues[1, 0]}
    assert len(senders) == PRODUCERS, "each producer has its own sequence"
    await stopped(*producers)


async def test_the_last_producer_closes_the_link(broker: FakeBroker) -> None:
    first, second = await started(broker), await started(broker)
    link = first._client.link
    assert second._client.link is link
    await first.stop()
    assert (await second.send("t", b"after the stop of the first")).offset == 0
    await second.stop()
    third, fourth = await started(broker), await started(broker)
    assert third._client.link is not link
    assert third._client.link is fourth._client.link
    await stopped(third, fourth)


@pytest.mark.parametrize(
    "settings",
    [{"client_id": "other"}, {"user": "ann", "password": "secret", "tls": False}, {"request_timeout_ms": 1_500}],
)
async def test_producers_that_reach_the_cluster_in_another_way_share_nothing(
    broker: FakeBroker, settings: dict[str, Any]
) -> None:
    first = await started(broker)
    other = ledgermq.AsyncProducer(broker.cluster.addresses[1], **settings)
    assert other._client.link_key != first._client.link_key
    await first.stop()


async def test_producers_with_equal_security_can_share(broker: FakeBroker) -> None:
    def key() -> object:
        address = broker.cluster.addresses[1]
        return ledgermq.AsyncProducer(address, user="ann", password="secret", tls=False)._client.link_key

    assert key() == key()


def test_producers_of_two_event_loops_share_nothing() -> None:
    async def link_of_a_loop() -> object:
        async with lone_broker() as broker:
            producer = await started(broker)
            await producer.send("t", b"x")
            await producer.stop()
            return producer._client.link

    assert asyncio.run(link_of_a_loop()) is not asyncio.run(link_of_a_loop())


async def test_a_producer_that_stops_takes_back_only_its_own_batches(broker: FakeBroker) -> None:
    """The node answers none of the batches, of which some wait at the client. The producer that stops learns that its
    message may be in the log; the other producer gets its answer later."""
    leaving, staying = await started(broker, delivery_timeout_ms=200), await started(broker)
    await leaving.send("t", b"first")
    broker.late_s = 1.0
    lost, kept = leaving.send_nowait("t", b"lost"), staying.send_nowait("t", b"kept")
    await asyncio.wait_for(leaving.stop(), SECONDS)
    with pytest.raises(DeliveryTimeoutError) as error:
        await lost
    assert error.value.maybe_committed
    assert not kept.done()
    assert (await asyncio.wait_for(kept, SECONDS)).queue == 0
    await staying.stop()


async def test_a_broken_stream_is_told_to_all_its_producers(broker: FakeBroker) -> None:
    producers = [await started(broker, retry_backoff_ms=1) for _ in range(3)]
    await asyncio.gather(*(producer.send("t", b"first") for producer in producers))
    broker.cluster.troubles.append("lose")
    places = await asyncio.gather(*(producer.send("t", b"second") for producer in producers))
    assert sorted(place.offset for place in places) == [3, 4, 5], "no message was lost or is there twice"
    await stopped(*producers)


async def test_small_and_large_batches_of_a_queue_keep_their_order(broker: FakeBroker) -> None:
    """Large batches have a stream of their own. A queue changes the stream only when nothing is in flight: otherwise
    the node would get a batch before the one with the previous sequence number, and refuse it."""
    refused: list[bytes] = []

    def append(body: bytes) -> broker_pb2.ProduceResult:
        result = append_of_cluster(body)
        refused.extend([body] if result.HasField("error") else [])
        return result

    append_of_cluster, broker.cluster.append = broker.cluster.append, append  # type: ignore[method-assign]
    producer = await started(broker, batch_bytes=4_000, linger_ms=0)
    values = [b"%03d" % number + bytes(6_000 if number % 3 else 10) for number in range(60)]
    broker.late_large_s = 0.005
    sends = []
    for place, value in enumerate(values):
        sends.append(producer.send_nowait("t", value, key=b"k"))
        if place % 20 == 0:
            await asyncio.gather(*sends)
        elif place % 4 == 0:
            await asyncio.sleep(0.001)
    await asyncio.gather(*sends)
    assert broker.cluster.values("t", 0) == values
    assert refused == []
    assert producer._sender._shared_streams.all()
    assert producer._sender._bulk_streams.all()
    await producer.stop()


async def test_a_start_that_fails_does_not_stop_a_later_start() -> None:
    cluster = FakeCluster()
    cluster.create("t", 1)
    broker = FakeBroker(1, cluster)
    await broker.start()
    await broker.stop()
    failures = await asyncio.gather(*(started(broker) for _ in range(3)), return_exceptions=True)
    assert [type(failure) for failure in failures] == [UnavailableError] * 3
    again = FakeBroker(1, cluster)
    add_BrokerServicer_to_server(again, again._server)
    again._server.add_insecure_port(cluster.addresses[1])
    await again._server.start()
    producer = await started(again)
    assert (await producer.send("t", b"x")).offset == 0
    await producer.stop()
    await again.stop()


async def test_a_start_that_is_cancelled_leaves_the_start_of_the_others(broker: FakeBroker) -> None:
    broker.route_late_s = 0.3
    cancelled, other = asyncio.create_task(started(broker)), asyncio.create_task(started(broker))
    await asyncio.sleep(0.05)
    cancelled.cancel()
    producer = await asyncio.wait_for(other, SECONDS)
    assert cancelled.cancelled()
    assert (await producer.send("t", b"x")).offset == 0
    await producer.stop()


async def test_a_call_of_a_stopped_producer_ends_and_those_of_others_go_on(broker: FakeBroker) -> None:
    """The calls are with gRPC, which has its own way to end them. The task of the program is not cancelled."""
    broker.route_late_s = 0.4
    request = broker_pb2.GetRouteRequest()
    stopping, other = await started(broker), await started(broker)

    async def call(producer: ledgermq.AsyncProducer) -> Any:
        async with asyncio.timeout(SECONDS):
            return await producer._client.ask(
                broker.cluster.addresses[1], lambda stub, seconds: stub.GetRoute(request, timeout=seconds), SECONDS
            )

    ended, going = asyncio.create_task(call(stopping)), asyncio.create_task(call(other))
    await asyncio.sleep(0.05)
    await stopping.stop()
    with pytest.raises(ClosedError):
        await ended
    assert ended.cancelling() == 0
    assert (await going).cluster == "fake"
    await other.stop()


async def test_a_program_can_cancel_a_call_on_a_shared_link(broker: FakeBroker) -> None:
    first, second = await started(broker), await started(broker)

    async def hang(*_: object) -> Any:
        await asyncio.sleep(SECONDS)

    task = asyncio.create_task(first._client.ask(broker.cluster.addresses[1], hang, SECONDS))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await stopped(first, second)


async def test_a_producer_that_cannot_take_its_results_takes_none_from_others(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, the disk of its history is full."""
    troubles: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context["message"]))
    faulty, other = await started(broker), await started(broker)

    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(faulty._sender, "_take_back", fail)
    lost = asyncio.create_task(faulty.send_many("t", [b"lost", b"lost"]))
    kept = asyncio.create_task(other.send_many("t", [b"kept", b"kept"]))
    assert (await asyncio.wait_for(kept, SECONDS))[0].queue == 0
    assert not lost.done()
    assert troubles == ["a producer cannot take results"]
    monkeypatch.undo()
    lost.cancel()
    faulty._sender._accumulator.abandon()
    await stopped(faulty, other)


async def test_a_producer_that_stops_early_says_nothing_about_the_leader(broker: FakeBroker) -> None:
    """Its messages are given up. The routes that it shares stay as they are."""
    leaving, staying = await started(broker, delivery_timeout_ms=1_000), await started(broker)
    await leaving.send("t", b"first")
    broker.late_s = 1.5
    lost = leaving.send_nowait("t", b"lost")
    await leaving.stop()
    with pytest.raises(DeliveryTimeoutError):
        await lost
    assert staying._client.routes.table.leader_address(0) == broker.cluster.addresses[1]
    await staying.stop()


async def test_a_new_producer_has_new_routes(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that deletes a topic and creates it again makes a new producer for it."""
    monkeypatch.setattr("ledger.client.connection.cluster_link.FRESH_S", 0)
    first = await started(broker)
    broker.applied.append(broker.cluster.create("later", 3))
    second = await started(broker)
    assert "later" in second._client.routes.table.topics
    await stopped(first, second)


async def test_a_stopped_producer_leaves_nothing_behind(broker: FakeBroker) -> None:
    staying = await started(broker)
    routes = staying._client.routes
    before = len(routes.on_leader_change), len(routes.on_topic_change)
    for _ in range(3):
        producer = await started(broker)
        await producer.send("t", b"x")
        await producer.stop()
    assert (len(routes.on_leader_change), len(routes.on_topic_change)) == before
    await staying.stop()
