"""The ends of leases that a RocketMQ consumer is told are never later than the leader's, which decides."""

from __future__ import annotations

import asyncio
import base64
import struct
from types import SimpleNamespace
from typing import Any, cast

import google_crc32c
import pytest
import xxhash

from ledger.broker.access.callers import ANYBODY, Caller
from ledger.client.shared.shared_message import ACKNOWLEDGE, EXTEND, MessageLease, SharedMessage
from ledger.rocketmq.acknowledging import FrontAcknowledging
from ledger.rocketmq.handles import ReceiptHandle
from ledger.rocketmq.leases import RENEW_BEFORE_S, RENEWED_MS, FrontLeases
from ledger.rocketmq.members import LeaseOutcome
from ledger.rocketmq.receiving import FrontReceiving
from ledger.rocketmq.refusals import FrontRefusal
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
        self.is_silent = False
        sessions: Any = SimpleNamespace(
            on_end=[], is_alive=lambda session: True, is_silent=lambda session: self.is_silent
        )

        async def clients_of(caller: object) -> Any:
            return None

        super().__init__(sessions, clients_of, clocks.steady_s)
        self.clocks = clocks
        self.counts = True
        self.sent: list[tuple[int, int]] = []

    async def change(
        self,
        clients: Any,
        group: str,
        kind: int,
        lease: MessageLease,
        duration_ms: int = 0,
        *,
        in_time: bool = False,
    ) -> LeaseOutcome:
        self.sent.append((kind, duration_ms))
        self.clocks.passed_s += WAY_S
        return LeaseOutcome(changed=self.counts, settled=self.counts and kind == ACKNOWLEDGE)


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
    session = FrontSession("client", ANYBODY, "10.0.0.9", 0.0)
    await receiving._hand_out([leased(20.0)], wanted, request, session, nothing, context)
    _, answer, _ = context.written
    assert isinstance(answer, service_pb2.ReceiveMessageResponse)
    return answer


async def test_a_consumer_is_told_no_longer_lease_than_the_message_has() -> None:
    clocks = Clocks()
    told = (await hand_out(clocks, Changes(clocks), 20_000)).message.system_properties
    assert 15_000 <= told.invisible_duration.ToMilliseconds() <= 20_000


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


async def test_a_lease_is_not_extended_while_its_client_seems_to_be_killed() -> None:
    clocks = Clocks()
    leases = Changes(clocks)
    await hand_out(clocks, leases, None)
    leases.is_silent = True
    leases._renew_due()
    await asyncio.sleep(0)
    assert leases.sent == []
    leases.is_silent = False
    leases._renew_due()
    await asyncio.sleep(0)
    assert leases.sent == [(EXTEND, RENEWED_MS)]
    await leases.close()


def acknowledging(*, counts: bool) -> tuple[FrontAcknowledging, Any]:
    """Return the acknowledging of a node, with native clients. The leader says whether changes count."""
    changes = Changes(Clocks())
    changes.counts = counts

    async def topic(name: str, *, newest: bool = False) -> Any:
        return SimpleNamespace(topic_id=LEASE.topic_id, name=name, shards=(0,))

    return FrontAcknowledging(changes), SimpleNamespace(cluster=SimpleNamespace(topic=topic), caller=ANYBODY)


def change_request(handle: ReceiptHandle) -> service_pb2.ChangeInvisibleDurationRequest:
    change = service_pb2.ChangeInvisibleDurationRequest(group=WORK, topic=ORDERS, receipt_handle=str(handle))
    change.invisible_duration.FromSeconds(60)
    return change


@pytest.mark.parametrize("place", [{"shard": 1}, {"queue": 1}, {"queue": 0xFFFF_FFFF}])
async def test_a_handle_that_names_no_queue_of_the_topic_is_refused_before_a_stream_is_opened(
    place: dict[str, int],
) -> None:
    front, clients = acknowledging(counts=True)
    forged = ReceiptHandle.of("work", LEASE._replace(**place))
    acknowledge = service_pb2.AckMessageRequest(group=WORK, topic=ORDERS)
    acknowledge.entries.add(message_id="m", receipt_handle=str(forged))
    acknowledge.entries.add(message_id="n", receipt_handle=str(ReceiptHandle.of("work", LEASE)))
    found = (await front.acknowledge(acknowledge, clients)).entries
    assert [entry.status.code for entry in found] == [pb.INVALID_RECEIPT_HANDLE, pb.OK]
    with pytest.raises(FrontRefusal, match="names no queue"):
        await front.change_invisible_duration(change_request(forged), clients)
    assert len(cast(Changes, front._leases).sent) == 1


