"""Tests the accumulator with a naive broker that loses, delays and refuses batches, forgets producers, and changes its
leader.

These properties must always hold. Each message gets exactly one result. An acknowledged message is in the log exactly
once, at the returned offset. A message that was reported as not committed is not in the log. No message is in the log
twice. A queue keeps the order of its sends.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ledger.batch import BatchHeader
from ledger.client.connection.backoff import Backoff
from ledger.client.producer.accumulator import Accumulator
from ledger.client.producer.delivery import DeliverySettings
from ledger.client.producer.producer_batch import Acknowledged, Answer, Piece, ProducerBatch
from ledger.client.producer.queue_sequencer import QueueSequencer
from ledger.errors import (
    BusyError,
    DeliveryTimeoutError,
    InternalError,
    LedgerError,
    NoLeaderError,
    NotLeaderError,
    PermissionDeniedError,
    UnavailableError,
)
from tests.ledger.client.naive_broker import REFUSED, Fate, NaiveBroker, Producer


class AccumulatorMachine(RuleBasedStateMachine):
    """Hypothesis sends messages and injects faults in random order. One ordered stream carries the batches; `self.wire`
    has the batches that were sent and not answered, oldest first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.broker = NaiveBroker()
        self.fates: list[Fate] = []
        self.wire: list[tuple[QueueSequencer, ProducerBatch]] = []
        self.late: list[bytes] = []  # copies of batches whose stream broke; they may still arrive
        self.reserved = self.released = 0
        self.number = 0

    @initialize(seed=st.integers(0, 1000), batch_bytes=st.sampled_from([1, 60, 1000]))
    def make(self, seed: int, batch_bytes: int) -> None:
        delivery = DeliverySettings(producer_id=9, batch_bytes=batch_bytes, delivery_timeout_ms=1000, linger_ms=5)
        self.accumulator = Accumulator(delivery, Backoff(20, 100, random.Random(seed)))
        self.sequencer = self.accumulator.sequencer(1, 0, 0)

    # --- actions of users --------------------------------------------------------------------------------------------

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
        self.accumulator.add(self.sequencer, piece, self.now, wall_ms=0, close=close)
        self.poll()

    @rule()
    def hasten(self) -> None:
        self.accumulator.hasten(self.now)
        self.poll()

    # --- results of attempts -----------------------------------------------------------------------------------------

    @precondition(lambda self: self.wire)
    @rule()
    def arrives_and_is_answered(self) -> None:
        sequencer, batch = self.wire.pop(0)
        self.answer(sequencer, batch, self.broker.produce(batch.encoded))

    @precondition(lambda self: self.wire)
    @rule(error=st.sampled_from([BusyError, NotLeaderError, NoLeaderError]))
    def is_refused_for_now(self, error: type[LedgerError]) -> None:
        sequencer, batch = self.wire.pop(0)
        self.answer(sequencer, batch, error("not now"))

    @precondition(lambda self: self.wire)
    @rule()
    def is_refused_for_a_right(self) -> None:
        """A node checks rights before it looks for an earlier attempt of the batch."""
        sequencer, batch = self.wire.pop(0)
        self.answer(sequencer, batch, PermissionDeniedError("no right"))

    @precondition(lambda self: self.wire)
    @rule(kept=st.booleans(), error=st.sampled_from([NotLeaderError, NoLeaderError, UnavailableError, InternalError]))
    def is_appended_by_a_leader_that_steps_down(self, kept: bool, error: type[LedgerError]) -> None:
        sequencer, batch = self.wire.pop(0)
        mark = self.broker.mark()
        answer = self.broker.produce(batch.encoded)
        if isinstance(answer, Acknowledged) and not answer.duplicate:
            answer = error("no more")
            if not kept:
                self.broker.back_to(mark)
        self.answer(sequencer, batch, answer)

    @precondition(lambda self: self.wire)
    @rule(arrived=st.integers(0, 6), left_behind=st.booleans(), sent=st.integers(0, 6))
    def the_stream_breaks(self, arrived: int, left_behind: bool, sent: int) -> None:
        """The first `arrived` batches have reached the broker. The batches up to `sent` are lost, or arrive later if
        `left_behind`. The remaining batches were never sent.
        """
        wire, self.wire = self.wire, []
        sent = max(sent, arrived)
        for _, batch in wire[:arrived]:
            self.broker.produce(batch.encoded)
        if left_behind:
            self.late += [batch.encoded for _, batch in wire[arrived:sent]]
        for place, (sequencer, batch) in enumerate(wire):
            self.answer(sequencer, batch, UnavailableError("broken"), sent=place < sent)

    @precondition(lambda self: self.late)
    @rule()
    def a_late_copy_arrives(self) -> None:
        data = self.late.pop(0)
        header, known = BatchHeader.parse(data), self.broker.producer
        oldest = min(known.batches, default=0)
        if header.epoch == known.epoch and header.first_sequence >= oldest:  # a real broker refuses all other copies
            self.broker.produce(data)

    @precondition(lambda self: not self.wire and not self.accumulator.unresolved() and self.sequencer.idle)
    @rule()
    def the_broker_forgets_the_producer(self) -> None:
        self.late.clear()
        self.broker.producer = Producer()

    def answer(self, sequencer: QueueSequencer, batch: ProducerBatch, answer: Answer, *, sent: bool = True) -> None:
        for results in self.accumulator.answered(sequencer, batch, answer, self.now, sent=sent):
            self.released += results.released
            results.deliver()

    # --- time --------------------------------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 10, 100, 400, 1000]))
    def time_passes(self, ms: float) -> None:
        self.now += ms
        self.poll()

    @rule()
    def there_is_a_new_leader(self) -> None:
        self.accumulator.hurry(self.now, lambda sequencer: sequencer is self.sequencer)
        self.poll()

    @rule()
    def poll(self) -> None:
        owed = self.accumulator.poll(self.now)
        for results in owed.results:
            self.released += results.released
            results.deliver()
        for dispatch in owed.dispatches:
            self.wire += [(dispatch.sequencer, batch) for batch in dispatch.batches]
        wake = self.accumulator.next_wake()
        assert wake is None or wake > self.now, "a timer that is due at once would run for ever"

    # --- invariants --------------------------------------------------------------------------------------------------

    @invariant()
    def holds(self) -> None:
        log = self.broker.log
        assert log == sorted(set(log)), "a message is in the log twice or out of order"
        assert self.released <= self.reserved
        for fate in self.fates:
            if fate.first_offset is not None:
                assert log[fate.first_offset : fate.first_offset + len(fate.values)] == fate.values, (
                    "an acknowledged message is not at its offset"
                )
            is_unknown = isinstance(fate.error, DeliveryTimeoutError) and fate.error.maybe_committed
            if fate.error is not None and not is_unknown:
                assert set(log).isdisjoint(fate.values), "a message is in the log that was reported as not committed"

    def teardown(self) -> None:
        """Without further faults, every message gets a result, and a new message is acknowledged."""
        if not hasattr(self, "accumulator"):
            return
        self.now += 2000
        self.add([b"%06d" % self.number], close=True)
        for _ in range(1000):
            self.poll()
            if self.wire:
                self.arrives_and_is_answered()
            elif self.sequencer.idle:
                break
            else:
                self.now = self.accumulator.next_wake() or self.now
        assert self.sequencer.idle
        assert all(fate.told for fate in self.fates)
        assert self.fates[-1].first_offset is not None
        assert self.released == self.reserved
        self.holds()


