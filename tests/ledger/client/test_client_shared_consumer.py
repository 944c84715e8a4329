"""A consumer of a shared group without a cluster: what it hands out, and what it acknowledges later."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.client.connection.backoff import Backoff
from ledger.client.connection.route_table import RouteTable
from ledger.client.shared.shard_link import Ask, ReceivedBatches, ShardLink
from ledger.client.shared.shared_consumer import AsyncSharedConsumer
from ledger.client.shared.shared_message import (
    ACKNOWLEDGE,
    GIVE_BACK,
    PUT_OFF,
    MessageLease,
    SentChange,
    SharedMessage,
    changes_of,
)
from ledger.errors import (
    ClosedError,
    InternalError,
    InvalidArgumentError,
    NoLeaderError,
    RequestTimeoutError,
    UnavailableError,
)
from ledger.v1.consumer_group_pb2 import ShareOpening


def message(offset: int, value: bytes = b"1") -> SharedMessage[bytes]:
    made: SharedMessage[bytes] = SharedMessage("orders", 0, offset, 0, 0, None, value, None, (), 0)
    made.lease = MessageLease(0, 1, 0, offset, 7, 0)
    made.asked_s = asyncio.get_running_loop().time()
    made.ends_s = made.asked_s + 1_000
    return made


class Consumer(AsyncSharedConsumer[Any]):
    """A consumer whose receives get what the test says, or raise an error."""

    def __init__(self, *receives: Sequence[SharedMessage[Any]] | BaseException) -> None:
        super().__init__("orders", group="work", bootstrap_servers="n1:1")
        self.receives = list(receives)
        self.acknowledged: list[list[int]] = []

    async def _receive(self, *_: Any, ack: Any = (), **__: Any) -> list[SharedMessage[Any]]:
        self.acknowledged.append([each.offset for each in ack])
        self._keeper.drop(ack)
        result = self.receives.pop(0)
        if isinstance(result, BaseException):
            raise result
        return list(result)

    async def ack(self, messages: Any) -> int:
        self.acknowledged.append([messages.offset])
        return 1


class Listener:
    """An object whose calls are coroutines."""

    def __init__(self) -> None:
        self.heard: list[int] = []

    async def __call__(self, message: SharedMessage[Any]) -> None:
        await asyncio.sleep(0)
        self.heard.append(message.offset)


@pytest.mark.parametrize("error", [UnavailableError("no leader"), ValueError("no JSON"), asyncio.CancelledError()])
async def test_what_an_iteration_has_finished_is_acknowledged_after_a_failed_receive(error: BaseException) -> None:
    consumer = Consumer([message(1)], error, [message(2)])
    assert (await anext(consumer)).offset == 1
    with pytest.raises(type(error)):
        await anext(consumer)
    assert (await anext(consumer)).offset == 2
    assert consumer.acknowledged == [[], [1], [1]]


async def test_what_an_iteration_has_finished_is_acknowledged_when_the_consumer_stops() -> None:
    consumer = Consumer([message(1)])
    await anext(consumer)

    async def ending(*_: Any, **__: Any) -> list[SharedMessage[Any]]:
        consumer.stop_reading()
        raise ClosedError("told to stop")

    consumer._receive = ending  # type: ignore[method-assign]
    with pytest.raises(StopAsyncIteration):
        await anext(consumer)
    assert [each.offset for each in consumer._finished] == [1]


async def test_a_value_that_cannot_be_deserialized_holds_back_no_other_message() -> None:
    consumer = AsyncSharedConsumer[Any]("orders", group="work", bootstrap_servers="n1:1", deserializer=json.loads)
    consumer._receives.surplus.extend(message(offset, b"?" if offset == 2 else b"%d" % offset) for offset in range(4))
    assert [each.value for each in consumer._receives.taken(10)] == [0, 1]
    with pytest.raises(ValueError, match="Expecting value"):
        consumer._receives.taken(10)
    assert [each.value for each in consumer._receives.taken(10)] == [3]


async def test_messages_whose_lease_has_ended_are_not_handed_out() -> None:
    consumer = AsyncSharedConsumer[Any]("orders", group="work", bootstrap_servers="n1:1")
    consumer._receives.surplus.extend(message(offset) for offset in range(2))
    consumer._receives.surplus[0].ends_s = asyncio.get_running_loop().time() - 0.001
    assert [each.offset for each in consumer._receives.taken(10)] == [1]


async def test_an_iteration_leaves_out_messages_whose_lease_has_ended() -> None:
    """The program has blocked the event loop, so the leases were not extended."""
    consumer = Consumer([message(offset) for offset in range(4)], [message(4)])
    assert (await anext(consumer)).offset == 0
    late = [each for each in consumer._ahead if each.offset in (1, 3)]
    for each in late:
        each.ends_s = asyncio.get_running_loop().time() - 0.001
    assert [(await anext(consumer)).offset for _ in range(2)] == [2, 4]
    assert not any(each in consumer._keeper for each in late), "their leases are still extended"
    assert consumer.acknowledged == [[], [0, 2]]


async def test_a_lease_that_cannot_be_extended_after_its_end_is_not_extended_again() -> None:
    """The first message belongs to another member. The lease of the second has not ended, and that of the third is
    extended."""
    consumer = Consumer()
    kept = [message(offset) for offset in (1, 3, 5)]
    now_s = asyncio.get_running_loop().time()
    kept[0].ends_s = kept[2].ends_s = now_s - 0.001
    consumer._keeper.keep(kept)

    async def sent_to(shard: int, leases: list[MessageLease], kind: int, duration_ms: int) -> list[SentChange]:
        return [SentChange(shard, each, int(each.first == 5)) for each in changes_of(leases, kind, duration_ms)]

    consumer._links.change = sent_to  # type: ignore[method-assign]
    assert await consumer._extend_again(kept) == 1
    assert [each in consumer._keeper for each in kept] == [False, True, True]
    assert kept[2].ends_s > now_s


async def test_an_iteration_of_a_consumer_that_was_not_started_says_so() -> None:
    consumer = AsyncSharedConsumer[Any]("orders", group="work", bootstrap_servers="n1:1")
    with pytest.raises(ClosedError):
        await anext(consumer)


async def test_an_object_with_a_coroutine_method_is_a_listener() -> None:
    consumer, listener = Consumer([message(1)], UnavailableError("no leader")), Listener()
    with pytest.raises(UnavailableError):  # the second receive comes after the first call
        await consumer.consume(listener)
    assert listener.heard == [1]
    assert consumer.acknowledged == [[], [1], []]


class Started(Consumer):
    """A consumer that counts as started. When its receives are used up, it waits until it is told to stop, and then
    receives the messages `late`."""

    def __init__(self, *receives: Sequence[SharedMessage[Any]], late: Sequence[SharedMessage[Any]] = ()) -> None:
        super().__init__(*receives)
        self._client.started = True
        self._client.link = SimpleNamespace(leave=lambda: asyncio.sleep(0))  # type: ignore[assignment]
        self.late = late
        self.given_back: list[int] = []
        self._told = asyncio.Event()

    async def _receive(self, *given: Any, **settings: Any) -> list[SharedMessage[Any]]:
        if self.receives:
            return await super()._receive(*given, **settings)
        await self._told.wait()
        return list(self.late)

    def stop_reading(self) -> None:
        super().stop_reading()
        self._told.set()

    async def ack(self, messages: Any) -> int:
        self._client.check_open()
        return await super().ack(messages)

    async def _send(self, messages: Sequence[SharedMessage[Any]], kind: int, duration_ms: int = 0) -> int:
        if kind == GIVE_BACK:
            self.given_back += [each.offset for each in messages]
        return len(messages)


class Slow:
    """A listener whose calls end when the test says so, and that counts its calls."""

    def __init__(self, calls: int) -> None:
        self.all_called, self.may_end = asyncio.Event(), asyncio.Event()
        self.calls, self.ended = calls, 0

    async def __call__(self, message: SharedMessage[Any]) -> None:
        self.calls -= 1
        if not self.calls:
            self.all_called.set()
        try:
            await self.may_end.wait()
        finally:
            self.ended += 1


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_stop_waits_for_calls_of_listeners_and_then_consuming_ends() -> None:
    consumer, listener = Started([message(1), message(2)], late=[message(3)]), Slow(2)
    consuming = asyncio.create_task(consumer.consume(listener, concurrency=4))
    await listener.all_called.wait()
    stops = [asyncio.create_task(consumer.stop()) for _ in range(2)]
    await turns()
    assert not any(stop.done() for stop in stops)
    assert consumer._client.started
    listener.may_end.set()
    await asyncio.gather(consuming, *stops)
    assert consumer.closed
    assert consumer.acknowledged == [[], [1], [2]]
    assert consumer.given_back == [3], "a message that arrived during the stop went to the listener, or was kept"


async def test_calls_that_take_too_long_are_cancelled_by_a_stop() -> None:
    consumer, listener = Started([message(1), message(2)]), Slow(2)
    consuming = asyncio.create_task(consumer.consume(listener, concurrency=4))
    await listener.all_called.wait()
    await consumer.stop(timeout_s=0.01)
    assert listener.ended == 2
    await consuming
    assert consumer.acknowledged == [[]]


async def test_a_stop_that_is_given_up_cancels_calls_and_closes_the_consumer() -> None:
    consumer, listener = Started([message(1)]), Slow(1)
    consuming = asyncio.create_task(consumer.consume(listener, concurrency=2))
    await listener.all_called.wait()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(consumer.stop(), 0.01)
    assert listener.ended == 1
    assert consumer.closed
    await consuming


async def test_a_listener_can_stop_the_consumer() -> None:
    """The stop does not wait for this listener. Its message is handed out again."""
    consumer = Started([message(1)])

    async def listener(_: SharedMessage[Any]) -> None:
        await consumer.stop()

    await asyncio.wait_for(consumer.consume(listener), 5)
    assert consumer.closed
    assert consumer.acknowledged == [[]]


async def test_an_error_of_a_receive_ends_consuming_with_this_error() -> None:
    with pytest.raises(UnavailableError, match="no leader"):
        await Consumer(UnavailableError("no leader")).consume(lambda _: None)


async def test_consuming_without_a_start_says_so() -> None:
    consumer = AsyncSharedConsumer[Any]("orders", group="work", bootstrap_servers="n1:1")
    with pytest.raises(ClosedError, match="not started"):
        await consumer.consume(lambda _: None)


@pytest.mark.parametrize("wrong", [{"listener": None}, {"retry_delay_ms": -1}, {"retry_delay_ms": 1.5}])
async def test_consuming_with_a_wrong_argument_is_refused_before_a_message_is_taken(wrong: dict[str, Any]) -> None:
    consumer = Consumer([message(1)])
    with pytest.raises(InvalidArgumentError, match="|".join(wrong)):
        await consumer.consume(**{"listener": print, **wrong})
    assert len(consumer.receives) == 1


async def test_an_extension_at_one_shard_counts_although_another_shard_has_no_leader() -> None:
    consumer = Consumer()
    here, there = message(1), message(2)
    there.lease = there.lease._replace(shard=1)
    before = here.ends_s = there.ends_s = asyncio.get_running_loop().time() + 1

    async def sent_to(shard: int, leases: list[MessageLease], kind: int, duration_ms: int) -> list[SentChange]:
        if shard == 1:
            raise UnavailableError("no leader")
        return [SentChange(shard, change, change.size) for change in changes_of(leases, kind, duration_ms)]

    consumer._links.change = sent_to  # type: ignore[method-assign]
    with pytest.raises(UnavailableError):
        await consumer._extend([here, there], 30_000)
    assert here.ends_s > before
    assert there.ends_s == before


async def test_plain_listeners_run_as_many_at_a_time_as_was_asked_for() -> None:
    calls = 64  # more than the threads that an event loop has by itself
    together = threading.Barrier(calls, timeout=30)
    consumer = Started([message(offset) for offset in range(calls)])
    consuming = asyncio.create_task(consumer.consume(lambda _: together.wait() and None, concurrency=calls))
    async with asyncio.timeout(60):
        while len(consumer.acknowledged) <= calls:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert not together.broken
    consumer.stop_reading()
    await consumer.stop()
    await consuming


async def test_a_consumer_whose_leases_are_not_extended_any_more_hands_out_no_messages(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The task that extends leases fails because of a defect."""

    async def nothing(*_: Any) -> None: ...

    async def fails() -> None:
        raise KeyError("a defect")

    consumer = AsyncSharedConsumer[Any]("orders", group="work", bootstrap_servers="n1:1")
    for owner, names in ((consumer._client, ("start", "topic")), (consumer._links, ("open",))):
        for name in names:
            monkeypatch.setattr(owner, name, nothing)
    monkeypatch.setattr("ledger.client.shared.shared_consumer.prepare_retries", nothing)
    consumer._keeper.run = fails  # type: ignore[method-assign]
    await consumer.start()
    consumer._client.started = True
    await turns()
    for call in (consumer.receive, consumer.__anext__, lambda: consumer.consume(nothing)):
        with pytest.raises(InternalError, match="leases of shared group work"):
            await call()
    assert "Traceback" in caplog.text


