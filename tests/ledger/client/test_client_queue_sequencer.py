"""Tests the queue sequencer: how it closes, numbers, retries and expires the batches of one queue."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from ledger.batch import Batch
from ledger.client.connection.backoff import Backoff
from ledger.client.producer.delivery import MAX_BATCH_MESSAGES, DeliverySettings
from ledger.client.producer.producer_batch import Acknowledged, BatchResult, Piece, ProducerBatch
from ledger.client.producer.queue_sequencer import QueueSequencer
from ledger.errors import (
    AuthenticationError,
    BusyError,
    ClosedError,
    DeliveryTimeoutError,
    DuplicateForgottenError,
    InternalError,
    InvalidArgumentError,
    LedgerError,
    MessageTooLargeError,
    NoLeaderError,
    NotLeaderError,
    PermissionDeniedError,
    ProducerFencedError,
    SequenceGapError,
    ThrottledError,
    UnavailableError,
    UnknownTopicError,
)
from ledger.timed import WaitingMessages

TIMEOUT_MS = 1000.0
WAIT_MS = 20.0


@dataclass
class Note:
    """A receipt that records its results, and asserts that none follows an error."""

    offsets: list[tuple[int, int]] = field(default_factory=list)
    error: LedgerError | None = None

    def acknowledged(self, queue: int, first_offset: int, count: int, answer: Acknowledged) -> None:
        assert self.error is None
        self.offsets.append((first_offset, count))

    def scheduled(self, queue: int, waiting: WaitingMessages, answer: Acknowledged) -> None:
        raise AssertionError("the messages have no delivery times")

    def failed(self, error: LedgerError) -> None:
        assert self.error is None
        assert not self.offsets
        self.error = error


class NoJitter(random.Random):
    def random(self) -> float:
        return 1.0


def make_sequencer(**settings: object) -> QueueSequencer:
    delivery = DeliverySettings(producer_id=7, delivery_timeout_ms=TIMEOUT_MS, **settings)  # type: ignore[arg-type]
    return QueueSequencer(1, 0, 0, delivery, Backoff(WAIT_MS, 1000, NoJitter()))


def add(sequencer: QueueSequencer, *values: bytes, now: float = 0, close: bool = False) -> Note:
    note = Note()
    sequencer.add(Piece(list(values), sum(map(len, values)), note), now, wall_ms=5_000, close=close)
    return note


def add_closed(sequencer: QueueSequencer, count: int, now: float = 0) -> list[Note]:
    return [add(sequencer, b"%d" % number, now=now, close=True) for number in range(count)]


def acknowledge(sequencer: QueueSequencer, batch: ProducerBatch, base_offset: int = 0, now: float = 0) -> None:
    deliver(sequencer.answered(batch, Acknowledged(base_offset, 1, 9, duplicate=False), now))


def fail(
    sequencer: QueueSequencer, batch: ProducerBatch, error: LedgerError, now: float = 0, *, sent: bool = True
) -> None:
    deliver(sequencer.answered(batch, error, now, sent=sent))


def deliver(results: list[BatchResult]) -> int:
    for one in results:
        one.deliver()
    return sum(one.released for one in results)


def place(batch: ProducerBatch) -> tuple[int, int]:
    """Return the epoch and the first sequence number in the batch's encoded header."""
    header = Batch(batch.encoded).header
    return header.epoch, header.first_sequence


def values(batch: ProducerBatch) -> list[bytes]:
    return Batch(batch.encoded).values()


# --- on which stream a batch goes ------------------------------------------------------------------------------------


def goes_in_bulk(sequencer: QueueSequencer) -> bool:
    return sequencer.in_bulk


def test_a_large_batch_waits_until_the_small_ones_have_their_answers() -> None:
    """Large batches have a stream of their own, which would not keep their order with small ones that are in flight."""
    sequencer = make_sequencer()
    add_closed(sequencer, 2)
    add(sequencer, bytes(20_000), close=True)
    small = sequencer.take(0)
    assert len(small) == 2
    assert not goes_in_bulk(sequencer)
    acknowledge(sequencer, small[0])
    assert sequencer.take(0) == []
    acknowledge(sequencer, small[1], 1)
    (large,) = sequencer.take(0)
    assert goes_in_bulk(sequencer)
    assert place(large) == (0, 2)


def test_small_batches_follow_a_large_one_on_its_stream() -> None:
    sequencer = make_sequencer()
    add(sequencer, bytes(20_000), close=True)
    add_closed(sequencer, 1)
    large, small = sequencer.take(0)
    assert goes_in_bulk(sequencer)
    acknowledge(sequencer, large)
    add_closed(sequencer, 1)
    (third,) = sequencer.take(0)
    assert goes_in_bulk(sequencer)
    acknowledge(sequencer, small, 1)
    acknowledge(sequencer, third, 2)
    add_closed(sequencer, 1)
    assert len(sequencer.take(0)) == 1
    assert not goes_in_bulk(sequencer)


