"""Tests that stopping a client ends every waiting call with an error or a result, so that no call waits for ever."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Any

import pytest

import ledgermq
from ledger.client.producer.producer_batch import Acknowledged, Piece
from ledger.client.sync.loop_thread import LoopThread
from ledger.errors import ClosedError, DeliveryTimeoutError, LedgerError
from ledger.timed import WaitingMessages
from tests.ledger.client.fake_broker import FakeBroker, FakeCluster, started

pytestmark = pytest.mark.real

SECONDS = 10


async def reader(broker: FakeBroker) -> ledgermq.AsyncConsumer:
    one = ledgermq.AsyncConsumer("t", bootstrap_servers=broker.cluster.addresses[1], max_wait_ms=20)
    await one.start()
    return one


async def ended(*tasks: asyncio.Future[Any]) -> list[Any]:
    return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), SECONDS)


class Note:
    """A receipt that records its error."""

    error: LedgerError | None = None

    def acknowledged(self, queue: int, first_offset: int, count: int, answer: Acknowledged) -> None: ...

    def scheduled(self, queue: int, waiting: WaitingMessages, answer: Acknowledged) -> None:
        raise AssertionError("the messages have no delivery times")

    def failed(self, error: LedgerError) -> None:
        self.error = error


def depose(broker: FakeBroker) -> None:
    """Make node 2 the leader. No server listens at the address of node 2."""
    cluster = broker.cluster
    cluster.leader, cluster.term, cluster.addresses[2] = 2, 2, "127.0.0.1:1"


# --- producers -------------------------------------------------------------------------------------------------------


async def test_to_stop_sends_what_waits_for_room(broker: FakeBroker) -> None:
    one = await started(broker, buffer_bytes=2000)
    sends = [asyncio.create_task(one.send("t", b"%03d" % number + bytes(900))) for number in range(100)]
    await asyncio.sleep(0)
    await one.stop()
    assert [metadata.offset for metadata in await ended(*sends)] == list(range(100))


async def test_whom_a_stop_finds_waiting_for_room_that_does_not_come_is_told(broker: FakeBroker) -> None:
    one = await started(broker, buffer_bytes=2000, delivery_timeout_ms=300_000)
    await one.send("t", b"a")
    broker.silent = True
    sends = [asyncio.create_task(one.send("t", bytes(900))) for _ in range(20)]
    await asyncio.sleep(0)
    stop = asyncio.create_task(one.stop())
    await asyncio.sleep(0.05)
    stop.cancel()  # the caller gives up
    errors = await ended(stop, *sends)
    assert isinstance(errors[0], asyncio.CancelledError)
    assert all(isinstance(error, DeliveryTimeoutError) and error.maybe_committed for error in errors[1:3])
    assert all(isinstance(error, ClosedError) and "room" in error.message for error in errors[3:])
    with pytest.raises(ClosedError):
        await one.send("t", b"b")


async def test_a_stop_that_is_given_up_tells_all_who_wait(broker: FakeBroker) -> None:
    one = await started(broker, delivery_timeout_ms=300_000)
    await one.send("t", b"a")
    broker.silent = True
    futures = [one.send_nowait("t", b"b") for _ in range(2_000)]
    stop = asyncio.create_task(one.stop())
    await asyncio.sleep(0.05)
    stop.cancel()
    await ended(stop)
    assert all(isinstance(future.exception(), DeliveryTimeoutError) for future in futures)


async def test_a_send_many_that_a_stop_overtakes_ends_and_says_how_far_it_came(broker: FakeBroker) -> None:
    one = await started(broker, buffer_bytes=50_000, batch_bytes=10_000)
    sending = asyncio.create_task(one.send_many("t", [bytes(900)] * 20_000))
    await asyncio.sleep(0)
    await one.send("t", b"behind the first ones")
    await one.stop()
    [error] = await ended(sending)
    assert isinstance(error, (ClosedError, DeliveryTimeoutError))
    assert 0 < sum(part.count for part in vars(error)["acknowledged"]) < len(broker.cluster.values("t", 0))


async def test_who_waits_for_a_topic_is_told_of_the_stop(broker: FakeBroker) -> None:
    one = await started(broker, delivery_timeout_ms=100)
    depose(broker)  # without a leader, no node can say whether the topic exists
    many = asyncio.create_task(one.send_many("new", [b"a"]))
    single = asyncio.create_task(one.send("new", b"a"))
    await asyncio.sleep(0)
    await one.stop()
    assert [type(error) for error in await ended(many, single)] == [ClosedError, ClosedError]


async def test_to_give_up_a_flush_gives_up_no_message(broker: FakeBroker) -> None:
    one = await started(broker)
    depose(broker)
    sending = one.send_nowait("t", b"a")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(one.flush(), 0.05)
    broker.cluster.leader, broker.cluster.term = 1, 3
    assert (await asyncio.wait_for(sending, SECONDS)).offset == 0
    await one.stop()


async def test_a_piece_that_has_just_begun_to_wait_for_its_topic_fails(broker: FakeBroker) -> None:
    one = await started(broker)
    note = Note()
    piece = Piece([b"a"], 1, note)
    one._buffer.enter_nowait(piece.size, partial(one._queue_selection.place, "t", piece, None))
    await one._queue_selection.close()
    assert isinstance(note.error, ClosedError)
    assert one._buffer.used == 0
    await one.stop()


async def test_a_piece_that_comes_behind_the_stop_fails(broker: FakeBroker) -> None:
    one = await started(broker)
    await one.stop()
    note = Note()
    piece = Piece([b"a"], 1, note)
    one._buffer.used = piece.size
    one._sender.add(one._accumulator.sequencer(1, 0, 0), piece, False)
    assert isinstance(note.error, ClosedError)
    assert one._buffer.used == 0


async def test_calls_under_way_are_told_of_the_stop() -> None:
    asked = asyncio.Event()

    class Silent(FakeBroker):
        async def CreateTopic(self, request: Any, context: Any) -> Any:  # noqa: N802
            asked.set()
            await asyncio.Event().wait()

    broker = Silent(1, FakeCluster())
    await broker.start()
    admin = ledgermq.AsyncAdmin(broker.cluster.addresses[1])
    await admin.start()
    creating = asyncio.create_task(admin.create_topic("new"))
    await asyncio.wait_for(asked.wait(), SECONDS)
    depose(broker)
    between_attempts = asyncio.create_task(admin.list_topics())
    await asyncio.sleep(0.05)
    await admin.stop()
    assert [type(error) for error in await ended(creating, between_attempts)] == [ClosedError, ClosedError]
    await broker.stop()


# --- consumers -------------------------------------------------------------------------------------------------------


async def test_whoever_reads_ends_when_the_consumer_is_stopped(broker: FakeBroker) -> None:
    one = await reader(broker)

    async def iterate() -> str:
        async for _ in one:
            pass
        return "over"

    reading = [asyncio.ensure_future(work) for work in (iterate(), one.getmany(), one.getbatches())]
    await asyncio.sleep(0.05)
    await one.stop()
    over, many, batches = await ended(*reading)
    assert over == "over"
    assert isinstance(many, ClosedError)
    assert isinstance(batches, ClosedError)
    assert await iterate() == "over"
    with pytest.raises(ClosedError):
        await one.getmany()


async def test_a_stop_of_a_consumer_that_is_given_up_closes_everything(broker: FakeBroker) -> None:
    one, other = await reader(broker), await reader(broker)
    stop = asyncio.create_task(one.stop())
    await asyncio.sleep(0)
    stop.cancel()
    assert [type(error) for error in await ended(stop)] == [asyncio.CancelledError]
    await one.stop()
    assert one._client.link._users == 1, "the link counts a consumer that was stopped"
    await other.stop()
    assert other._client.link._users == 0


async def test_to_iterate_before_the_start_is_an_error(broker: FakeBroker) -> None:
    one = ledgermq.AsyncConsumer("t", bootstrap_servers=broker.cluster.addresses[1])
    with pytest.raises(ClosedError, match="not started"):
        await anext(aiter(one))


# --- the synchronous clients -----------------------------------------------------------------------------------------


async def test_a_thread_that_reads_ends_when_another_closes_the_consumer(broker: FakeBroker) -> None:
    def work() -> tuple[list[Any], bool]:
        one = ledgermq.Consumer("t", bootstrap_servers=broker.cluster.addresses[1], max_wait_ms=20)
        found: list[Any] = []
        begun = threading.Event()

        def read() -> None:
            begun.set()
            found.append(list(one))

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        begun.wait()
        one.close()
        thread.join(SECONDS)
        found.append(list(one))
        one.close()
        return found, thread.is_alive()

    assert await asyncio.to_thread(work) == ([[], []], False)


async def test_what_still_runs_on_the_background_loop_ends_with_it() -> None:
    def work() -> None:
        for _ in range(50):  # the last coroutine may not have started when the loop closes
            thread = LoopThread("test")
            futures = [thread.submit(asyncio.sleep(3600)) for _ in range(3)]
            closers = [threading.Thread(target=thread.close) for _ in range(2)]
            for closer in closers:
                closer.start()
            for closer in closers:
                closer.join()
            for future in futures:
                with pytest.raises(ClosedError):
                    future.result(SECONDS)
            with pytest.raises(ClosedError):
                thread.run(asyncio.sleep(0))

    await asyncio.to_thread(work)


async def test_what_is_submitted_while_another_thread_closes_always_ends() -> None:
    def work() -> int:
        ends = 0
        for _ in range(50):
            thread = LoopThread("test")

            def submit(thread: LoopThread = thread) -> None:
                nonlocal ends
                while True:
                    try:
                        thread.submit(asyncio.sleep(0)).result(SECONDS)
                    except ClosedError:
                        ends += 1
                        return

            submitter = threading.Thread(target=submit, daemon=True)
            submitter.start()
            thread.close()
            submitter.join(SECONDS)
        return ends

    assert await asyncio.to_thread(work) == 50
