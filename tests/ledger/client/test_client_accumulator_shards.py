"""Tests the accumulator with three queues in two shards; the naive broker of each queue loses and refuses batches.

If a shard fails, batches without a chosen queue go to another shard. No message may be in two queues.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ledger.client.connection.backoff import Backoff
from ledger.client.producer.accumulator import Accumulator
from ledger.client.producer.delivery import DeliverySettings
from ledger.client.producer.fault_table import FaultTable
from ledger.client.producer.producer_batch import Acknowledged, Answer, Piece, ProducerBatch
from ledger.client.producer.queue_sequencer import QueueSequencer
from ledger.client.producer.topic_queue_selector import TopicQueueSelector
from ledger.errors import (
    BusyError,
    DeliveryTimeoutError,
    LedgerError,
    NoLeaderError,
    NotLeaderError,
    ThrottledError,
    UnavailableError,
)
from tests.ledger.client.naive_broker import Fate, NaiveBroker

# The shard of each queue.
SHARDS = (0, 1, 1)


def made(accumulator: Accumulator) -> list[QueueSequencer]:
    """Return the queue sequencers of one topic, in the order of the queues."""
    sequencers = [accumulator.sequencer(1, queue, shard) for queue, shard in enumerate(SHARDS)]
    TopicQueueSelector("t", 1, sequencers, 0)
    return sequencers


class ShardsMachine(RuleBasedStateMachine):
    """Hypothesis sends messages and injects faults in random order. `self.wire` has, for each queue, the batches that
    were sent and not answered, oldest first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.brokers = [NaiveBroker() for _ in SHARDS]
        self.fates: list[Fate] = []
        self.bound: dict[bytes, int] = {}
        self.wire: list[list[tuple[QueueSequencer, ProducerBatch]]] = [[] for _ in SHARDS]
        self.reserved = self.released = 0

    @initialize(
        seed=st.integers(0, 1000), batch_bytes=st.sampled_from([1, 60]), retries=st.sampled_from([None, None, 0, 3])
    )
    def make(self, seed: int, batch_bytes: int, retries: int | None) -> None:
        delivery = DeliverySettings(9, batch_bytes=batch_bytes, delivery_timeout_ms=1000, linger_ms=5, retries=retries)
        self.accumulator = Accumulator(delivery, Backoff(20, 100, random.Random(seed)))
        self.sequencers = made(self.accumulator)

    @rule(queue=st.sampled_from(range(3)), bound=st.booleans(), count=st.integers(1, 3))
    def send(self, queue: int, bound: bool, count: int) -> None:
        for _ in range(count):
            self.add(queue, bound=bound)
        self.poll()

    def add(self, queue: int, *, bound: bool) -> None:
        value = b"%06d" % len(self.fates)
        if bound:
            self.bound[value] = queue
        self.fates.append(Fate([value]))
        piece = Piece([value], len(value), self.fates[-1], bound=bound)
        self.reserved += piece.size
        self.accumulator.add(self.sequencers[queue], piece, self.now, wall_ms=0)

    @precondition(lambda self: any(self.wire))
    @rule(queue=st.sampled_from(range(3)))
    def arrives_and_is_answered(self, queue: int) -> None:
        if self.wire[queue]:
            sequencer, batch = self.wire[queue].pop(0)
            self.answer(sequencer, batch, self.brokers[queue].produce(batch.encoded))

    @precondition(lambda self: any(self.wire))
    @rule(
        queue=st.sampled_from(range(3)),
        error=st.sampled_from([BusyError, NotLeaderError, ThrottledError]),
        not_appended=st.booleans(),
    )
    def is_refused_for_now(self, queue: int, error: type[LedgerError], not_appended: bool = False) -> None:
        if self.wire[queue]:
            sequencer, batch = self.wire[queue].pop(0)
            self.answer(sequencer, batch, error("not now", throttle_ms=50, not_appended=not_appended))

    @precondition(lambda self: any(self.wire))
    @rule(shard=st.sampled_from([0, 1]), arrived=st.integers(0, 3), sent=st.integers(0, 6))
    def the_stream_to_a_shard_breaks(self, shard: int, arrived: int, sent: int) -> None:
        for queue in (queue for queue, of in enumerate(SHARDS) if of == shard):
            wire, self.wire[queue] = self.wire[queue], []
            for _, batch in wire[:arrived]:
                self.brokers[queue].produce(batch.encoded)
            for place, (sequencer, batch) in enumerate(wire):
                error = UnavailableError("broken") if place < max(sent, arrived) else NoLeaderError("nobody")
                self.answer(sequencer, batch, error, sent=place < max(sent, arrived))

    def answer(self, sequencer: QueueSequencer, batch: ProducerBatch, answer: Answer, *, sent: bool = True) -> None:
        for results in self.accumulator.answered(sequencer, batch, answer, self.now, sent=sent):
            self.released += results.released
            results.deliver()

    @rule(ms=st.sampled_from([1, 10, 100, 400]))
    def time_passes(self, ms: float) -> None:
        self.now += ms
        self.poll()

    @rule(shard=st.sampled_from([0, 1]))
    def there_is_a_new_leader(self, shard: int) -> None:
        self.accumulator.hurry(self.now, lambda sequencer: sequencer.shard == shard)
        self.poll()

    @rule()
    def poll(self) -> None:
        owed = self.accumulator.poll(self.now)
        for results in owed.results:
            self.released += results.released
            results.deliver()
        for dispatch in owed.dispatches:
            self.wire[dispatch.sequencer.queue] += [(dispatch.sequencer, batch) for batch in dispatch.batches]
        wake = self.accumulator.next_wake()
        assert wake is None or wake > self.now, "a timer that is due at once would run for ever"

    @invariant()
    def holds(self) -> None:
        everything = [value for broker in self.brokers for value in broker.log]
        assert len(everything) == len(set(everything)), "a message is in a log twice, or in two logs"
        for queue, broker in enumerate(self.brokers):
            bound = [value for value in broker.log if value in self.bound]
            assert {self.bound[value] for value in bound} <= {queue}, "a message is not in its chosen queue"
            assert bound == sorted(bound), "messages are out of order"
        for fate in self.fates:
            if fate.first_offset is not None and fate.queue is not None:
                assert self.brokers[fate.queue].log[fate.first_offset] == fate.values[0], "wrong offset"
            if isinstance(fate.error, DeliveryTimeoutError) and not fate.error.maybe_committed:
                assert fate.values[0] not in everything, "a message is in a log that was reported as not committed"

    def teardown(self) -> None:
        """Without further faults, every message gets a result, and a new message in each queue is acknowledged."""
        if not hasattr(self, "accumulator"):
            return
        self.now += 2000
        for queue in range(3):
            self.add(queue, bound=True)
        for _ in range(1000):
            self.poll()
            if any(self.wire):
                for queue in range(3):
                    self.arrives_and_is_answered(queue)
            elif all(sequencer.idle for sequencer in self.sequencers):
                break
            else:
                self.now = self.accumulator.next_wake() or self.now
        assert all(sequencer.idle for sequencer in self.sequencers)
        assert all(fate.told for fate in self.fates)
        assert all(fate.first_offset is not None for fate in self.fates[-3:])
        assert self.released == self.reserved
        self.holds()


