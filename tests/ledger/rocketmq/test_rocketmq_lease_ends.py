"""The ends of leases that a RocketMQ consumer is told: never later than the leader's."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from ledger.broker.access.callers import ANYBODY
from ledger.client.shared.shared_message import EXTEND, MessageLease, SharedMessage
from ledger.rocketmq.acknowledging import FrontAcknowledging
from ledger.rocketmq.handles import ReceiptHandle
from ledger.rocketmq.leases import RENEW_BEFORE_S, RENEWED_MS, FrontLeases
from ledger.rocketmq.members import LeaseOutcome
from ledger.rocketmq.receiving import FrontReceiving
from ledger.rocketmq.sessions import FrontSession
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2

NOW_MS = 1_800_000_000_000
LEASE = MessageLease(0, 7, 0, 3, 11, 0)
ORDERS, WORK = pb.Resource(name="orders"), pb.Resource(name="work")
# The way of a request and of its answer together.
WAY_S = 4.0


class Clocks:
    """The clocks of a node, which the test moves."""

    def __init__(self) -> None:
        self.passed_s = 0.0

    def now_ms(self) -> int:
        return NOW_MS + round(self.passed_s * 1000)

    def steady_s(self) -> float:
        return 50.0 + self.passed_s


class Changes(FrontLeases):
    """Leases whose changes take `WAY_S`, and count if `counts`."""

    def __init__(self, clocks: Clocks) -> None:
        sessions: Any = SimpleNamespace(on_end=[], is_alive=lambda session: True)

        async def clients_of(caller: object) -> Any:
            return None

        super().__init__(sessions, clients_of, clocks.steady_s)
        self.clocks = clocks
        self.counts = True
        self.sent: list[tuple[int, int]] = []

    async def change(
        self, clients: Any, group: str, kind: int, lease: MessageLease, duration_ms: int = 0
    ) -> LeaseOutcome:
        self.sent.append((kind, duration_ms))
        self.clocks.passed_s += WAY_S
        return LeaseOutcome(changed=self.counts, settled=False)


class Answers:
    """The context of a receive. Each answer that it takes needs a second."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self.written: list[service_pb2.ReceiveMessageResponse] = []

    async def write(self, response: service_pb2.ReceiveMessageResponse) -> None:
        self._clocks.passed_s += 1
        self.written.append(response)


def leased(left_s: float) -> SharedMessage[bytes]:
    message: SharedMessage[bytes] = SharedMessage("orders", 0, 3, 0, 0, None, b"x", None, (), 0)
    message.lease, message.attempt = LEASE, 1
    message.ends_s = asyncio.get_running_loop().time() + left_s
    return message


async def hand_out(clocks: Clocks, leases: FrontLeases, invisible_ms: int | None) -> service_pb2.ReceiveMessageResponse:
    """Hand out a message whose lease lasts 20 s, and return the answer with it."""
    nothing: Any = None
    receiving = FrontReceiving(nothing, leases, clocks.now_ms, clocks.steady_s, lambda: 1)
    wanted: Any = SimpleNamespace(group="work", invisible_ms=invisible_ms)
    context: Any = Answers(clocks)
    request = service_pb2.ReceiveMessageRequest(message_queue=pb.MessageQueue(topic=ORDERS))
    session = FrontSession("client", ANYBODY, 0.0)
    await receiving._hand_out([leased(20.0)], wanted, request, session, nothing, context)
    _, answer, _ = context.written
    assert isinstance(answer, service_pb2.ReceiveMessageResponse)
    return answer


async def test_a_handle_ends_no_later_than_the_lease() -> None:
    clocks = Clocks()
    told = (await hand_out(clocks, Changes(clocks), 20_000)).message.system_properties
    handle = ReceiptHandle.parse(told.receipt_handle, "work", LEASE.topic_id)
    assert NOW_MS + 15_000 <= handle.end_ms <= NOW_MS + 20_000
    assert told.invisible_duration.ToMilliseconds() == handle.end_ms - NOW_MS


async def test_a_lease_that_the_node_extends_is_extended_before_it_ends() -> None:
    clocks = Clocks()
    leases = Changes(clocks)
    await hand_out(clocks, leases, None)
    (renewed,) = leases._renewed.values()
    assert 65 <= renewed.ends_s <= 70.0, "from the lease of the message, and from the begin of the answers"
    assert renewed.ends_s - clocks.steady_s() < RENEW_BEFORE_S
    leases._renew_due()
    asked_s = clocks.steady_s()
    await asyncio.sleep(0)
    assert leases.sent == [(EXTEND, RENEWED_MS)]
    assert renewed.ends_s == asked_s + (RENEWED_MS - 1) / 1000
    await leases.close()


async def test_a_changed_lease_ends_that_long_after_the_request() -> None:
    clocks = Clocks()
    handle = ReceiptHandle.of("work", LEASE, NOW_MS + 20_000)

    async def topic(name: str) -> Any:
        return SimpleNamespace(topic_id=LEASE.topic_id)

    clients: Any = SimpleNamespace(cluster=SimpleNamespace(topic=topic))
    request = service_pb2.ChangeInvisibleDurationRequest(group=WORK, topic=ORDERS, receipt_handle=str(handle))
    request.invisible_duration.FromSeconds(60)
    response = await FrontAcknowledging(Changes(clocks), clocks.now_ms).change_invisible_duration(request, clients)
    changed = ReceiptHandle.parse(response.receipt_handle, "work", LEASE.topic_id)
    assert changed.end_ms == NOW_MS + 60_000
