"""A receive of several shards: a shard that does not answer holds up no other, and is not passed over in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from chaos.sim.engine.loop import SimLoop
from ledger.client.shared.shard_link import Ask, ReceivedBatches
from ledger.errors import LedgerError, NoLeaderError, RequestTimeoutError
from ledger.rocketmq.filters import FrontFilter
from ledger.rocketmq.members import FrontMember
from ledger.rocketmq.receiving import FrontReceiving
from ledger.v1 import consumer_group_pb2

UNUSED = cast(Any, SimpleNamespace())
NEVER_S = 1e9


class Message(NamedTuple):
    lease: str


class Shard:
    """A link to a shard, as ShardLink: it looks for the leader for 10 s, and the leader holds back an empty answer."""

    def __init__(
        self, *, leads_from_s: float = 0.0, leads_until_s: float = NEVER_S, message_s: float = NEVER_S
    ) -> None:
        self.leads_from_s = leads_from_s
        self.leads_until_s = leads_until_s
        # When it gets its only message.
        self.message_s = message_s
        # When it was asked, and for which wait in ms.
        self.asked: list[tuple[float, int]] = []

    async def receive(self, ask: Ask, wanted: consumer_group_pb2.Receive) -> ReceivedBatches:
        loop = asyncio.get_running_loop()
        self.asked.append((loop.time(), wanted.max_wait_ms))
        gives_up_s = loop.time() + wanted.max_wait_ms / 1000 + 10
        while not self.leads_from_s <= loop.time() < self.leads_until_s:
            if ask.is_cancelled:
                return ReceivedBatches()
            if loop.time() >= gives_up_s:
                raise NoLeaderError("no node leads this shard")
            await asyncio.sleep(0.1)
        ends_s = loop.time() + wanted.max_wait_ms / 1000
        while loop.time() < min(ends_s, self.message_s) and not ask.is_cancelled:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        batches: Sequence[Any] = ()
        if loop.time() >= self.message_s:
            batches, self.message_s = ([Message(f"got at {self.message_s} s")],), NEVER_S
        return ReceivedBatches(batches, loop.time() + 30)

    async def close(self) -> None:
        pass


class Consumer:
    """A consumer that receives once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *shards: Shard) -> None:
        monkeypatch.setattr("ledger.rocketmq.receiving.leased_messages", lambda shard, name, batch, *_, **__: batch)
        self.given_back: list[str] = []
        self.loop = SimLoop()
        leases: Any = SimpleNamespace(give_back=lambda clients, group, lease: self.given_back.append(lease))
        topic: Any = SimpleNamespace(topic_id=5, name="orders")
        self.member = FrontMember(UNUSED, "consumer", "work", topic, FrontFilter())
        self.member._links = cast(Any, dict(enumerate(shards)))
        self.receiving = FrontReceiving(UNUSED, leases, lambda: 0, self.loop.time, lambda: 1)
        self.took_s = 0.0

    async def received(self, poll_s: float = 20.0, patience_s: float = 2.5) -> list[Any]:
        wanted: Any = SimpleNamespace(
            shards=[*self.member._links],
            topic=self.member.topic,
            group="work",
            messages=32,
            invisible_ms=30_000,
            poll_ms=round(poll_s * 1000),
            patience_ms=round(patience_s * 1000),
            attempt_id=9,
            is_repeatable=False,
        )
        try:
            return list(await self.receiving._lease(self.member, wanted, UNUSED))
        finally:
            self.took_s = self.loop.time()

    def receive(self, poll_s: float = 20.0) -> list[str]:
        """Return what one receive gets. The client gives up about 3 s after the time of the receive."""
        messages = self.loop.run_until_complete(self.received(poll_s))
        self.loop.run_until(self.loop.time() + 30)
        return [message.lease for message in messages]