TestGroups = ShardsMachine.TestCase
TestGroups.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.fixture
def accumulator() -> Accumulator:
    return Accumulator(DeliverySettings(producer_id=9, linger_ms=0), Backoff(20, 1000, random.Random(1)))


def add(
    accumulator: Accumulator, sequencer: QueueSequencer, value: bytes, *, bound: bool = False, now: float = 0
) -> Fate:
    fate = Fate([value])
    accumulator.add(sequencer, Piece([value], len(value), fate, bound=bound), now, wall_ms=0, close=True)
    return fate


def sent_to(accumulator: Accumulator, now: float) -> dict[int, list[ProducerBatch]]:
    return {dispatch.sequencer.queue: dispatch.batches for dispatch in accumulator.poll(now).dispatches}


@pytest.mark.parametrize("error", [BusyError("full"), NotLeaderError("who?", not_appended=True)])
def test_on_failure_the_next_attempt_is_made_in_another_shard(accumulator: Accumulator, error: LedgerError) -> None:
    sequencers = made(accumulator)
    fate = add(accumulator, sequencers[0], b"a")
    [batch] = sent_to(accumulator, 0)[0]
    accumulator.answered(sequencers[0], batch, error, 0)
    assert sent_to(accumulator, 0) == {1: [batch]}, "the other shard gets the batch at once, without a back-off"
    broker = NaiveBroker()
    for results in accumulator.answered(sequencers[1], batch, broker.produce(batch.encoded), 1):
        results.deliver()
    assert (fate.queue, fate.first_offset, broker.log) == (1, 0, [b"a"])
    assert sequencers[0].idle


@pytest.mark.parametrize("error", [UnavailableError("broken"), NotLeaderError("who?")])
def test_what_may_be_appended_stays_and_what_waits_behind_it_goes(accumulator: Accumulator, error: LedgerError) -> None:
    sequencers = made(accumulator)
    for number in range(7):
        add(accumulator, sequencers[0], b"%d" % number)
    flight = sent_to(accumulator, 0)[0]
    assert len(flight) == 5
    for batch in flight:
        accumulator.answered(sequencers[0], batch, error, 0)
    moved = sent_to(accumulator, 0)
    assert {queue: len(batches) for queue, batches in moved.items()} == {1: 1, 2: 1}
    assert sent_to(accumulator, 1000) == {0: flight}


def test_what_belongs_in_a_queue_stays_there(accumulator: Accumulator) -> None:
    sequencers = made(accumulator)
    add(accumulator, sequencers[0], b"a", bound=True)
    [batch] = sent_to(accumulator, 0)[0]
    accumulator.answered(sequencers[0], batch, BusyError("full"), 0)
    assert sent_to(accumulator, 0) == {}
    assert sent_to(accumulator, 1000) == {0: [batch]}


