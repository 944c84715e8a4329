"""A RocketMQ consumer that becomes another member of its group leaves no member and no stream behind."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.broker.access.callers import Caller
from ledger.client.shared.shard_link import Ask
from ledger.rocketmq.calls import FrontCall
from ledger.rocketmq.filters import FrontFilter
from ledger.rocketmq.members import FrontMember
from ledger.rocketmq.receiving import IDLE_S, FrontReceiving
from ledger.rocketmq.sessions import ALIVE_S, FrontSession, FrontSessions

ALICE = Caller("alice", 7)
CALL = FrontCall("client", "JAVA", ALICE, is_tls=False, peer="ipv4:127.0.0.1:1", left_s=60.0)
UNUSED = cast(Any, SimpleNamespace())
PAID, BACK = FrontFilter(condition="paid"), FrontFilter(condition="paid back")


class Link:
    """A link to a shard that closes when `may_close` is set."""

    def __init__(self) -> None:
        self.may_close = asyncio.Event()
        self.is_closed = False

    async def close(self) -> None:
        await self.may_close.wait()
        self.is_closed = True


def clients_of(caller: Caller) -> Any:
    return SimpleNamespace(caller=caller, cluster=SimpleNamespace())


class Consumer:
    """One RocketMQ consumer at a node."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.sessions = FrontSessions(lambda: self.now_s)
        self.receiving = FrontReceiving(UNUSED, UNUSED, lambda: 0, lambda: self.now_s, lambda: 1)
        self.clients = clients_of(ALICE)

    async def member(self, wanted: FrontFilter) -> FrontMember:
        return await self.receiving._member(CALL, self.sessions.seen(CALL), self.clients, self._wanted(wanted))

    async def connected(self, wanted: FrontFilter) -> tuple[FrontMember, Link]:
        """Return the member that the consumer is now, with a link to shard 3."""
        member, link = await self.member(wanted), Link()
        member._links[3] = cast(Any, link)
        return member, link

    async def ask(self, member: FrontMember) -> list[Any]:
        return list(await self.receiving._ask(3, Ask(), member, self._wanted(member.wanted), 0) or [])

    @property
    def members(self) -> list[FrontMember]:
        return list(self.receiving._members.values())

    @staticmethod
    def _wanted(wanted: FrontFilter) -> Any:
        topic = SimpleNamespace(topic_id=5, name="orders")
        return SimpleNamespace(
            group="work", topic=topic, filter=wanted, messages=1, invisible_ms=None, attempt_id=9, is_repeatable=False
        )


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_receives_of_a_consumer_with_another_filter_share_its_new_member() -> None:
    consumer = Consumer()
    _, link = await consumer.connected(PAID)
    receives = [asyncio.create_task(consumer.member(BACK)) for _ in range(3)]
    await settled()
    assert not any(task.done() for task in receives), "a leader refuses the new filter while the old one is connected"
    link.may_close.set()
    first, *others = await asyncio.gather(*receives)
    assert all(each is first for each in others)
    assert consumer.members == [first]
    assert link.is_closed


async def test_the_old_member_ends_also_if_the_receive_with_another_filter_is_given_up() -> None:
    consumer = Consumer()
    _, link = await consumer.connected(PAID)
    receive = asyncio.create_task(consumer.member(BACK))
    await settled()
    receive.cancel()
    link.may_close.set()
    await settled()
    assert link.is_closed
    assert [each.wanted for each in consumer.members] == [BACK]


async def test_a_consumer_that_changes_its_filter_back_waits_for_all_its_old_members() -> None:
    consumer = Consumer()
    _, link = await consumer.connected(PAID)
    between = asyncio.create_task(consumer.member(BACK))
    await settled()
    again = asyncio.create_task(consumer.member(PAID))
    await settled()
    assert not again.done()
    link.may_close.set()
    member, passed = await again, await between
    assert consumer.members == [member]
    assert passed.is_closed
    assert await consumer.ask(passed) == []
    assert not passed._links, "a member that has ended opens no streams"


async def test_a_consumer_with_a_new_secret_is_a_new_member_with_its_rights() -> None:
    consumer = Consumer()
    old, link = await consumer.connected(PAID)
    link.may_close.set()
    consumer.clients = clients_of(Caller("alice", 9))
    member = await consumer.member(PAID)
    assert member.cluster is consumer.clients.cluster
    assert (old.is_closed, link.is_closed, consumer.members) == (True, True, [member])
    assert await consumer.member(PAID) is member


async def test_a_receive_of_a_consumer_that_has_ended_opens_no_stream() -> None:
    consumer = Consumer()
    member = await consumer.member(PAID)
    consumer.receiving.end(FrontSession("client", ALICE, "alice", 0.0))
    await settled()
    assert consumer.members == []
    assert await consumer.ask(member) == []
    assert not member._links


@pytest.mark.parametrize("what", ["a heartbeat", "a receive that waits", "nothing"])
async def test_the_member_of_a_client_that_is_silent_is_closed(what: str) -> None:
    """The machine of the client was lost, so its connection stays open. Its filter must not count for long."""
    consumer = Consumer()
    member, link = await consumer.connected(PAID)
    link.may_close.set()
    consumer.now_s += ALIVE_S
    consumer.receiving._close_idle()
    assert consumer.members == [member]
    consumer.now_s += 1
    if what == "a heartbeat":
        consumer.sessions.seen(CALL)
    elif what == "a receive that waits":
        member.receives[3] = 1
    consumer.receiving._close_idle()
    await settled()
    assert link.is_closed is (what == "nothing")
    assert consumer.members == ([] if what == "nothing" else [member])


async def test_a_member_without_receives_is_closed_after_a_while() -> None:
    consumer = Consumer()
    _, link = await consumer.connected(PAID)
    link.may_close.set()
    consumer.now_s += IDLE_S + 1
    consumer.sessions.seen(CALL)
    consumer.receiving._close_idle()
    await settled()
    assert link.is_closed
    assert consumer.members == []