@pytest.mark.parametrize("leaderless", [0, 1])
@pytest.mark.parametrize("message_s", [0.0, 3.0, 6.0, 9.5, 19.0])
def test_a_shard_without_a_leader_holds_up_no_message_of_another(
    leaderless: int, message_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = [Shard(message_s=message_s), Shard(message_s=message_s)]
    shards[leaderless] = Shard(leads_from_s=NEVER_S)
    consumer = Consumer(monkeypatch, *shards)
    assert consumer.receive() == [f"got at {message_s} s"]
    assert consumer.took_s <= message_s + 0.7


def test_a_message_of_a_shard_that_has_a_new_leader_is_received(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Consumer(monkeypatch, Shard(), Shard(leads_from_s=7.0, message_s=0.0))
    assert consumer.receive() == ["got at 0.0 s"]
    assert consumer.took_s <= 7.2


def test_a_consumer_is_not_told_that_there_is_no_message_while_a_shard_cannot_be_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for poll_s, error in [(20.0, NoLeaderError), (5.0, RequestTimeoutError)]:
        consumer = Consumer(monkeypatch, Shard(), Shard(leads_from_s=NEVER_S), Shard())
        with pytest.raises(error):
            consumer.receive(poll_s)
        assert poll_s <= consumer.took_s <= poll_s + 2.5, "the client still waits for the answer"


def test_a_shard_that_elects_a_leader_shortly_after_the_end_of_a_receive_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer = Consumer(monkeypatch, Shard(), Shard(leads_from_s=6.5))
    assert consumer.receive(5.0) == []
    assert consumer.took_s <= 6.7


def test_a_shard_that_has_answered_and_then_lost_its_leader_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Consumer(monkeypatch, Shard(), Shard(leads_until_s=3.0))
    assert consumer.receive(5.0) == []
    assert consumer.took_s <= 5.6


def test_a_shard_that_is_asked_late_answers_at_the_end_of_the_receive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its leader would hold back the answer for 4 s, and the client would give up before."""
    consumer = Consumer(monkeypatch, Shard(), Shard(leads_from_s=4.5))
    assert consumer.receive(5.0) == []
    assert consumer.took_s <= 5.7


@pytest.mark.parametrize("count", [1, 3])
def test_a_receive_fails_when_no_shard_can_be_asked(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Consumer(monkeypatch, *(Shard(leads_from_s=NEVER_S) for _ in range(count)))
    with pytest.raises(LedgerError, match="no node leads"):
        consumer.receive(20.0)
    assert consumer.took_s <= 15.0


def test_the_first_shard_is_asked_alone_and_all_others_as_often_as_they_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    shards = [Shard(), Shard()]
    assert Consumer(monkeypatch, *shards).receive(10.0) == []
    assert [wait_ms for _, wait_ms in shards[0].asked[:3]] == [0, 4_000, 4_000]
    for shard in shards:
        ((_, before), (_, last)) = shard.asked[-2:]
        assert (before, last < 2_001) == (4_000, True), "the last request ends with the receive"
        assert len(shard.asked) <= 5
    alone = Shard(message_s=0.0), Shard(message_s=0.0)
    assert len(Consumer(monkeypatch, *alone).receive()) == 1
    assert alone[1].asked == []


def test_messages_that_come_too_late_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Consumer(monkeypatch, Shard(message_s=2.0), Shard(message_s=2.0), Shard(message_s=2.1))
    assert consumer.receive() == ["got at 2.0 s"]
    assert consumer.given_back == ["got at 2.0 s", "got at 2.1 s"]


def test_messages_of_a_client_that_hangs_up_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Consumer(monkeypatch, Shard(message_s=2.0), Shard())
    loop = consumer.loop
    hanging = loop.create_task(consumer.received())
    loop.call_later(1.95, hanging.cancel)
    loop.run_until(30.0)
    assert hanging.cancelled()
    assert consumer.given_back == ["got at 2.0 s"]


def test_a_receive_of_a_member_that_ends_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Consumer(monkeypatch, Shard(), Shard(leads_from_s=NEVER_S))
    consumer.loop.call_later(3.0, lambda: consumer.loop.create_task(consumer.member.end()))
    assert consumer.receive() == []
    assert consumer.took_s <= 3.3