def test_without_another_shard_that_answers_it_stays(accumulator: Accumulator) -> None:
    sequencers = made(accumulator)
    for sequencer in sequencers:
        add(accumulator, sequencer, b"%d" % sequencer.queue, bound=sequencer.queue > 0)
    for queue, [batch] in sent_to(accumulator, 0).items():
        accumulator.answered(sequencers[queue], batch, BusyError("full"), 0)
    assert sent_to(accumulator, 0) == {}
    assert sorted(sent_to(accumulator, 1000)) == [0, 1, 2]


def test_a_shard_that_is_passed_over_takes_nothing_over() -> None:
    faults = FaultTable(((100, 5_000),))
    accumulator = Accumulator(DeliverySettings(producer_id=9), Backoff(20, 1000, random.Random(1)), faults)
    sequencers = made(accumulator)
    faults.answered(1, 100, 0)
    add(accumulator, sequencers[0], b"a")
    [batch] = sent_to(accumulator, 0)[0]
    accumulator.answered(sequencers[0], batch, BusyError("full"), 0)
    assert sent_to(accumulator, 0) == {}


def test_what_is_put_off_stays(accumulator: Accumulator) -> None:
    """A throttled batch waits for its own shard. Throttling is no failure, so the batch does not go to another
    shard.
    """
    sequencers = made(accumulator)
    add(accumulator, sequencers[0], b"a")
    [batch] = sent_to(accumulator, 0)[0]
    accumulator.answered(sequencers[0], batch, ThrottledError("enough", throttle_ms=300), 0)
    assert sent_to(accumulator, 299) == {}
    assert accumulator.next_wake() == 300
    assert sent_to(accumulator, 300) == {0: [batch]}


def test_what_comes_from_another_queue_still_times_out_in_time(accumulator: Accumulator) -> None:
    """A batch that moves to another queue waits behind newer batches, which already have sequence numbers there. The
    moved batch must still fail at its own delivery timeout.
    """
    sequencers = made(accumulator)
    old = add(accumulator, sequencers[0], b"old")
    [batch] = sent_to(accumulator, 0)[0]
    for number in range(5):
        add(accumulator, sequencers[1], b"%d" % number, now=60_000)
    assert len(sent_to(accumulator, 60_000)[1]) == 5
    add(accumulator, sequencers[2], b"6", bound=True, now=60_000)
    [other] = sent_to(accumulator, 60_000)[2]
    accumulator.answered(sequencers[2], other, BusyError("full"), 60_000)
    accumulator.answered(sequencers[0], batch, BusyError("full"), 60_000)
    assert sent_to(accumulator, 60_000) == {}, "queue 1 already has five batches in flight"
    assert accumulator.next_wake() is not None
    for results in accumulator.poll(120_000).results:
        results.deliver()
    assert isinstance(old.error, DeliveryTimeoutError)
    assert not old.error.maybe_committed


def test_a_batch_that_timed_out_does_not_move() -> None:
    """Two batches fail without an answer and use up their retries. Then a batch before them leaves a gap, so they are
    certainly not in the log. They must not move to queue 0, where they would hide the deadlines of later batches.
    """
    machine = ShardsMachine()
    machine.make(seed=0, batch_bytes=1, retries=0)
    machine.send(queue=0, bound=False, count=1)
    machine.is_refused_for_now(queue=0, error=ThrottledError)
    machine.send(queue=1, bound=False, count=3)
    machine.time_passes(ms=1)
    machine.is_refused_for_now(queue=1, error=BusyError)
    machine.send(queue=0, bound=False, count=1)
    machine.the_stream_to_a_shard_breaks(shard=1, arrived=0, sent=2)
    machine.there_is_a_new_leader(shard=1)
    machine.is_refused_for_now(queue=1, error=NotLeaderError)
    machine.poll()
    machine.teardown()


def answered(accumulator: Accumulator, sequencer: QueueSequencer, batch: ProducerBatch, answer: Answer) -> None:
    for results in accumulator.answered(sequencer, batch, answer, 0):
        results.deliver()


def test_what_left_a_queue_leaves_no_trace_in_its_numbers(accumulator: Accumulator) -> None:
    """A batch that moved to another queue leaves no gap. The remaining batches get new sequence numbers, and the broker
    accepts them.
    """
    sequencers, broker = made(accumulator), NaiveBroker()
    add(accumulator, sequencers[0], b"goes")
    stays = add(accumulator, sequencers[0], b"stays", bound=True)
    flight = sent_to(accumulator, 0)[0]
    for batch in flight:
        answered(accumulator, sequencers[0], batch, BusyError("full"))
    sent_to(accumulator, 0)
    [again] = sent_to(accumulator, 1000)[0]
    answer = broker.produce(again.encoded)
    assert isinstance(answer, Acknowledged)
    answered(accumulator, sequencers[0], again, answer)
    assert (stays.first_offset, broker.log) == (0, [b"stays"])
