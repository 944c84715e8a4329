"""One caller cannot take all places of a node's RocketMQ port."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.broker.access.callers import ANYBODY, Caller
from ledger.broker.access.places import Places
from ledger.client.shared.shared_message import EXTEND, MessageLease
from ledger.errors import BusyError
from ledger.rocketmq.calls import FrontCall
from ledger.rocketmq.leases import IDLE_S, MAX_RENEWED_OF_A_CALLER, FrontLeases
from ledger.rocketmq.members import LeaseChanger, LeaseOutcome
from ledger.rocketmq.native_clients import NativeClients
from ledger.rocketmq.outgoing_message import FrontLimits, FrontMessage, outgoing_message
from ledger.rocketmq.receiving import FrontReceiving
from ledger.rocketmq.refusals import FrontRefusal
from ledger.rocketmq.sending import MAX_HALF_BYTES_OF_A_CALLER, FrontSending
from ledger.rocketmq.sessions import FORGET_S, MAX_SESSIONS_OF_A_CALLER, FrontSession, FrontSessions
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2

UNUSED = cast(Any, SimpleNamespace())
ALICE, BOB = (
    FrontCall("client", "JAVA", Caller(user, 1), is_tls=True, peer="ipv4:10.0.0.9:1", left_s=60.0)
    for user in ("alice", "bob")
)
MANY = "which is the most that one caller may have"


def half(number: int, body_bytes: int) -> FrontMessage:
    system = pb.SystemProperties(message_id=f"id-{number}", message_type=pb.TRANSACTION)
    return outgoing_message(pb.Message(body=bytes(body_bytes), system_properties=system), "orders", FrontLimits(), 0)


class HeldProducer:
    """A producer whose transactions send when `may_send` is set."""

    def __init__(self) -> None:
        self.may_send = asyncio.Event()

    def transaction(self, topic: str, *, group: str) -> Any:
        async def send(value: bytes, **_: Any) -> None:
            await self.may_send.wait()

        return SimpleNamespace(send=send, id="transaction")


def test_proven_users_hold_their_places_and_others_share_those_of_their_host() -> None:
    assert ALICE.holder == "alice"
    assert replace(ALICE, caller=ANYBODY).holder == "10.0.0.9"


def test_one_user_with_ever_new_client_ids_leaves_places_for_others() -> None:
    now_s = 0.0
    sessions = FrontSessions(lambda: now_s)
    for number in range(MAX_SESSIONS_OF_A_CALLER):
        sessions.seen(replace(ALICE, client_id=f"client {number}"))
    with pytest.raises(BusyError, match=f"alice has 10000, {MANY}"):
        sessions.seen(replace(ALICE, client_id="one more"))
    sessions.seen(BOB)
    sessions.end(sessions.seen(replace(ALICE, client_id="client 1")))
    sessions.seen(replace(ALICE, client_id="one more"))
    now_s = FORGET_S + 1
    sessions.forget_silent()
    sessions.seen(ALICE)
    assert len(sessions) == 1


async def test_half_messages_of_one_user_have_a_limit_of_bytes() -> None:
    front, producer = FrontSending(FrontLimits(), lambda: 0), HeldProducer()

    def send(number: int, call: FrontCall, body_bytes: int = 4 << 20) -> asyncio.Future[Any]:
        clients = cast(Any, SimpleNamespace(caller=call.caller, producer=producer))
        return front._send_once(half(number, body_bytes), call, clients, queues=8)

    sends = [send(number, ALICE) for number in range(MAX_HALF_BYTES_OF_A_CALLER >> 22)]
    with pytest.raises(FrontRefusal, match=f"too many bytes of half messages .*{MANY}"):
        send(1_000, ALICE)
    sends.append(send(1_000, BOB))
    producer.may_send.set()
    await asyncio.gather(*sends)
    await send(1_000, ALICE)


async def test_sends_under_way_have_a_limit_for_each_user() -> None:
    front, producer = FrontSending(FrontLimits(), lambda: 0), HeldProducer()
    front._sends = Places(3, 2)

    def send(number: int, call: FrontCall) -> asyncio.Future[Any]:
        clients = cast(Any, SimpleNamespace(caller=call.caller, producer=producer))
        return front._send_once(half(number, 1), call, clients, queues=8)

    sends = [send(1, ALICE), send(2, ALICE)]
    assert send(2, ALICE) is sends[1], "the same message again takes no place"
    with pytest.raises(FrontRefusal, match=f"too many sends are under way .*{MANY}"):
        send(3, ALICE)
    sends.append(send(3, BOB))
    producer.may_send.set()
    await asyncio.gather(*sends)
    await send(3, ALICE)


async def test_receives_that_wait_have_a_limit_for_each_user(monkeypatch: pytest.MonkeyPatch) -> None:
    receiving, may_end = FrontReceiving(UNUSED, UNUSED, lambda: 0, lambda: 0.0, lambda: 1), asyncio.Event()
    receiving.polls = Places(2, 1)

    async def at_once(*_: object) -> Any:
        return UNUSED

    async def held(*_: object) -> list[Any]:
        await may_end.wait()
        return []

    for name, stand_in in {"_wanted": at_once, "_member": at_once, "_leased": held, "_hand_out": at_once}.items():
        monkeypatch.setattr(receiving, name, stand_in)

    def receive(call: FrontCall) -> asyncio.Task[None]:
        request = service_pb2.ReceiveMessageRequest()
        return asyncio.create_task(receiving.receive(request, call, UNUSED, UNUSED, UNUSED))

    first = receive(ALICE)
    await asyncio.sleep(0)
    with pytest.raises(FrontRefusal, match=f"too many receives wait .*{MANY}"):
        await receive(ALICE)
    other = receive(BOB)
    await asyncio.sleep(0)
    may_end.set()
    await asyncio.gather(first, other)
    assert receiving.polls.taken == 0
    await receive(ALICE)


def test_leases_that_a_node_extends_have_a_limit_for_each_user() -> None:
    leases = FrontLeases(cast(Any, SimpleNamespace(on_end=[])), UNUSED, lambda: 1.0)
    session = FrontSession("client", ALICE.caller, ALICE.holder, 1.0)
    held = [MessageLease(0, 7, 0, offset, 11, 0) for offset in range(MAX_RENEWED_OF_A_CALLER)]
    for lease in [*held, held[0]]:
        leases.renew(session, "work", lease, 60.0)
    assert leases.is_full(ALICE.holder)
    assert not leases.is_full(BOB.holder)
    leases.drop(cast(Any, SimpleNamespace(caller=ALICE.caller)), "work", held[0])
    assert not leases.is_full(ALICE.holder)


async def test_streams_for_changes_have_a_limit_for_each_user_until_they_are_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ledger.rocketmq.leases.MAX_CHANGERS_OF_A_USER", 3)
    now_s = 1.0
    leases = FrontLeases(cast(Any, SimpleNamespace(on_end=[])), UNUSED, lambda: now_s)
    alice, bob = (NativeClients(call.caller, UNUSED, UNUSED, UNUSED) for call in (ALICE, BOB))

    async def changed(*_: object) -> LeaseOutcome:
        return LeaseOutcome(changed=True, settled=False)

    monkeypatch.setattr(LeaseChanger, "change", changed)

    async def change(clients: NativeClients, topic_id: int) -> None:
        await leases.change(clients, "work", EXTEND, MessageLease(0, topic_id, 0, 3, 11, 0))

    for topic_id in range(3):
        await change(alice, topic_id)
    await change(alice, 2)
    with pytest.raises(BusyError, match="too many groups and topics"):
        await change(alice, 3)
    await change(bob, 3)
    now_s += IDLE_S + 1
    await leases._close_idle()
    await change(alice, 3)