TestAccumulator = AccumulatorMachine.TestCase
TestAccumulator.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.fixture
def accumulator() -> Accumulator:
    return Accumulator(DeliverySettings(producer_id=9, linger_ms=5), Backoff(20, 1000, random.Random(1)))


def test_lanes_do_not_hold_each_other_up(accumulator: Accumulator) -> None:
    stuck, free = accumulator.sequencer(1, 0, 0), accumulator.sequencer(1, 1, 0)
    accumulator.add(stuck, Piece([b"a"], 1, Fate([b"a"])), 0, wall_ms=0)
    [dispatch] = accumulator.poll(0).dispatches
    accumulator.answered(stuck, dispatch.batches[0], BusyError(), 0)
    accumulator.add(free, Piece([b"b"], 1, Fate([b"b"])), 0, wall_ms=0)
    assert [dispatch.sequencer for dispatch in accumulator.poll(0).dispatches] == [free]


def test_batches_gather_while_their_shard_owes_an_answer_to_any_of_its_queues(accumulator: Accumulator) -> None:
    first, second, third, elsewhere = (
        accumulator.sequencer(1, queue, shard) for queue, shard in enumerate((0, 0, 0, 5))
    )
    accumulator.add(first, Piece([b"a"], 1, Fate([b"a"])), 0, wall_ms=0)
    [under_way] = accumulator.poll(0).dispatches
    for sequencer in (second, third, elsewhere):
        accumulator.add(sequencer, Piece([b"b"], 1, Fate([b"b"])), 1, wall_ms=0)
    assert [dispatch.sequencer for dispatch in accumulator.poll(1).dispatches] == [elsewhere]
    assert accumulator.next_wake() == 6, "the batches are due when their linger time ends"
    accumulator.answered(first, under_way.batches[0], Acknowledged(0, 1, 0, duplicate=False), 2)
    assert [dispatch.sequencer for dispatch in accumulator.poll(2).dispatches] == [second, third], (
        "both go into one request"
    )


def test_what_has_lingered_goes_whatever_its_shard_owes(accumulator: Accumulator) -> None:
    first, second = accumulator.sequencer(1, 0, 0), accumulator.sequencer(1, 1, 0)
    accumulator.add(first, Piece([b"a"], 1, Fate([b"a"])), 0, wall_ms=0)
    accumulator.poll(0)
    accumulator.add(second, Piece([b"b"], 1, Fate([b"b"])), 1, wall_ms=0)
    assert accumulator.poll(5).dispatches == []
    assert [dispatch.sequencer for dispatch in accumulator.poll(6).dispatches] == [second]


def test_only_the_lanes_of_the_shard_that_has_a_new_leader_hurry(accumulator: Accumulator) -> None:
    sequencers = [accumulator.sequencer(1, 0, 0), accumulator.sequencer(1, 1, 5)]
    for sequencer in sequencers:
        accumulator.add(sequencer, Piece([b"a"], 1, Fate([b"a"])), 0, wall_ms=0)
    for dispatch in accumulator.poll(0).dispatches:
        accumulator.answered(dispatch.sequencer, dispatch.batches[0], NotLeaderError(), 0)
    accumulator.hurry(0, lambda sequencer: sequencer.shard == 5)
    assert [dispatch.sequencer for dispatch in accumulator.poll(0).dispatches] == [sequencers[1]]


def test_the_next_wake_is_the_earliest_of_all_lanes(accumulator: Accumulator) -> None:
    first, second = accumulator.sequencer(1, 0, 0), accumulator.sequencer(1, 1, 5)
    accumulator.add(first, Piece([b"a"], 1, Fate([b"a"])), 0, wall_ms=0)
    accumulator.poll(0)
    assert accumulator.next_wake() == 120_000
    accumulator.add(second, Piece([b"b"], 1, Fate([b"b"])), 0, wall_ms=0)
    accumulator.poll(0)
    accumulator.add(second, Piece([b"c"], 1, Fate([b"c"])), 3, wall_ms=0)
    assert accumulator.next_wake() == 8