class Changes:
    """Stands for the changes at the leaders. Those in the shards of `without_leader` fail."""

    def __init__(self, consumer: AsyncSharedConsumer[Any], *without_leader: int) -> None:
        self.made: list[tuple[int, int]] = []
        self._without_leader = without_leader
        consumer._links.change = self._change  # type: ignore[method-assign]

    async def _change(self, shard: int, leases: list[MessageLease], kind: int, duration_ms: int) -> list[SentChange]:
        if shard in self._without_leader:
            raise UnavailableError("no leader")
        await asyncio.sleep(0.01)
        self.made += [(kind, lease.offset) for lease in leases]
        return []


def in_shard(shard: int, offset: int) -> SharedMessage[bytes]:
    made = message(offset)
    made.lease = made.lease._replace(shard=shard)
    return made


async def test_a_shard_without_a_leader_keeps_no_message_of_other_shards_leased_at_a_stop() -> None:
    consumer = AsyncSharedConsumer[Any]("orders", group="work", bootstrap_servers="n1:1")
    changes = Changes(consumer, 0)
    consumer._finished = [in_shard(0, 1), in_shard(1, 2)]
    consumer._ahead.extend(in_shard(shard, 3 + shard) for shard in range(2))
    consumer._receives.surplus.append(in_shard(2, 5))
    consumer._keeper.keep([*consumer._ahead])
    unread = [*consumer._ahead]
    await consumer._give_back()
    assert sorted(changes.made) == [(ACKNOWLEDGE, 2), (GIVE_BACK, 4), (GIVE_BACK, 5)]
    assert not any(each in consumer._keeper for each in unread)


