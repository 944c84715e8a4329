"""A member believes in its lease only while the leader does, however long requests and answers are under way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.broker.shared.lease_clock import LeaseClock
from ledger.client.shared.lease_ends import extended_end_s, received_end_s
from ledger.client.shared.shard_link import Ask, ReceivedBatches, ShardLink
from ledger.client.shared.shared_consumer import AsyncSharedConsumer
from ledger.client.shared.shared_message import MessageLease, SharedMessage
from ledger.errors import InternalError, LedgerError, RequestTimeoutError, UnavailableError
from ledger.v1.consumer_group_pb2 import Receive, ShareResponse, WantedChange

LEASE_MS = 10_000
# Between the clocks of the member and of the leader, in seconds.
APART_S = 1_234.56789
times_s = st.floats(0, 30, allow_nan=False)


class Leader:
    """A leader whose clock the test moves."""

    def __init__(self, now_s: float, time_ms: int) -> None:
        self.now_s = now_s
        self.clock = LeaseClock(lambda: self.now_s)
        self.clock.begin(time_ms)

    def lease_time_ms(self, now_s: float) -> int:
        self.now_s = now_s
        return self.clock.now_ms()


@given(times_s, times_s, times_s, times_s, times_s, st.integers(0, 1 << 40), st.integers(1_000, 60_000))
def test_a_member_believes_in_its_lease_no_longer_than_the_leader(
    began_s: float, request_s: float, waits_s: float, reads_s: float, answer_s: float, time_ms: int, lease_ms: int
) -> None:
    """`request_s` and `answer_s` are the ways. The leader leases a message after `waits_s`, and then reads it."""
    leader = Leader(0.0, time_ms)
    asked_s = began_s
    arrived_s = asked_s + request_s
    end_ms = leader.lease_time_ms(arrived_s + waits_s) + lease_ms
    answers_s = arrived_s + waits_s + reads_s
    response = ShareResponse(
        lease_left_ms=max(0, end_ms - leader.lease_time_ms(answers_s)), waited_ms=int((answers_s - arrived_s) * 1000)
    )
    ends_s = received_end_s(response, lease_ms, asked_s + APART_S, answers_s + answer_s + APART_S) - APART_S
    if response.lease_left_ms:
        assert leader.lease_time_ms(ends_s - 1e-6) < end_ms, "the leader may lease the message again"
        assert ends_s > answers_s + response.lease_left_ms / 1000 - request_s - 0.003, "only the way there is lost"


@given(times_s, times_s, st.integers(0, 1 << 40), st.integers(1_000, 60_000))
def test_a_member_believes_in_a_longer_lease_no_longer_than_the_leader(
    asked_s: float, request_s: float, time_ms: int, lease_ms: int
) -> None:
    leader = Leader(0.0, time_ms)
    end_ms = leader.lease_time_ms(asked_s + request_s) + lease_ms
    assert leader.lease_time_ms(extended_end_s(lease_ms, asked_s) - 1e-6) < end_ms


@pytest.mark.parametrize(
    ("lease_left_ms", "waited_ms", "ends_s"),
    [
        (4_000, 500, 104.499),
        (4_000, 0, 103.999),  # an older node tells no wait
        (4_000, 3_000, 105.999),  # a node cannot have waited longer than the member
        (4_294_967_295, 4_294_967_295, 111.999),  # a lease is not longer than the member asked
        (0, 0, 99.999),
    ],
)
def test_a_node_that_tells_more_than_can_be_is_not_believed(lease_left_ms: int, waited_ms: int, ends_s: float) -> None:
    response = ShareResponse(lease_left_ms=lease_left_ms, waited_ms=waited_ms)
    assert received_end_s(response, LEASE_MS, 100.0, 102.0) == pytest.approx(ends_s, abs=1e-9)


# -- a link


class Stream:
    """A stream to a leader that answers a receive late. The first `failures` of them fail, as late."""

    address = "n1:1"
    way_s = 0.05

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        # When answers were given.
        self.answered_s: list[float] = []

    def send(self, changes: Sequence[WantedChange], receive: Receive | None) -> tuple[int, Any, Any]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[ShareResponse] = loop.create_future()
        loop.call_later(self.way_s, self._answer, future)
        return 1, future if changes else None, future if receive else None

    def _answer(self, future: asyncio.Future[ShareResponse]) -> None:
        self.answered_s.append(asyncio.get_running_loop().time())
        if self.failures:
            self.failures -= 1
            future.set_exception(UnavailableError("the node has ended"))
        else:
            future.set_result(ShareResponse(has_received=True, lease_left_ms=LEASE_MS, waited_ms=10, changed=[1]))


def link(stream: Stream, monkeypatch: pytest.MonkeyPatch, request_timeout_ms: int = 10_000) -> ShardLink:
    async def opened(_: ShardLink, deadline: float) -> Stream:
        return stream

    monkeypatch.setattr(ShardLink, "_opened", opened)
    client: Any = SimpleNamespace(
        check_open=lambda: None,
        request_timeout_ms=request_timeout_ms,
        backoff=SimpleNamespace(wait_ms=lambda failures: 1),
        routes=SimpleNamespace(table=SimpleNamespace(with_names=lambda error: error)),
    )
    return ShardLink(client, 0, lambda shard: pytest.fail("no stream is opened"))


async def test_the_way_of_the_answer_makes_no_lease_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream()
    received = await link(stream, monkeypatch).receive(Ask(), Receive(lease_ms=LEASE_MS))
    (arrived_s,) = stream.answered_s
    assert received.ends_s < arrived_s + LEASE_MS / 1000 - stream.way_s + 0.010


async def test_a_receive_that_is_repeated_counts_from_the_request_that_was_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = Stream(failures=2)
    received = await link(stream, monkeypatch).receive(Ask(), Receive(lease_ms=LEASE_MS))
    _, failed_s, _ = stream.answered_s
    assert received.ends_s > failed_s + LEASE_MS / 1000 + 0.010 - 0.002


async def test_a_receive_that_nobody_waits_for_has_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Ask()
    ask.is_cancelled = True
    assert await link(Stream(), monkeypatch).receive(ask, Receive()) == ReceivedBatches()


async def test_a_request_ends_at_its_time_limit_if_the_leader_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt may take up to 10 s, and a program may want its error sooner."""

    class StandingStream(Stream):
        way_s = 60.0
        broke: LedgerError | None = None

        def breaks(self, error: LedgerError) -> None:
            self.broke = error

    standing = StandingStream()
    shard = link(standing, monkeypatch, request_timeout_ms=100)
    for call in (shard.receive(Ask(), Receive(max_wait_ms=100)), shard.change([WantedChange()])):
        async with asyncio.timeout(5):
            with pytest.raises(RequestTimeoutError, match=r"Node n1:1 did not answer within 0\.\d+ s"):
                await call
    assert standing.broke is not None