async def test_refusals_keep_nothing_of_earlier_requests() -> None:
    front, clients = acknowledging(counts=False)
    refusals = []
    for _ in range(2):
        with pytest.raises(FrontRefusal) as refused:
            await front.change_invisible_duration(change_request(ReceiptHandle.of("work", LEASE)), clients)
        refusals.append(refused.value)
    assert refusals[0] is not refusals[1], "an exception collects the frames of each raise"


async def test_a_lease_is_extended_for_others_until_its_own_caller_changes_it() -> None:
    changes = FrontLeases(cast(Any, SimpleNamespace(on_end=[])), cast(Any, None), lambda: 1.0)
    changes.renew(FrontSession("c", Caller("alice", 1), "alice", 1.0), "work", LEASE, 60.0)
    changes.drop(cast(Any, SimpleNamespace(caller=Caller("bob", 1))), "work", LEASE)
    assert changes.renewed == 1
    changes.drop(cast(Any, SimpleNamespace(caller=Caller("alice", 2))), "work", LEASE)
    assert changes.renewed == 0


async def test_a_lease_has_one_extension_under_way() -> None:
    changes, answer = Changes(Clocks()), asyncio.Event()
    begun = 0

    async def change(*_: object) -> LeaseOutcome:
        nonlocal begun
        begun += 1
        await answer.wait()
        return LeaseOutcome(changed=True, settled=False)

    changes.change = change  # type: ignore[method-assign, assignment]
    changes.renew(FrontSession("c", ANYBODY, "10.0.0.9", 1.0), "work", LEASE, changes.clocks.steady_s() + 1)
    for _ in range(3):
        changes._renew_due()
        await asyncio.sleep(0)
    assert begun == 1
    answer.set()
    for _ in range(5):
        await asyncio.sleep(0)
    changes.clocks.passed_s += 60
    changes._renewed["work", LEASE].ends_s = changes.clocks.steady_s() + 1
    changes._renew_due()
    await asyncio.sleep(0)
    assert begun == 2
    await changes.close()


def handle_of_an_older_node() -> str:
    """Return a handle that says that the lease has ended, by the clock of the node that handed the message out."""
    group = xxhash.xxh3_64_intdigest(b"work")
    lease, end_ms = (LEASE.topic_id, 0, 0, LEASE.offset, LEASE.entry, LEASE.resets), 1_700_000_000_000
    fields = struct.pack("<QIIIQQQQI", group, *lease, end_ms, 0)
    check = int(google_crc32c.value(fields)).to_bytes(4, "little")[:3]
    return "r1_" + base64.urlsafe_b64encode(fields + check).decode().rstrip("=")


@pytest.mark.parametrize(
    "handle", [str(ReceiptHandle.of("work", LEASE)), handle_of_an_older_node()], ids=["new", "old"]
)
@pytest.mark.parametrize("counts", [True, False])
async def test_the_leader_decides_whether_a_consumer_still_has_its_message(handle: str, *, counts: bool) -> None:
    front, clients = acknowledging(counts=counts)
    acknowledge = service_pb2.AckMessageRequest(group=WORK, topic=ORDERS)
    acknowledge.entries.add(message_id="m", receipt_handle=handle)
    (entry,) = (await front.acknowledge(acknowledge, clients)).entries
    assert entry.status.code == (pb.OK if counts else pb.INVALID_RECEIPT_HANDLE)
    change = service_pb2.ChangeInvisibleDurationRequest(group=WORK, topic=ORDERS, receipt_handle=handle)
    change.invisible_duration.FromSeconds(60)
    if counts:
        changed = (await front.change_invisible_duration(change, clients)).receipt_handle
        assert ReceiptHandle.parse(changed, "work", LEASE.topic_id) == ReceiptHandle.of("work", LEASE).changed()
        return
    with pytest.raises(FrontRefusal) as refused:
        await front.change_invisible_duration(change, clients)
    assert refused.value.code == pb.INVALID_RECEIPT_HANDLE
