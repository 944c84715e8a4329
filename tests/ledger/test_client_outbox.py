"""The outbox against a naive broker that loses, delays, refuses, forgets, and changes its leader.

Whatever happens: each message is told its fate once; what is acknowledged is in the log exactly once, at the offset
that was told; what is said not to be there is not there; nothing is there twice; and a queue keeps the order of its
sends.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ledger.batch import BatchHeader
from ledger.client.backoff import Backoff
from ledger.client.delivery import Delivery
from ledger.client.lane import Lane
from ledger.client.outbox import Outbox
from ledger.client.outgoing import Acknowledged, Answer, OutgoingBatch, Piece
from ledger.errors import (
    BusyError,
    DeliveryTimeoutError,
    InternalError,
    LedgerError,
    NoLeaderError,
    NotLeaderError,
    UnavailableError,
)
from tests.ledger.naive_broker import REFUSED, Fate, NaiveBroker, Producer


class OutboxMachine(RuleBasedStateMachine):
    """Attempts travel on one stream, in order; `self.wire` is what is on its way, oldest first."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.broker = NaiveBroker()
        self.fates: list[Fate] = []
        self.wire: list[tuple[Lane, OutgoingBatch]] = []
        self.late: list[bytes] = []  # copies of requests whose stream broke: they may still arrive
        self.reserved = self.released = 0
        self.number = 0

    @initialize(seed=st.integers(0, 1000), batch_bytes=st.sampled_from([1, 60, 1000]))
    def make(self, seed: int, batch_bytes: int) -> None:
        delivery = Delivery(producer_id=9, batch_bytes=batch_bytes, delivery_timeout_ms=1000, linger_ms=5)
        self.outbox = Outbox(delivery, Backoff(20, 100, random.Random(seed)))
        self.lane = self.outbox.lane(1, 0, 0)

    # --- what users do -----------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 3), close=st.booleans())
    def send(self, count: int, close: bool) -> None:
        self.add([b"%06d" % (self.number + each) for each in range(count)], close)
        self.number += count

    @rule()
    def send_what_will_be_refused(self) -> None:
        self.add([REFUSED], close=True)

    def add(self, values: list[bytes], close: bool) -> None:
        fate = Fate(values)
        self.fates.append(fate)
        piece = Piece(values, sum(map(len, values)), fate)
        self.reserved += piece.size
        self.outbox.add(self.lane, piece, self.now, wall_ms=0, close=close)
        self.poll()

    @rule()
    def hasten(self) -> None:
        self.outbox.hasten(self.now)
        self.poll()

    # --- what happens to attempts ------------------------------------------------------------------------------------

    @precondition(lambda self: self.wire)
    @rule()
    def arrives_and_is_answered(self) -> None:
        lane, batch = self.wire.pop(0)
        self.answer(lane, batch, self.broker.produce(batch.encoded))

    @precondition(lambda self: self.wire)
    @rule(error=st.sampled_from([BusyError, NotLeaderError, NoLeaderError]))
    def is_refused_for_now(self, error: type[LedgerError]) -> None:
        lane, batch = self.wire.pop(0)
        self.answer(lane, batch, error("not now"))

    @precondition(lambda self: self.wire)
    @rule(kept=st.booleans(), error=st.sampled_from([NotLeaderError, NoLeaderError, UnavailableError, InternalError]))
    def is_appended_by_a_leader_that_steps_down(self, kept: bool, error: type[LedgerError]) -> None:
        lane, batch = self.wire.pop(0)
        mark = self.broker.mark()
        answer = self.broker.produce(batch.encoded)
        if isinstance(answer, Acknowledged) and not answer.duplicate:
            answer = error("no more")
            if not kept:
                self.broker.back_to(mark)
        self.answer(lane, batch, answer)

    @precondition(lambda self: self.wire)
    @rule(arrived=st.integers(0, 6), left_behind=st.booleans(), sent=st.integers(0, 6))
    def the_stream_breaks(self, arrived: int, left_behind: bool, sent: int) -> None:
        """The first ones had arrived, the next ones are lost or late, the last ones had not been sent."""
        wire, self.wire = self.wire, []
        sent = max(sent, arrived)
        for _, batch in wire[:arrived]:
            self.broker.produce(batch.encoded)
        if left_behind:
            self.late += [batch.encoded for _, batch in wire[arrived:sent]]
        for place, (lane, batch) in enumerate(wire):
            self.answer(lane, batch, UnavailableError("broken"), sent=place < sent)

    @precondition(lambda self: self.late)
    @rule()
    def a_late_copy_arrives(self) -> None:
        data = self.late.pop(0)
        header, known = BatchHeader.parse(data), self.broker.producer
        oldest = min(known.batches, default=0)
        if header.epoch == known.epoch and header.first_sequence >= oldest:  # otherwise: fenced, or forgotten
            self.broker.produce(data)

    @precondition(lambda self: not self.wire and not self.outbox.unresolved() and self.lane.idle)
    @rule()
    def the_broker_forgets_the_producer(self) -> None:
        self.late.clear()
        self.broker.producer = Producer()

    def answer(self, lane: Lane, batch: OutgoingBatch, answer: Answer, *, sent: bool = True) -> None:
        for settled in self.outbox.answered(lane, batch, answer, self.now, sent=sent):
            self.released += settled.released
            settled.deliver()

    # --- time --------------------------------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 10, 100, 400, 1000]))
    def time_passes(self, ms: float) -> None:
        self.now += ms
        self.poll()

    @rule()
    def there_is_a_new_leader(self) -> None:
        self.outbox.hurry(self.now, lambda lane: lane is self.lane)
        self.poll()

    @rule()
    def poll(self) -> None:
        owed = self.outbox.poll(self.now)
        for settled in owed.settled:
            self.released += settled.released
            settled.deliver()
        for dispatch in owed.dispatches:
            self.wire += [(dispatch.lane, batch) for batch in dispatch.batches]
        wake = self.outbox.next_wake()
        assert wake is None or wake > self.now, "a timer that would run at once, for ever"

    # --- what must hold ----------------------------------------------------------------------------------------------

    @invariant()
    def holds(self) -> None:
        log = self.broker.log
        assert log == sorted(set(log)), "twice, or out of order"
        assert self.released <= self.reserved
        for fate in self.fates:
            if fate.first_offset is not None:
                assert log[fate.first_offset : fate.first_offset + len(fate.values)] == fate.values, (
                    "not where it was said"
                )
            if isinstance(fate.error, DeliveryTimeoutError) and not fate.error.maybe_committed:
                assert set(log).isdisjoint(fate.values), "there, and was said not to be"

    def teardown(self) -> None:
        """The broker is well again: everything gets its fate, and a new message gets through."""
        if not hasattr(self, "outbox"):
            return
        self.now += 2000
        self.add([b"%06d" % self.number], close=True)
        for _ in range(1000):
            self.poll()
            if self.wire:
                self.arrives_and_is_answered()
            elif self.lane.idle:
                break
            else:
                self.now = self.outbox.next_wake() or self.now
        assert self.lane.idle
        assert all(fate.told for fate in self.fates)
        assert self.fates[-1].first_offset is not None
        assert self.released == self.reserved
        self.holds()