async def test_an_answer_to_other_changes_is_a_fault_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InternalError, match="Node n1:1 answered 1 of 2 changes"):
        await link(Stream(), monkeypatch).change([WantedChange(), WantedChange()])


# -- a consumer that extends leases


class Link:
    """A link to a leader that answers changes with `counts`, or with an error."""

    def __init__(self, *counts: int) -> None:
        self.counts = counts

    async def change(self, changes: Sequence[WantedChange]) -> list[int]:
        await asyncio.sleep(0.01)
        if not self.counts:
            raise UnavailableError("the node has ended")
        assert len(changes) == len(self.counts)
        return list(self.counts)


def consumer(*counts: int) -> AsyncSharedConsumer[bytes]:
    made = AsyncSharedConsumer[bytes]("orders", group="work", bootstrap_servers="n1:1")
    answers: Any = Link(*counts)
    made._links._links[0] = answers
    return made


def message(offset: int, ends_s: float) -> SharedMessage[bytes]:
    made: SharedMessage[bytes] = SharedMessage("orders", 0, offset, 0, 0, None, b"x", None, (), 0)
    made.lease, made.ends_s = MessageLease(0, 1, 0, offset, 7, 0), ends_s
    return made


async def test_an_extended_lease_ends_that_long_after_the_request() -> None:
    now_s = asyncio.get_running_loop().time()
    extended = message(0, now_s + 5)
    assert await consumer(1).extend(extended, lease_ms=LEASE_MS) == 1
    assert now_s + 9.998 < extended.ends_s < asyncio.get_running_loop().time() + 10 - 0.01


async def test_a_lease_that_another_member_has_is_not_extended() -> None:
    """Messages 0 and 1 are one change, of which the leader refuses one message. Nobody knows which."""
    now_s = asyncio.get_running_loop().time()
    some = [message(offset, now_s + 5) for offset in (0, 1, 3)]
    assert await consumer(1, 1).extend(some, lease_ms=LEASE_MS) == 2
    assert [each.ends_s for each in some[:2]] == [now_s + 5] * 2
    assert some[2].ends_s > now_s + 9


@pytest.mark.parametrize(("lease_ms", "most_s"), [(LEASE_MS, 5.0), (2_000, 4.0)])
async def test_if_nobody_knows_whether_an_extension_counts_the_earlier_end_counts(lease_ms: int, most_s: float) -> None:
    now_s = asyncio.get_running_loop().time()
    extended = message(0, now_s + 5)
    with pytest.raises(LedgerError):
        await consumer().extend(extended, lease_ms=lease_ms)
    assert extended.ends_s <= now_s + most_s


@pytest.mark.parametrize("failures", [0, 1])
async def test_a_receive_says_whether_the_changes_that_rode_on_it_are_answered(
    failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receive is taken back while it is under way, so it is not sent again after a failure."""
    ask, changes = Ask(), [WantedChange(kind=1, size=1)]
    receiving = asyncio.ensure_future(
        link(Stream(failures), monkeypatch).receive(ask, Receive(lease_ms=LEASE_MS), changes)
    )
    await asyncio.sleep(0)
    ask.is_cancelled = True
    assert not list((await receiving).batches)
    assert ask.is_settled == (failures == 0)