def test_the_small_rest_of_a_send_many_goes_with_its_large_batches() -> None:
    """If the rest went on the stream of small batches, each call would cost two requests, and the next large batch of
    the queue would wait for the rest's answer."""
    sequencer = make_sequencer()
    add(sequencer, bytes(20_000), close=True)
    (first,) = sequencer.take(0)
    acknowledge(sequencer, first)
    add_closed(sequencer, 1)
    add(sequencer, bytes(20_000), close=True)
    rest, large = sequencer.take(0)
    assert goes_in_bulk(sequencer)
    acknowledge(sequencer, rest, 1)
    acknowledge(sequencer, large, 2)


@pytest.mark.parametrize(("batch_bytes", "large"), [(256 << 10, 17 << 10), (16_000, 1_100)])
def test_what_is_small_follows_from_the_size_of_batches(batch_bytes: int, large: int) -> None:
    for size, in_bulk in ((large, True), (large // 2, False)):
        sequencer = make_sequencer(batch_bytes=batch_bytes)
        add(sequencer, bytes(size), close=True)
        assert len(sequencer.take(0)) == 1
        assert goes_in_bulk(sequencer) is in_bulk


# --- when a batch closes ---------------------------------------------------------------------------------------------


def test_a_lone_message_goes_at_once() -> None:
    sequencer = make_sequencer(linger_ms=5)
    add(sequencer, b"a")
    assert [values(batch) for batch in sequencer.take(0)] == [[b"a"]]


def test_messages_of_one_turn_share_a_batch() -> None:
    sequencer = make_sequencer()
    add(sequencer, b"a")
    add(sequencer, b"b")
    assert [values(batch) for batch in sequencer.take(0)] == [[b"a", b"b"]]


def test_a_batch_lingers_while_an_earlier_one_is_in_flight() -> None:
    sequencer = make_sequencer(linger_ms=5)
    add(sequencer, b"a")
    sequencer.take(0)
    add(sequencer, b"b", now=1)
    assert sequencer.take(1) == []
    assert sequencer.next_wake() == 6
    assert sequencer.take(5.9) == []
    assert [values(batch) for batch in sequencer.take(6)] == [[b"b"]]


def test_an_acknowledgement_ends_the_lingering() -> None:
    sequencer = make_sequencer(linger_ms=5)
    add(sequencer, b"a")
    [first] = sequencer.take(0)
    add(sequencer, b"b", now=1)
    acknowledge(sequencer, first, now=2)
    assert [values(batch) for batch in sequencer.take(2)] == [[b"b"]]


def test_to_hasten_ends_the_lingering() -> None:
    sequencer = make_sequencer(linger_ms=5)
    add(sequencer, b"a")
    sequencer.take(0)
    add(sequencer, b"b", now=1)
    sequencer.hasten(1)
    assert [values(batch) for batch in sequencer.take(1)] == [[b"b"]]


def test_a_full_batch_closes_by_bytes() -> None:
    sequencer = make_sequencer(batch_bytes=100)
    add(sequencer, b"x" * 60)
    add(sequencer, b"y" * 60)
    assert sequencer.closed == 1
    add(sequencer, b"z" * 100)
    assert sequencer.closed == 3
    assert [len(values(batch)) for batch in sequencer.take(0)] == [1, 1, 1]


def test_a_full_batch_closes_by_count() -> None:
    sequencer = make_sequencer(batch_bytes=64 << 20)
    add(sequencer, *[b""] * (MAX_BATCH_MESSAGES - 1))
    add(sequencer, b"", b"")
    assert sequencer.closed == 1
    assert [len(values(batch)) for batch in sequencer.take(0)] == [MAX_BATCH_MESSAGES - 1]


def test_a_batch_that_could_not_go_gathers_more_instead_of_closing() -> None:
    sequencer = make_sequencer(linger_ms=5)
    notes = add_closed(sequencer, 5)
    in_flight = sequencer.take(0)
    assert len(in_flight) == len(notes)
    add(sequencer, b"x")
    assert sequencer.take(100) == []
    add(sequencer, b"y", now=100)
    acknowledge(sequencer, in_flight[0], now=101)
    assert [values(batch) for batch in sequencer.take(101)] == [[b"x", b"y"]]


def test_at_most_five_batches_are_in_flight() -> None:
    sequencer = make_sequencer()
    add_closed(sequencer, 7)
    in_flight = sequencer.take(0)
    assert len(in_flight) == 5
    assert sequencer.take(0) == []
    acknowledge(sequencer, in_flight[0])
    assert len(sequencer.take(0)) == 1


# --- numbers and results ---------------------------------------------------------------------------------------------


def test_sequences_count_messages() -> None:
    sequencer = make_sequencer()
    add(sequencer, b"a", b"b", b"c", close=True)
    add(sequencer, b"d", close=True)
    add(sequencer, b"e", close=True)
    assert [place(batch) for batch in sequencer.take(0)] == [(0, 0), (0, 3), (0, 4)]


def test_receipts_get_their_part_of_the_batch() -> None:
    sequencer = make_sequencer()
    one, many, last = add(sequencer, b"a"), add(sequencer, b"b", b"c"), add(sequencer, b"d")
    [batch] = sequencer.take(0)
    acknowledge(sequencer, batch, base_offset=40)
    assert [one.offsets, many.offsets, last.offsets] == [[(40, 1)], [(41, 2)], [(43, 1)]]
    assert sequencer.idle


def test_columns_are_filled_up_for_messages_that_have_none() -> None:
    sequencer = make_sequencer()
    add(sequencer, b"a")
    piece = Piece([b"b", b"c"], 2, Note(), key=b"k", tag="t", headers=(("h", b"1"),), timestamp_ms=77)
    sequencer.add(piece, 0, wall_ms=5_000)
    add(sequencer, b"d")
    [outgoing] = sequencer.take(0)
    batch = Batch(outgoing.encoded)
    assert batch.values() == [b"a", b"b", b"c", b"d"]
    assert batch.keys() == [None, b"k", b"k", None]
    assert batch.tags() == [None, "t", "t", None]
    assert [list(headers) for headers in batch.headers()] == [[], [("h", b"1")], [("h", b"1")], []]
    assert batch.timestamps_ms() == [5_000, 77, 77, 5_000]


# --- failures --------------------------------------------------------------------------------------------------------


def test_a_failed_attempt_is_repeated_with_the_same_bytes_after_a_back_off() -> None:
    sequencer = make_sequencer()
    note = add(sequencer, b"a")
    [batch] = sequencer.take(0)
    before = batch.encoded
    fail(sequencer, batch, UnavailableError("gone"), now=10)
    assert sequencer.take(10) == []
    assert sequencer.next_wake() == 10 + WAIT_MS
    [again] = sequencer.take(10 + WAIT_MS)
    assert again is batch
    assert again.encoded == before
    acknowledge(sequencer, again, 3)
    assert note.offsets == [(3, 1)]


def test_the_back_off_doubles_and_an_acknowledgement_resets_it() -> None:
    sequencer = make_sequencer()
    add(sequencer, b"a", close=True)
    now = 0.0
    for expected in (20, 40, 80):
        [batch] = sequencer.take(now)
        fail(sequencer, batch, BusyError(), now)
        assert sequencer.next_wake() == now + expected
        now += expected
    [batch] = sequencer.take(now)
    acknowledge(sequencer, batch, now=now)
    add(sequencer, b"b", now=now)
    [batch] = sequencer.take(now)
    fail(sequencer, batch, BusyError(), now)
    assert sequencer.next_wake() == now + 20


def test_to_hurry_ends_the_back_off() -> None:
    sequencer = make_sequencer()
    add(sequencer, b"a")
    [batch] = sequencer.take(0)
    fail(sequencer, batch, NotLeaderError())
    sequencer.hurry(1)
    assert sequencer.take(1) == [batch]


def test_nothing_new_goes_out_until_all_that_is_in_flight_is_answered() -> None:
    sequencer = make_sequencer()
    add_closed(sequencer, 4)
    first, second, third, fourth = sequencer.take(0)
    fail(sequencer, first, BusyError())
    fail(sequencer, second, SequenceGapError())
    assert sequencer.take(500) == []
    fail(sequencer, third, SequenceGapError(), now=500)
    fail(sequencer, fourth, SequenceGapError(), now=500)
    again = sequencer.take(500)
    assert again == [first, second, third, fourth]
    assert [place(batch) for batch in again] == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_a_later_batch_may_be_acknowledged_before_an_earlier_one() -> None:
    """The broker appended the earlier batch, but its answer was lost. Only that batch and other failed batches are sent
    again, under their old numbers.
    """
    sequencer = make_sequencer()
    notes = add_closed(sequencer, 3)
    first, second, third = sequencer.take(0)
    fail(sequencer, first, NotLeaderError())
    acknowledge(sequencer, second, 1)
    fail(sequencer, third, NotLeaderError())
    assert sequencer.take(WAIT_MS) == [first, third]
    assert [place(first), place(third)] == [(0, 0), (0, 2)]
    assert notes[1].offsets == [(1, 1)]


# --- permanent refusals ----------------------------------------------------------------------------------------------


def test_those_behind_a_refused_batch_are_numbered_anew() -> None:
    sequencer = make_sequencer()
    notes = add_closed(sequencer, 4)
    batches = sequencer.take(0)
    acknowledge(sequencer, batches[0])
    fail(sequencer, batches[1], MessageTooLargeError("too large"))
    fail(sequencer, batches[2], SequenceGapError())
    fail(sequencer, batches[3], SequenceGapError())
    again = sequencer.take(WAIT_MS)
    assert [values(batch) for batch in again] == [[b"2"], [b"3"]]
    assert [place(batch) for batch in again] == [(1, 0), (1, 1)]
    assert isinstance(notes[1].error, MessageTooLargeError)
    add(sequencer, b"next", close=True)
    assert [place(batch) for batch in sequencer.take(WAIT_MS)] == [(1, 2)]


def test_a_lost_answer_behind_a_refused_batch_leaves_no_doubt() -> None:
    """The broker accepts only consecutive sequence numbers. Therefore if a batch was refused, no later batch of the
    same epoch can be in the log, even if its answer was lost.
    """
    sequencer = make_sequencer()
    add_closed(sequencer, 2)
    first, second = sequencer.take(0)
    fail(sequencer, first, MessageTooLargeError("too large"))
    fail(sequencer, second, UnavailableError("gone"))
    assert [place(batch) for batch in sequencer.take(WAIT_MS)] == [(1, 0)]
    assert not second.doubtful


def test_what_is_behind_a_refused_batch_waits_until_what_is_before_it_is_settled() -> None:
    """Batches after a refused batch get a new epoch, and the new epoch fences the old one. Therefore the later batches
    wait until earlier batches of the old epoch have a result.
    """
    sequencer = make_sequencer()
    add_closed(sequencer, 3)
    doubtful, refused, behind = sequencer.take(0)
    fail(sequencer, doubtful, NotLeaderError("no longer"))
    fail(sequencer, refused, MessageTooLargeError("too large"))
    fail(sequencer, behind, SequenceGapError())
    assert sequencer.take(WAIT_MS) == [doubtful]
    assert place(doubtful) == (0, 0)
    acknowledge(sequencer, doubtful)
    assert sequencer.take(WAIT_MS) == [behind]
    assert place(behind) == (1, 0)


def test_the_number_of_a_refused_batch_is_used_again_where_no_later_one_was_given() -> None:
    sequencer = make_sequencer()
    add_closed(sequencer, 2)
    first, second = sequencer.take(0)
    acknowledge(sequencer, first)
    fail(sequencer, second, MessageTooLargeError("too large"))
    add(sequencer, b"next")
    assert [place(batch) for batch in sequencer.take(WAIT_MS)] == [(0, 1)]


@pytest.mark.parametrize("refusal", [DuplicateForgottenError("long ago"), InternalError("bug")])
def test_a_refusal_that_leaves_doubt_frees_no_number(refusal: LedgerError) -> None:
    sequencer = make_sequencer()
    notes = add_closed(sequencer, 2)
    first, second = sequencer.take(0)
    fail(sequencer, first, refusal)
    fail(sequencer, second, BusyError())
    assert [place(batch) for batch in sequencer.take(WAIT_MS)] == [(0, 1)]
    error = notes[0].error
    assert error is refusal or (isinstance(error, DeliveryTimeoutError) and error.__cause__ is refusal)


@pytest.mark.parametrize(
    ("refusal", "sent"),
    [
        (PermissionDeniedError("no right"), True),
        (AuthenticationError("the token has ended"), True),
        (AuthenticationError("the token has ended"), False),
        (ProducerFencedError("another one"), True),
        (InvalidArgumentError("the file of the password cannot be read"), False),
    ],
)
def test_a_refusal_after_a_lost_attempt_leaves_the_result_unknown(refusal: LedgerError, sent: bool) -> None:
    """The broker refuses the batch before it looks whether the first attempt has appended it."""
    sequencer = make_sequencer()
    *_, note = add_closed(sequencer, 2)
    for batch in sequencer.take(0):
        fail(sequencer, batch, UnavailableError("the node died"))
    for batch in sequencer.take(WAIT_MS):
        fail(sequencer, batch, refusal, now=WAIT_MS, sent=sent)
    assert isinstance(note.error, DeliveryTimeoutError)
    assert note.error.maybe_committed
    assert note.error.__cause__ is refusal
    assert "1 message(s) for queue 0 of topic 1 were sent, and it is unknown whether" in note.error.message
    assert f"the last error was: {refusal.message}. They may be in the queue now" in note.error.message
    assert sequencer.idle


@pytest.mark.parametrize(
    "refusal",
    [PermissionDeniedError("no right"), AuthenticationError("the token has ended"), ProducerFencedError("another one")],
)
def test_a_refusal_of_the_first_attempt_is_certain(refusal: LedgerError) -> None:
    sequencer = make_sequencer()
    note = add(sequencer, b"a")
    [batch] = sequencer.take(0)
    fail(sequencer, batch, refusal)
    assert note.error is refusal


@pytest.mark.parametrize(
    "refusal",
    [UnknownTopicError("deleted"), InvalidArgumentError("no key"), PermissionDeniedError("no right", places=(0,))],
)
def test_a_refusal_that_concerns_all_attempts_is_certain(refusal: LedgerError) -> None:
    sequencer = make_sequencer()
    note = add(sequencer, b"a")
    [batch] = sequencer.take(0)
    fail(sequencer, batch, UnavailableError("the node died"))
    [batch] = sequencer.take(WAIT_MS)
    fail(sequencer, batch, refusal, now=WAIT_MS)
    assert note.error is refusal


def test_a_fenced_producer_writes_nothing_any_more() -> None:
    sequencer = make_sequencer()
    notes = [*add_closed(sequencer, 6), add(sequencer, b"open")]
    batches = sequencer.take(0)
    for batch in batches:
        fail(sequencer, batch, ProducerFencedError("another one"))
    assert all(isinstance(note.error, ProducerFencedError) for note in notes)
    assert sequencer.idle
    assert isinstance(sequencer.fenced, ProducerFencedError)


# --- gaps ------------------------------------------------------------------------------------------------------------


def test_a_gap_before_a_clean_head_starts_a_new_epoch() -> None:
    """The broker has forgotten this producer, and no attempt of the first batch can be in a log. Therefore the batches
    are sent again in a new epoch.
    """
    sequencer = make_sequencer()
    add(sequencer, b"a", close=True)
    [batch] = sequencer.take(0)
    acknowledge(sequencer, batch)
    notes = add_closed(sequencer, 2)
    head, other = sequencer.take(0)
    fail(sequencer, head, SequenceGapError())
    fail(sequencer, other, SequenceGapError())
    again = sequencer.take(WAIT_MS)
    assert [place(batch) for batch in again] == [(1, 0), (1, 1)]
    for offset, batch in enumerate(again, 10):
        acknowledge(sequencer, batch, offset)
    assert [note.offsets for note in notes] == [[(10, 1)], [(11, 1)]]


def test_a_gap_before_a_doubtful_head_renumbers_nothing() -> None:
    """An earlier attempt of the batch may be in another leader's log. With a new number, the message could be in the
    log twice, so the batch keeps its number.
    """
    sequencer = make_sequencer()
    add(sequencer, b"a")
    [batch] = sequencer.take(0)
    fail(sequencer, batch, UnavailableError("gone"))
    [batch] = sequencer.take(WAIT_MS)
    fail(sequencer, batch, SequenceGapError(), now=WAIT_MS)
    [batch] = sequencer.take(500)
    assert place(batch) == (0, 0)


def test_a_batch_that_never_left_the_process_is_not_doubtful() -> None:
    sequencer = make_sequencer()
    add(sequencer, b"a")
    [batch] = sequencer.take(0)
    fail(sequencer, batch, UnavailableError("no connection"), sent=False)
    assert not batch.doubtful


# --- time ------------------------------------------------------------------------------------------------------------


def test_what_was_never_sent_times_out_as_not_committed_and_leaves_no_hole() -> None:
    sequencer = make_sequencer()
    add_closed(sequencer, 5, now=500)
    in_flight = sequencer.take(500)
    waiting = add(sequencer, b"waiting", now=500, close=True)
    still_open = add(sequencer, b"open", now=900)
    assert sequencer.expire(1499) == []
    released = deliver(sequencer.expire(1500))
    assert isinstance(waiting.error, DeliveryTimeoutError)
    assert not waiting.error.maybe_committed
    assert still_open.error is None
    assert released > 0
    for batch in in_flight:
        assert sequencer.take(1500) == []
        acknowledge(sequencer, batch, now=1500)
    [batch] = sequencer.take(1500)
    assert values(batch) == [b"open"]
    assert place(batch) == (0, 5)


def test_an_open_batch_times_out_too() -> None:
    sequencer = make_sequencer(linger_ms=5000)
    add(sequencer, b"a")
    [batch] = sequencer.take(0)
    note = add(sequencer, b"b", now=1)
    deliver(sequencer.expire(1001))
    assert isinstance(note.error, DeliveryTimeoutError)
    assert not note.error.maybe_committed
    acknowledge(sequencer, batch, now=1002)
    assert sequencer.idle


def test_what_is_in_flight_times_out_as_unknown_and_is_settled_before_others_go() -> None:
    sequencer = make_sequencer()
    note = add(sequencer, b"a")
    [batch] = sequencer.take(0)
    later = add(sequencer, b"b", now=900)
    assert deliver(sequencer.expire(1000)) == 0
    assert isinstance(note.error, DeliveryTimeoutError)
    assert note.error.maybe_committed
    fail(sequencer, batch, UnavailableError("gone"), now=1100)
    assert sequencer.take(1100) == []
    assert sequencer.take(1200) == [batch]
    results = sequencer.answered(batch, Acknowledged(0, 1, 9, duplicate=True), 1300)
    assert [one.released for one in results] == [batch.size]
    assert not results[0].receipts
    [batch] = sequencer.take(1300)
    assert values(batch) == [b"b"]
    assert later.error is None


def test_what_was_only_refused_so_far_times_out_as_not_committed() -> None:
    sequencer = make_sequencer()
    notes = add_closed(sequencer, 1, now=0) + add_closed(sequencer, 1, now=100)
    first, second = sequencer.take(100)
    fail(sequencer, first, BusyError(), now=200)
    fail(sequencer, second, SequenceGapError(), now=200)
    deliver(sequencer.expire(1000))
    assert isinstance(notes[0].error, DeliveryTimeoutError)
    assert not notes[0].error.maybe_committed
    [batch] = sequencer.take(1000)
    assert batch is second
    assert place(batch) == (1, 0)


def test_a_timed_out_batch_that_never_arrived_is_given_up_at_a_gap() -> None:
    sequencer = make_sequencer()
    add(sequencer, b"a", close=True)
    [lost] = sequencer.take(0)
    fail(sequencer, lost, UnavailableError("gone"))
    deliver(sequencer.expire(1000))
    later = add(sequencer, b"b", now=1000)
    assert sequencer.take(1000) == [lost]
    assert deliver(sequencer.answered(lost, SequenceGapError(), 1000)) == lost.size
    [batch] = sequencer.take(2000)
    assert (values(batch), place(batch)) == ([b"b"], (0, 1))
    fail(sequencer, batch, SequenceGapError(), now=2000)
    sequencer.hurry(2000)
    [batch] = sequencer.take(2000)
    assert place(batch) == (1, 0)
    acknowledge(sequencer, batch, 5)
    assert later.offsets == [(5, 1)]


def test_a_message_does_not_share_the_timeout_of_much_older_ones() -> None:
    sequencer = make_sequencer()
    add(sequencer, b"a")
    [batch] = sequencer.take(0)
    fail(sequencer, batch, BusyError(), now=1)
    old, joins, new = add(sequencer, b"old", now=2), add(sequencer, b"joins", now=100), add(sequencer, b"new", now=950)
    deliver(sequencer.expire(1002))
    assert old.error is not None
    assert joins.error is not None
    assert new.error is None


def test_a_timed_out_batch_that_turns_out_not_to_have_been_appended_is_not_tried_again() -> None:
    sequencer = make_sequencer()
    add(sequencer, b"a")
    [batch] = sequencer.take(0)
    deliver(sequencer.expire(1000))
    assert deliver(sequencer.answered(batch, BusyError(), 1001)) == batch.size
    assert sequencer.idle
    add(sequencer, b"b", now=1001)
    assert [place(batch) for batch in sequencer.take(1001)] == [(0, 0)]


def test_the_next_wake_is_the_next_deadline_while_an_answer_is_awaited() -> None:
    sequencer = make_sequencer()
    assert sequencer.next_wake() is None
    add(sequencer, b"a", now=10)
    sequencer.take(10)
    assert sequencer.next_wake() == 1010
    sequencer.expire(1010)
    assert sequencer.next_wake() is None


# --- closing ---------------------------------------------------------------------------------------------------------


def test_to_abandon_tells_the_sent_from_the_unsent() -> None:
    sequencer = make_sequencer()
    notes = add_closed(sequencer, 6)
    still_open = add(sequencer, b"open")
    batches = sequencer.take(0)
    acknowledge(sequencer, batches[0])
    deliver(sequencer.abandon())
    assert notes[0].error is None
    assert all(isinstance(note.error, DeliveryTimeoutError) and note.error.maybe_committed for note in notes[1:5])
    assert isinstance(notes[5].error, ClosedError)
    assert isinstance(still_open.error, ClosedError)
    assert sequencer.idle


# --- errors of a timeout ---------------------------------------------------------------------------------------------


def test_a_timeout_names_the_last_error_of_the_line() -> None:
    sequencer = make_sequencer()
    notes = add_closed(sequencer, 7)
    in_flight = sequencer.take(0)
    reason = BusyError("the disk is slow.")
    fail(sequencer, in_flight[0], reason)
    for batch in in_flight[1:]:
        fail(sequencer, batch, SequenceGapError("a gap"))
    deliver(sequencer.expire(TIMEOUT_MS))
    for note in notes:  # also of batches that were never sent
        assert isinstance(note.error, DeliveryTimeoutError)
        assert "within 1000 ms; the last error was: the disk is slow. They are not" in note.error.message
        assert note.error.__cause__ is reason


def test_a_timeout_says_why_there_is_no_leader_rather_than_that_there_is_none() -> None:
    sequencer = make_sequencer()
    note = add(sequencer, b"a")
    now = 0.0
    for error in (NoLeaderError("none yet"), BusyError("the disk is full"), NoLeaderError("none now")):
        [batch] = sequencer.take(now)
        fail(sequencer, batch, error, now, sent=not isinstance(error, NoLeaderError))
        now = sequencer.next_wake() or 0
    deliver(sequencer.expire(TIMEOUT_MS))
    assert note.error is not None
    assert isinstance(note.error.__cause__, BusyError)


def test_a_timeout_behind_an_acknowledgement_names_no_earlier_error() -> None:
    sequencer = make_sequencer()
    add(sequencer, b"a", close=True)
    [batch] = sequencer.take(0)
    fail(sequencer, batch, BusyError("busy"))
    [batch] = sequencer.take(WAIT_MS)
    acknowledge(sequencer, batch)
    note = add(sequencer, b"b", now=WAIT_MS)
    sequencer.take(WAIT_MS)
    deliver(sequencer.expire(WAIT_MS + TIMEOUT_MS))
    assert isinstance(note.error, DeliveryTimeoutError)
    assert "within 1000 ms. They may" in note.error.message
    assert note.error.__cause__ is None


# --- the limit of attempts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retries", [0, 2])
def test_a_batch_is_sent_again_as_often_as_it_may_be(retries: int) -> None:
    sequencer = make_sequencer(retries=retries)
    note = add(sequencer, b"a")
    for attempt in range(retries + 1):
        assert note.error is None
        [batch] = sequencer.take(attempt * 100)
        fail(sequencer, batch, BusyError("Full."), now=attempt * 100)
    assert isinstance(note.error, DeliveryTimeoutError)
    assert not note.error.maybe_committed
    assert f"by {retries + 1} attempt(s)" in str(note.error)
    assert "Full" in str(note.error)
    assert sequencer.idle


def test_a_doubtful_batch_without_an_attempt_left_is_unknown_and_is_settled_before_others_go() -> None:
    sequencer = make_sequencer(retries=0)
    note, later = add(sequencer, b"a", close=True), add(sequencer, b"b", close=True)
    first, second = sequencer.take(0)
    fail(sequencer, first, UnavailableError())
    fail(sequencer, second, UnavailableError(), sent=False)
    assert isinstance(note.error, DeliveryTimeoutError)
    assert note.error.maybe_committed
    assert sequencer.take(100) == [first]
    acknowledge(sequencer, first, now=100)
    assert later.error is None
    assert sequencer.take(100) == [second]


def test_what_was_not_sent_and_what_only_waits_for_another_batch_count_as_no_attempt() -> None:
    sequencer = make_sequencer(retries=1)
    notes = add_closed(sequencer, 2)
    for _ in range(3):
        for batch, error in zip(
            sequencer.take(sequencer.next_wake() or 0), (NoLeaderError(), SequenceGapError()), strict=True
        ):
            fail(sequencer, batch, error, sent=isinstance(error, SequenceGapError))
    assert [note.error for note in notes] == [None, None]


# --- throttled -------------------------------------------------------------------------------------------------------


def test_a_throttled_batch_waits_as_long_as_it_is_told_and_keeps_its_number() -> None:
    sequencer = make_sequencer(retries=0)
    note = add(sequencer, b"a")
    [batch] = sequencer.take(0)
    number = place(batch)
    fail(sequencer, batch, ThrottledError(throttle_ms=300), now=1)
    assert sequencer.take(300) == []
    assert sequencer.next_wake() == 301
    assert sequencer.take(301) == [batch]
    assert place(batch) == number
    assert note.error is None
    assert not sequencer.fails


def test_after_a_throttling_batches_go_alone_and_one_more_after_each_that_gets_through() -> None:
    sequencer = make_sequencer()
    add_closed(sequencer, 12)
    flight = sequencer.take(0)
    for batch in flight:
        fail(sequencer, batch, ThrottledError(throttle_ms=10))
    [alone] = sequencer.take(10)
    acknowledge(sequencer, alone)
    first, second = sequencer.take(10)
    acknowledge(sequencer, first)
    assert len(sequencer.take(10)) == 2, "now three batches are in flight"
    fail(sequencer, second, ThrottledError(throttle_ms=10))
    assert sequencer.take(10) == []


# --- two sequencers of one queue -------------------------------------------------------------------------------------


def test_a_sequencer_sends_nothing_before_the_batches_that_it_follows() -> None:
    first, second, freed = make_sequencer(), make_sequencer(), list[str]()
    add_closed(first, 1)
    add(first, b"still open")
    second.follow(first, lambda: freed.append("now"))
    add(second, b"later")
    assert second.take(0) == []
    assert second.next_wake() == TIMEOUT_MS, "nothing but the timeout is due"
    closed, still_open = first.take(5)
    add(first, b"younger", now=6)
    acknowledge(first, closed)
    assert (second.take(6), freed) == ([], [])
    acknowledge(first, still_open)
    assert freed == ["now"]
    assert [values(batch) for batch in second.take(6)] == [[b"later"]]


def test_a_sequencer_that_waits_for_its_turn_after_a_refusal_needs_no_poll() -> None:
    first, second = make_sequencer(), make_sequencer()
    add(second, b"refused")
    fail(second, second.take(0)[0], MessageTooLargeError("too large"))
    add_closed(first, 1)
    second.follow(first, lambda: None)
    add(second, b"later")
    assert second.take(0) == []
    assert second.next_wake() == TIMEOUT_MS
    acknowledge(first, first.take(0)[0])
    assert len(second.take(0)) == 1


def test_a_sequencer_follows_a_batch_that_timed_out_until_its_result_is_known() -> None:
    first, second = make_sequencer(), make_sequencer()
    note = add(first, b"lost")
    (lost,) = first.take(0)
    deliver(first.expire(TIMEOUT_MS))
    assert isinstance(note.error, DeliveryTimeoutError)
    second.follow(first, lambda: None)
    add(second, b"later", now=TIMEOUT_MS)
    assert second.take(TIMEOUT_MS) == []
    fail(first, lost, UnavailableError("gone"), now=TIMEOUT_MS)
    (again,) = first.take(TIMEOUT_MS + WAIT_MS)
    assert second.take(TIMEOUT_MS) == []
    acknowledge(first, again)
    assert len(second.take(TIMEOUT_MS)) == 1


def test_a_sequencer_without_unfinished_batches_is_not_waited_for() -> None:
    first, second = make_sequencer(), make_sequencer()
    add(first, b"a")
    second.follow(first, lambda: None)
    acknowledge(first, first.take(0)[0])
    second.follow(first, lambda: None)
    add(second, b"b")
    assert len(second.take(0)) == 1


# --- refused messages ------------------------------------------------------------------------------------------------


def test_the_rest_of_a_refused_batch_is_sent_before_later_batches() -> None:
    sequencer = make_sequencer()
    notes = [add(sequencer, b"%d" % number) for number in range(3)]
    (batch,) = sequencer.take(0)
    later = add(sequencer, b"later", close=True)
    (second,) = sequencer.take(0)
    fail(sequencer, batch, MessageTooLargeError("too large", places=(1,)))
    assert isinstance(notes[1].error, MessageTooLargeError)
    assert sequencer.take(0) == [], "the later batch is still in flight"
    fail(sequencer, second, SequenceGapError("gap"))
    rest, again = sequencer.take(0)
    assert (values(rest), values(again)) == ([b"0", b"2"], [b"later"])
    assert (place(rest), place(again)) == ((1, 0), (1, 2))
    acknowledge(sequencer, rest)
    acknowledge(sequencer, again, 2)
    assert (notes[0].offsets, notes[2].offsets, later.offsets) == ([(0, 1)], [(1, 1)], [(2, 1)])


def test_the_rest_of_a_refused_batch_gets_a_new_number_also_after_a_lost_attempt() -> None:
    """A leader that names messages has confirmed that it leads, so the batch is in no log."""
    sequencer = make_sequencer()
    notes = [add(sequencer, b"%d" % number) for number in range(2)]
    (batch,) = sequencer.take(0)
    fail(sequencer, batch, UnavailableError("lost"))
    (again,) = sequencer.take(WAIT_MS)
    fail(sequencer, again, MessageTooLargeError("too large", places=(1,)))
    assert isinstance(notes[1].error, MessageTooLargeError)
    (rest,) = sequencer.take(WAIT_MS)
    assert (values(rest), place(rest)) == ([b"0"], (1, 0))
    acknowledge(sequencer, rest)
    assert notes[0].offsets == [(0, 1)]


def test_the_number_of_a_rest_that_times_out_is_free_again() -> None:
    sequencer = make_sequencer()
    notes = [add(sequencer, b"%d" % number) for number in range(3)]
    (batch,) = sequencer.take(0)
    fail(sequencer, batch, MessageTooLargeError("too large", places=(1,)))
    deliver(sequencer.expire(TIMEOUT_MS))
    assert isinstance(notes[0].error, DeliveryTimeoutError)
    assert not notes[0].error.maybe_committed
    add(sequencer, b"later", now=TIMEOUT_MS)
    assert [place(each) for each in sequencer.take(TIMEOUT_MS)] == [(0, 0)]


def test_a_sequencer_that_follows_another_one_keeps_its_place_behind_the_first() -> None:
    """The second follows the first, which has a message of the third's producer."""
    first, second, third = make_sequencer(), make_sequencer(), make_sequencer()
    add_closed(first, 1)
    third.follow(first, lambda: None)
    second.follow(first, lambda: None)
    third.follow(second, lambda: None)
    add(third, b"later")
    assert third.take(0) == []
    acknowledge(first, first.take(0)[0])
    assert len(third.take(0)) == 1