TestOutbox = OutboxMachine.TestCase
TestOutbox.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.fixture
def outbox() -> Outbox:
    return Outbox(Delivery(producer_id=9, linger_ms=5), Backoff(20, 1000, random.Random(1)))


def test_lanes_do_not_hold_each_other_up(outbox: Outbox) -> None:
    stuck, free = outbox.lane(1, 0, 0), outbox.lane(1, 1, 0)
    outbox.add(stuck, Piece([b"a"], 1, Fate([b"a"])), 0, wall_ms=0)
    [dispatch] = outbox.poll(0).dispatches
    outbox.answered(stuck, dispatch.batches[0], BusyError(), 0)
    outbox.add(free, Piece([b"b"], 1, Fate([b"b"])), 0, wall_ms=0)
    assert [dispatch.lane for dispatch in outbox.poll(0).dispatches] == [free]


def test_batches_gather_while_their_shard_owes_an_answer_to_any_of_its_queues(outbox: Outbox) -> None:
    first, second, third, elsewhere = (outbox.lane(1, queue, shard) for queue, shard in enumerate((0, 0, 0, 5)))
    outbox.add(first, Piece([b"a"], 1, Fate([b"a"])), 0, wall_ms=0)
    [under_way] = outbox.poll(0).dispatches
    for lane in (second, third, elsewhere):
        outbox.add(lane, Piece([b"b"], 1, Fate([b"b"])), 1, wall_ms=0)
    assert [dispatch.lane for dispatch in outbox.poll(1).dispatches] == [elsewhere]
    assert outbox.next_wake() == 6, "when they have lingered"
    outbox.answered(first, under_way.batches[0], Acknowledged(0, 1, 0, duplicate=False), 2)
    assert [dispatch.lane for dispatch in outbox.poll(2).dispatches] == [second, third], "in one request"


def test_what_has_lingered_goes_whatever_its_shard_owes(outbox: Outbox) -> None:
    first, second = outbox.lane(1, 0, 0), outbox.lane(1, 1, 0)
    outbox.add(first, Piece([b"a"], 1, Fate([b"a"])), 0, wall_ms=0)
    outbox.poll(0)
    outbox.add(second, Piece([b"b"], 1, Fate([b"b"])), 1, wall_ms=0)
    assert outbox.poll(5).dispatches == []
    assert [dispatch.lane for dispatch in outbox.poll(6).dispatches] == [second]


def test_only_the_lanes_of_the_shard_that_has_a_new_leader_hurry(outbox: Outbox) -> None:
    lanes = [outbox.lane(1, 0, 0), outbox.lane(1, 1, 5)]
    for lane in lanes:
        outbox.add(lane, Piece([b"a"], 1, Fate([b"a"])), 0, wall_ms=0)
    for dispatch in outbox.poll(0).dispatches:
        outbox.answered(dispatch.lane, dispatch.batches[0], NotLeaderError(), 0)
    outbox.hurry(0, lambda lane: lane.shard == 5)
    assert [dispatch.lane for dispatch in outbox.poll(0).dispatches] == [lanes[1]]


def test_the_next_wake_is_the_earliest_of_all_lanes(outbox: Outbox) -> None:
    first, second = outbox.lane(1, 0, 0), outbox.lane(1, 1, 5)
    outbox.add(first, Piece([b"a"], 1, Fate([b"a"])), 0, wall_ms=0)
    outbox.poll(0)
    assert outbox.next_wake() == 120_000
    outbox.add(second, Piece([b"b"], 1, Fate([b"b"])), 0, wall_ms=0)
    outbox.poll(0)
    outbox.add(second, Piece([b"c"], 1, Fate([b"c"])), 3, wall_ms=0)
    assert outbox.next_wake() == 8