class Link:
    """A link to a shard whose receives fail without an answer when they are taken back, or when the test says so."""

    def __init__(self, shard: int = 0, *, hangs: bool = False) -> None:
        self.shard, self.hangs = shard, hangs
        self.fails = asyncio.Event()

    async def receive(self, ask: Ask, wanted: object, changes: Sequence[Any] = ()) -> ReceivedBatches:
        ask.is_settled = not changes
        while self.hangs or not ask.is_cancelled:
            if self.fails.is_set():
                raise UnavailableError("no leader")
            await asyncio.sleep(0)
        ask.is_answered = True
        return ReceivedBatches()


def member(*links: Link) -> tuple[AsyncSharedConsumer[Any], Changes]:
    consumer = AsyncSharedConsumer[Any]("orders", group="work", bootstrap_servers="n1:1")
    consumer._client.started = True
    consumer._client.link = SimpleNamespace(leave=lambda: asyncio.sleep(0))  # type: ignore[assignment]

    async def current() -> list[Any]:
        return list(links)

    consumer._links.current = current  # type: ignore[method-assign]
    return consumer, Changes(consumer)


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_stop_acknowledges_what_rode_on_a_receive_without_an_answer(
    hangs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The iteration has finished a message, and its acknowledgement went with the next receive."""
    monkeypatch.setattr("ledger.client.shared.shared_consumer._STOP_S", 0.01)
    consumer, changes = member(Link(hangs=hangs))
    consumer._in_hand = message(1)
    consumer._keeper.keep([consumer._in_hand])
    reading = asyncio.create_task(anext(consumer))
    await turns()
    assert not reading.done()
    await consumer.stop()
    with pytest.raises(StopAsyncIteration):
        await reading
    assert changes.made == [(ACKNOWLEDGE, 1)]


async def lost_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> tuple[AsyncSharedConsumer[Any], Changes]:
    """Return a member whose receive has returned, and whose acknowledgement of message 1 has failed after that."""
    monkeypatch.setattr("ledger.client.shared.receives._LATE_S", 0.01)
    late = Link(1, hangs=True)
    consumer, changes = member(Link(0), late)
    assert await consumer.receive(max_wait_ms=0, ack=[in_shard(1, 1)]) == []
    late.fails.set()
    await turns()
    return consumer, changes


async def test_an_acknowledgement_that_fails_after_its_receive_is_told_and_made_at_the_stop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    consumer, changes = await lost_acknowledgement(monkeypatch)
    assert "acknowledgements of 1 messages have no answer" in caplog.text
    await consumer.stop()
    assert changes.made == [(ACKNOWLEDGE, 1)]


async def test_a_message_that_the_program_has_given_up_since_is_not_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer, changes = await lost_acknowledgement(monkeypatch)
    await consumer.nack(in_shard(1, 1))
    await consumer.stop()
    assert changes.made == [(PUT_OFF, 1)]


async def test_a_message_that_the_program_acknowledges_once_more_is_not_acknowledged_again_at_the_stop() -> None:
    link = Link(hangs=True)
    consumer, changes = member(link)
    link.fails.set()
    with pytest.raises(UnavailableError):
        await consumer.receive(max_wait_ms=0, ack=[message(1)])

    async def answer(ask: Ask, *_: object) -> ReceivedBatches:
        ask.is_settled = ask.is_answered = True
        return ReceivedBatches()

    link.receive = answer  # type: ignore[method-assign, assignment]
    await consumer.receive(max_wait_ms=0, ack=[message(1)])
    await consumer.stop()
    assert changes.made == []


async def test_a_limited_number_of_messages_without_an_answer_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.client.shared.receives._MAX_UNANSWERED", 2)
    link = Link(hangs=True)
    consumer, changes = member(link)
    link.fails.set()
    for offset in range(4):
        with pytest.raises(UnavailableError):
            await consumer.receive(max_wait_ms=0, ack=[message(offset)])
    assert [each.offset for each in consumer._receives.unanswered] == [2, 3]
    await consumer.stop()
    assert sorted(changes.made) == [(ACKNOWLEDGE, 2), (ACKNOWLEDGE, 3)]


def without_leaders(monkeypatch: pytest.MonkeyPatch, shards: int, *others: Link) -> AsyncSharedConsumer[Any]:
    """Return a member whose shards have no leaders. It repeats requests for 30 s. A receive waits only a little longer
    than its program says."""
    for name in ("receives._LATE_S", "shared_consumer._ELECTION_S"):
        monkeypatch.setattr(f"ledger.client.shared.{name}", 0.02)
    links: list[Any] = []
    consumer, _ = member(*links)
    client: Any = consumer._client
    client.routes = SimpleNamespace(table=RouteTable(("n1:1",)), refresh_soon=lambda: None, note=lambda *_: None)
    client.link.backoff = Backoff(1, 1, random.Random(1))
    links += [ShardLink(consumer._client, shard, lambda _: ShareOpening()) for shard in range(shards)]

    async def current() -> list[Any]:
        return [*links, *others]

    consumer._links.current = current  # type: ignore[method-assign]
    return consumer


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("max_wait_ms", [0, 30])
async def test_a_receive_ends_with_an_error_soon_after_its_wait_if_no_leader_answers(
    shards: int, max_wait_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = without_leaders(monkeypatch, shards)
    async with asyncio.timeout(10):
        with pytest.raises(NoLeaderError, match="No node is known to lead shard"):
            await consumer.receive(max_wait_ms=max_wait_ms)
    await consumer._receives.close()


async def test_a_receive_outlasts_an_election(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = without_leaders(monkeypatch, 1)
    monkeypatch.setattr("ledger.client.shared.shared_consumer._ELECTION_S", 600)
    receiving = asyncio.create_task(consumer.receive(max_wait_ms=0))
    await asyncio.sleep(0.2)
    assert not receiving.done()
    receiving.cancel()
    await asyncio.gather(receiving, return_exceptions=True)


async def test_a_shard_that_has_no_messages_makes_a_receive_end_without_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer = without_leaders(monkeypatch, 1, Link(7))
    for _ in range(2):  # each shard is the first once
        assert await consumer.receive(max_wait_ms=0) == []


async def test_a_leader_that_is_silent_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = without_leaders(monkeypatch, 0, Link(hangs=True))
    with pytest.raises(RequestTimeoutError, match="No leader answered this receive within"):
        await consumer.receive(max_wait_ms=0)
    await consumer._receives.close()


async def test_an_acknowledgement_goes_on_after_the_receive_that_carried_it(monkeypatch: pytest.MonkeyPatch) -> None:
    link = Link()
    consumer = without_leaders(monkeypatch, 0, link)
    held = message(1)

    async def receive(ask: Ask, wanted: object, changes: Sequence[Any] = ()) -> ReceivedBatches:
        await link.fails.wait()
        ask.is_settled = not ask.is_cancelled
        return ReceivedBatches()

    link.receive = receive  # type: ignore[method-assign]
    with pytest.raises(RequestTimeoutError):
        await consumer.receive(max_wait_ms=0, ack=held)
    link.fails.set()
    await consumer._receives.wait_ended(10)
    assert not consumer._receives.unanswered


async def test_an_iteration_waits_for_a_leader_as_long_as_requests_are_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer = without_leaders(monkeypatch, 1)
    reading = asyncio.create_task(anext(consumer))
    await asyncio.sleep(0.2)
    assert not reading.done()
    await consumer.stop()
    with pytest.raises(StopAsyncIteration):
        await reading
