"""Numbers, orders and retries the batches of one queue.

A broker appends a batch only after the batch with the previous sequence number, so the batches of a queue keep their
order. The sequencer repeats every attempt with the same number and the same bytes until the result of the batch is
known.

    line:  [ in flight | in flight | ... (at most 5) | waiting | waiting | ... ]   open batch
             sent, no answer yet, all on one stream    closed, no number yet        still collects messages

A batch gets its sequence number when it is sent for the first time, so a batch that is never sent leaves no gap. When
an attempt fails, the sequencer *halts*: it sends nothing until every attempt in flight has an answer. After a back-off
the sequencer sends its unfinished batches again, beginning with the first. A batch has at most one unanswered attempt,
and never overtakes another batch.

**When a batch gets another number.** A batch is *clean* if no attempt can have appended it to the log. A batch is
*doubtful* if an attempt may have appended it to the log. If a batch is certainly not in the log, no later batch of the
queue is in the log either, because the broker accepts no gap in the sequence numbers. Two events leave a gap in the
sequence numbers:

- A clean batch leaves the line, because it was refused for good or timed out, and a later batch already has a number.
- The broker answers the first batch of the line, which is clean, with "sequence gap". In this case all earlier batches
  have a result. Either the broker has forgotten this producer, or an earlier doubtful batch was given up and never
  reached the broker.

Batches after a gap in the sequence numbers wait until all batches before the gap have their results. After that the
batches behind the gap are numbered from 0 under the next epoch. The batches after the gap cannot keep the old epoch,
because a delayed request with an old number could be accepted later. The epoch changes only when all batches before
the gap have their results: the new epoch fences the old epoch, which these batches may still need.

If a batch that may be in the log times out, its receipts get an error that says that the result is *unknown*. The
timed-out batch stays before the later batches of its queue, and is sent again, alone, until an answer says whether it
was committed. If the answer is "sequence gap", the batch is dropped. The next appended batch either has the same epoch
and the next sequence number after the dropped batch, or begins the next epoch, which fences the dropped batch. A batch
that has used all its retries is treated like a batch that has timed out.

A broker can refuse a doubtful batch before it looks whether an earlier attempt is in the log, for example because the
client has lost its right. The receipts of this batch get an error with an *unknown* result too, and the batch is not
sent again.

**When a batch moves to another queue.** While the sequencer waits after a failure, some of its batches can move to
other queues. A move must not change an order that the producer guarantees:

- A doubtful batch and a batch in flight stay, because they may already be in this queue. Sequence numbers count within
  one queue, so the broker would not recognise a copy in another queue as a duplicate.
- A *bound* batch stays. At least one message of a bound batch has a key, or the program chose its queue, so its order
  in this queue is guaranteed.
- All other batches can move, even if an earlier batch stays, because the order of their messages is not guaranteed. In
  the new queue a moved batch is placed before younger batches that have no number yet.

If a batch with a number moves, and a later batch already has a number, the move leaves a gap in the sequence numbers.

**When a batch is delayed.** A leader that throttles this client says how long the client must wait. Throttling is not
a failure: no batch moves, and the attempt is not counted. After a throttled sequencer has waited, it keeps one batch
in flight, and after each success one batch more, because each refused batch costs the client and the broker time.

**When a sequencer waits for another one.** A producer can have two sequencers of one queue: its own, and one that it
shares with other producers (`common_batches.py`). When it changes from one to the other, the new one sends nothing
until the old one has the results of all batches that it had at the change. So the producer's messages keep their order.

This module uses no clock, no futures and no network. Callers pass the current time, in ms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from ledger.client.connection.backoff import Backoff
from ledger.client.producer.delivery import MAX_BATCH_MESSAGES, DeliverySettings
from ledger.client.producer.producer_batch import (
    Acknowledged,
    Answer,
    BatchResult,
    Piece,
    ProducerBatch,
    TablePiece,
    because,
    ends_doubt,
    leaves_doubt,
)
from ledger.errors import (
    ClosedError,
    DeliveryTimeoutError,
    LedgerError,
    NoLeaderError,
    ProducerFencedError,
    RepeatedMessagesError,
    SequenceGapError,
    ThrottledError,
)

# A message may join an open batch only while the batch has this share of its delivery timeout left.
_LEAST_SHARE_OF_TIMEOUT = 0.9

_MAYBE_THERE = "They may be in the queue now or appear there later: read the queue before you send them again"


class QueueSequencer:
    """Numbers, orders and retries the batches of one queue, in the order in which the batches were opened."""

    def __init__(
        self,
        topic_id: int,
        queue: int,
        shard: int,
        delivery: DeliverySettings,
        backoff: Backoff,
        topic: str = "",
        target: tuple[int, int] | None = None,
    ) -> None:
        """`target` is the topic id and the number of the queue to which the messages are delivered at their delivery
        times. With `target`, the queue is one of `%TIMED`, and `topic` is the name of the target topic."""
        self.topic_id = topic_id
        self.target = target
        # For messages of errors.
        self._where = f"queue {queue if target is None else target[1]} of topic " + (
            f'"{topic}"' if topic else str(topic_id)
        )
        self.queue = queue
        self.shard = shard
        # How many batches were closed so far. The queue selector moves to the next queue when this number changes.
        self.closed = 0
        # The last error since the last acknowledgement; None: no attempt has failed since.
        self.trouble: LedgerError | None = None
        # All sequencers of the topic, including this one, in the order of their queues' numbers.
        self.siblings: Sequence[QueueSequencer] = (self,)
        self._delivery = delivery
        self._backoff = backoff
        self._open: ProducerBatch | None = None
        # Closed batches without a result. Unless the sequencer is halted, the first `_in_flight` of them are in flight.
        self._line: deque[ProducerBatch] = deque()
        self._in_flight = 0  # 0 <= _in_flight <= max_in_flight, and <= len(_line)
        # Whether the batches in flight, or the last ones that were, are sent on a bulk stream. Two streams would not
        # keep their order, so this changes only while none is in flight.
        self.in_bulk = False
        self._sent_large = False  # whether the batch that was sent last is large
        self._small_bytes = delivery.small_bytes
        self._window = delivery.max_in_flight  # how many may be in flight; throttling reduces it
        self._epoch = 0
        self._next_sequence = 0
        self._halted = False
        self._failures = 0  # failures in a row; 0 after an acknowledgement
        self._has_offer = False  # since the last offer, a batch may have been added or become free to move
        self._retry_at = 0.0  # while halted: the earliest time of the next attempt
        # The error that every new piece gets, if this producer was fenced in the queue.
        self.fenced: ProducerFencedError | None = None
        self._opened = 0  # how many batches this sequencer has opened or taken over
        # The last change of the producer to own batches after which `CommonMessages.go_before` saw this sequencer.
        self.seen_change = 0
        # Another sequencer of this queue, which has unfinished batches that go first.
        self._follows: QueueSequencer | None = None
        # The sequencers that wait until the first so many batches of this one are finished, and what to call then.
        self._followers: dict[QueueSequencer, tuple[int, Callable[[], None]]] = {}

    @property
    def producer_id(self) -> int:
        return self._delivery.producer_id

    @property
    def idle(self) -> bool:
        return self._open is None and not self._line

    @property
    def has_in_flight(self) -> bool:
        return self._in_flight > 0

    def unresolved(self) -> list[ProducerBatch]:
        """Return all batches of this queue that have no result for their receipts yet."""
        batches = [batch for batch in self._line if not batch.expired]
        return batches if self._open is None else [*batches, self._open]

    def waited_ms(self, now: float) -> float:
        """Return how long the oldest closed batch without a result has existed, in ms. Return 0 if there is no such
        batch."""
        opened = (batch.deadline - self._delivery.delivery_timeout_ms for batch in self._line if not batch.expired)
        return max(0.0, now - next(opened, now))

    # --- gathering ---------------------------------------------------------------------------------------------------

    def add(self, piece: Piece, now: float, wall_ms: int, *, close: bool = False) -> None:
        """Add a piece (messages that are sent together) to the open batch, or to a new batch. If `close` is True,
        close the batch of the piece, so that no later message is added to the batch."""
        assert 1 <= piece.count <= MAX_BATCH_MESSAGES
        delivery, batch = self._delivery, self._open
        if batch is not None and not self._takes(batch, piece, now):
            self._close()
            batch = None
        if batch is None:
            batch = self._open = ProducerBatch(
                wall_ms, now + delivery.linger_ms, now + delivery.delivery_timeout_ms, target=self.target
            )
            self._open_next(batch)
        batch.add(piece)
        self._has_offer = True
        is_full = batch.size >= delivery.batch_bytes or batch.count >= MAX_BATCH_MESSAGES
        if is_full or close or batch.table is not None:
            self._close()

    def _takes(self, batch: ProducerBatch, piece: Piece, now: float) -> bool:
        """Return True if the piece can be added to the batch. All messages of a batch time out together, so a message
        that is much younger than the batch is added to a new batch.
        """
        return (
            batch.size + piece.size <= self._delivery.batch_bytes
            and batch.count + piece.count <= MAX_BATCH_MESSAGES
            and ((batch.ids is None and piece.message_id is None) or batch.takes_id_of(piece))
            and not isinstance(piece, TablePiece)
            and batch.deadline - now >= self._delivery.delivery_timeout_ms * _LEAST_SHARE_OF_TIMEOUT
        )

    @property
    def open_batch(self) -> ProducerBatch | None:
        """The batch that still collects messages."""
        return self._open

    def hasten(self, now: float) -> None:
        """End the lingering of the open batch, so that the next `take` can return the batch."""
        if self._open is not None:
            self._open.linger_until = now

    def _open_next(self, batch: ProducerBatch) -> None:
        self._opened += 1
        batch.ordinal = self._opened

    def _close(self) -> None:
        assert self._open is not None
        self._line.append(self._open)
        self._open = None
        self.closed += 1

    def _close_if_due(self, now: float, *, gathers: bool) -> None:
        """Close the open batch if it can be sent now. A batch that cannot be sent now stays open and collects more
        messages."""
        batch = self._open
        if batch is None or len(self._line) >= self._flight_limit():
            return
        if now >= batch.linger_until or not (gathers or self._line):
            self._close()

    # --- sending -----------------------------------------------------------------------------------------------------

    def take(self, now: float, *, gathers: bool = False) -> list[ProducerBatch]:
        """Return the batches that must be sent now, in order. The caller must call `answered` once for each returned
        batch.

        If `gathers` is True, the open batch lingers even if no other batch of this queue is in flight.
        """
        if self._follows is not None or (self._halted and not self._restart(now)):
            return []
        self._close_if_due(now, gathers=gathers)
        if self._line and self._line[0].behind_hole:
            self._number_anew()
        taken = []
        while self._in_flight < min(self._flight_limit(), len(self._line)):
            batch = self._line[self._in_flight]
            assert not batch.in_flight
            if batch.behind_hole:
                break
            is_large = batch.size > self._small_bytes
            if self._in_flight == 0:
                # The small rest of a send_many goes with its large batches, in the same request.
                self.in_bulk = is_large or self._sent_large
            elif is_large and not self.in_bulk:
                break  # it waits until the small batches have their answers
            self._sent_large = is_large
            self._give_number(batch)
            batch.in_flight = True
            self._in_flight += 1
            taken.append(batch)
        return taken

    def _flight_limit(self) -> int:
        """Return how many batches are allowed to be in flight. If a batch has timed out, later batches are not sent
        until its result is known.
        """
        for place, batch in enumerate(self._line):
            if batch.expired:
                return min(place + 1, self._window)
            if not batch.numbered:
                break
        return self._window

    def _give_number(self, batch: ProducerBatch) -> None:
        if batch.numbered:
            return
        delivery = self._delivery
        batch.number(
            self.topic_id, self.queue, delivery.producer_id, self._epoch, self._next_sequence, codec=delivery.codec
        )
        self._next_sequence += batch.count

    # --- answers -----------------------------------------------------------------------------------------------------

    def answered(self, batch: ProducerBatch, answer: Answer, now: float, *, sent: bool = True) -> list[BatchResult]:
        """Handle the answer to an attempt, and return the results of the batches that this answer finishes. If `sent`
        is False, the attempt never left this process, so it cannot have appended the batch to a log.
        """
        assert batch.in_flight
        batch.in_flight = False
        self._in_flight -= 1
        if isinstance(answer, Acknowledged):
            self._failures = 0
            self.trouble = None
            self._window = min(self._window + 1, self._delivery.max_in_flight)
            return [self._remove(batch, answer)]
        if isinstance(answer, RepeatedMessagesError) and answer.repeats and batch.ids is not None:
            return self._leave_out_repeats(batch, answer, now)
        batch.doubtful = batch.doubtful or (sent and leaves_doubt(answer))
        gap_before_head = isinstance(answer, SequenceGapError) and self._line[0] is batch
        if isinstance(answer, ProducerFencedError):
            return self._fence(answer, now)
        if not answer.retriable or (batch.expired and (gap_before_head or not batch.doubtful)):
            self._halt(now, 0)
            return [self._refused(batch, answer, sent=sent)]
        if gap_before_head and not batch.doubtful:
            batch.behind_hole = True
        if isinstance(answer, ThrottledError):
            self._put_off(answer, now)
            return []
        if not self._halted:  # while halted, later batches only report the gap that the first failure left
            self._note_trouble(answer)
            self._failures += 1
            self._halt(now, self._backoff.wait_ms(self._failures))
        self._has_offer = True
        if sent and not isinstance(answer, SequenceGapError):
            batch.failures += 1
        return [self._expire_one(batch, self._all_attempts(batch))] if self._has_no_attempt_left(batch) else []

    def _refused(self, batch: ProducerBatch, answer: LedgerError, *, sent: bool) -> BatchResult:
        """Return the result of the messages because of which the broker refused a batch. The rest of the batch is sent
        again, before all later batches. If the broker did not name messages, the whole batch has this result.

        The rest gets a new number, also if earlier attempts left doubt: a leader that names messages has confirmed that
        it leads, as in `_leave_out_repeats`."""
        if answer.places:
            left_out = batch.leave_out_pieces(answer.places)
            if left_out:
                batch.behind_hole = self._has_offer = True
                return BatchResult(self.queue, left_out, answer, 0, batch)
        return self._drop(batch, answer if sent and ends_doubt(answer) else self._error_of(batch, answer))

    def _error_of(self, batch: ProducerBatch, refusal: LedgerError) -> LedgerError:
        """Return the error for the receipts of a batch whose last attempt had the answer `refusal`, which does not tell
        what became of earlier attempts."""
        if not batch.doubtful:
            return refusal
        error = DeliveryTimeoutError(
            f"{batch.count} message(s) for {self._where} were sent, and it is unknown whether they were stored. The "
            f"producer does not try again{because(refusal)}. {_MAYBE_THERE}.",
            maybe_committed=True,
        )
        error.__cause__ = refusal
        return error

    def _leave_out_repeats(self, batch: ProducerBatch, answer: RepeatedMessagesError, now: float) -> list[BatchResult]:
        """Remove the messages that were sent before from a batch that the broker refused because of them, and return
        their results. The rest of the batch is sent again, before all later batches.

        The batch and all later ones get new numbers, also if earlier attempts left doubt: the leader has confirmed that
        it leads, so the batch is not in the log. It will not be, because of its repeated messages, and then no later
        batch is either."""
        self._halt(now, 0)
        self._has_offer = True
        repeats = {each.place: each for each in answer.repeats if each.place < batch.count}
        is_rest = len(repeats) < batch.count
        results = [
            BatchResult(
                repeats[place].queue,
                [(receipt, 1)],
                Acknowledged(repeats[place].offset, 0, repeats[place].append_time_ms, duplicate=True),
                0,
                batch,
                is_repeat=True,
            )
            for place, receipt in batch.leave_out(repeats)
        ]
        if is_rest:
            batch.behind_hole = True
            return results
        self._leave_hole(batch)
        last = answer.repeats[-1]
        told = Acknowledged(last.offset, 0, last.append_time_ms, duplicate=True)
        return [*results, self._remove(batch, told)]

    def _has_no_attempt_left(self, batch: ProducerBatch) -> bool:
        retries = self._delivery.retries
        return retries is not None and batch.failures > retries and not batch.expired

    def _put_off(self, error: ThrottledError, now: float) -> None:
        self._note_trouble(error)
        self._window = 1
        self._halt(now, 0)
        self._retry_at = max(self._retry_at, now + (error.throttle_ms or 0))

    def _note_trouble(self, error: LedgerError) -> None:
        if self.trouble is None or not isinstance(error, NoLeaderError):  # this follows from other errors
            self.trouble = error

    def _drop(self, batch: ProducerBatch, error: LedgerError) -> BatchResult:
        """Remove the batch from the line, and return a result for the batch that has `error` as its outcome."""
        if batch.numbered and not batch.doubtful:
            self._leave_hole(batch)
        return self._remove(batch, error)

    def _leave_hole(self, batch: ProducerBatch) -> None:
        behind = self._line.index(batch) + 1
        if behind < len(self._line) and self._line[behind].numbered:
            self._line[behind].behind_hole = True
        else:
            self._next_sequence = batch.first_sequence  # no batch has a later number, so the next batch gets this one

    def _remove(self, batch: ProducerBatch, outcome: Answer) -> BatchResult:
        self._line.remove(batch)
        self._tell_followers()
        return batch.results(self.queue, outcome, batch.size)

    def _fence(self, error: ProducerFencedError, now: float) -> list[BatchResult]:
        """End all batches, because a producer with the same id and a newer epoch has written to the queue."""
        self._halt(now, 0)
        self.fenced = error
        return list(self._give_up(error, keep_in_flight=True))

    def _give_up(self, error: LedgerError, *, keep_in_flight: bool) -> Iterator[BatchResult]:
        if self._open is not None:
            self._close()
        for batch in list(self._line):
            if batch.in_flight and keep_in_flight:
                continue  # its own answer is still to come
            yield self._remove(batch, self._error_of(batch, error))

    # --- halting and starting again ----------------------------------------------------------------------------------

    def _halt(self, now: float, wait_ms: float) -> None:
        if not self._halted:
            self._halted = True
            self._retry_at = now + wait_ms

    def _restart(self, now: float) -> bool:
        if self._in_flight or now < self._retry_at:
            return False
        self._halted = False
        return True

    def _number_anew(self) -> None:
        assert self._in_flight == 0
        self._epoch += 1
        self._next_sequence = 0
        for batch in self._line:
            if not batch.numbered:
                break  # no later batch has a number either
            batch.renumber(self.queue, self._epoch, self._next_sequence)
            self._next_sequence += batch.count

    def hurry(self, now: float) -> None:
        """End the back-off after failures. Call `hurry` when the cause of the failures may be gone, for example
        after an election."""
        self._retry_at = min(self._retry_at, now)
        self._failures = 0

    # --- batches that go to another queue ----------------------------------------------------------------------------

    @property
    def fails(self) -> bool:
        """True if an attempt has failed since the last acknowledgement."""
        return self._failures > 0

    @property
    def takes_over(self) -> bool:
        """True if this sequencer can take over batches of other sequencers."""
        return not self.fails and self.fenced is None

    def offers(self, now: float) -> bool:
        """Return True if batches of this queue can move to other queues now. During a back-off, `offers` returns True
        only once after each failure and once after each new piece. Batches that have not moved are sent to this queue
        after the back-off.
        """
        offers, self._has_offer = self._has_offer, False
        return offers and self.fails and self._halted and (self._in_flight > 0 or now < self._retry_at)

    def give_away(self) -> list[ProducerBatch]:
        """Remove and return, in order, all batches that can move: batches that are not bound to this queue, cannot be
        in a log, and have not timed out.
        """
        if self._open is not None and not self._open.bound:
            self._close()
        leaving = [batch for batch in self._line if _may_move(batch)]
        for batch in reversed(leaving):
            if batch.numbered:
                self._leave_hole(batch)
            self._line.remove(batch)
            batch.move()
        self._tell_followers()
        return leaving

    def take_over(self, batch: ProducerBatch) -> None:
        """Insert a batch that another sequencer gave away, before younger batches that have no number yet."""
        self._open_next(batch)
        place = len(self._line)
        while place > 0 and not self._line[place - 1].numbered and self._line[place - 1].deadline > batch.deadline:
            place -= 1
        self._line.insert(place, batch)

    # --- two sequencers of one queue ---------------------------------------------------------------------------------

    def follow(self, other: QueueSequencer, then: Callable[[], None]) -> None:
        """Send nothing until `other`, another sequencer of this queue, has no unfinished batch of those that it has
        now. Then call `then`."""
        if self._follows is not None:
            del self._follows._followers[self]
            self._follows = None
        if other.idle and other._follows is not None:
            other = other._follows
        if other._has_one_of_first(other._opened):
            self._follows = other
            other._followers[self] = (other._opened, then)

    def _has_one_of_first(self, batches: int) -> bool:
        """Return True if one of the first so many batches that this sequencer has opened is not finished."""
        is_open = self._open is not None and self._open.ordinal <= batches
        return is_open or any(batch.ordinal <= batches for batch in self._line)

    def _tell_followers(self) -> None:
        for follower, (batches, then) in list(self._followers.items()):
            if not self._has_one_of_first(batches):
                del self._followers[follower]
                follower._follows = None
                then()

    # --- time --------------------------------------------------------------------------------------------------------

    def next_wake(self) -> float | None:
        """Return the time at which `expire` or `take` must be called next if no event comes earlier. Return None if
        no call is needed."""
        wakes = [batch.deadline for batch in self._next_to_expire()]
        if self._follows is not None:
            pass
        elif self._halted:
            if not self._in_flight:
                wakes.append(self._retry_at)
        elif self._open is not None and len(self._line) < self._flight_limit():
            wakes.append(self._open.linger_until)
        return min(wakes, default=None)

    def expire(self, now: float) -> list[BatchResult]:
        """Return a timeout result for each batch whose deadline has passed. A timed-out batch that may be in a log
        stays among the unfinished batches of the sequencer until its result is known.
        """
        results = []
        while due := [batch for batch in self._next_to_expire() if batch.deadline <= now]:
            results += [self._expire_one(batch, self._all_time) for batch in due]
        return results

    def _next_to_expire(self) -> Iterator[ProducerBatch]:
        """Yield the batches whose deadlines must be checked: all numbered batches, and the first batch without a
        number. Batches without a number are in the order of their deadlines. A batch from another queue may be older
        than numbered batches before it.
        """
        for batch in self._line:
            if not batch.expired:
                yield batch
            if not batch.numbered:
                return
        if self._open is not None:
            yield self._open

    def _expire_one(self, batch: ProducerBatch, limit: str) -> BatchResult:
        if batch.in_flight or batch.doubtful:
            batch.expired = True
            return batch.results(self.queue, self._timeout(batch, limit, maybe_committed=True), 0)
        if batch is self._open:
            self._close()
        return self._drop(batch, self._timeout(batch, limit, maybe_committed=False))

    @property
    def _all_time(self) -> str:
        return f"within {self._delivery.delivery_timeout_ms:.0f} ms"

    def _all_attempts(self, batch: ProducerBatch) -> str:
        return f"by {batch.failures} attempt(s), the number that `retries` allows"

    def _timeout(self, batch: ProducerBatch, limit: str, *, maybe_committed: bool) -> DeliveryTimeoutError:
        fate = _MAYBE_THERE if maybe_committed else "They are not in the queue: send them again"
        error = DeliveryTimeoutError(
            f"{batch.count} message(s) for {self._where} were not acknowledged {limit}{because(self.trouble)}. {fate}.",
            maybe_committed=maybe_committed,
        )
        error.__cause__ = self.trouble
        return error

    def abandon(self) -> list[BatchResult]:
        """End all batches now, because the producer closes, and return their results. The error of each batch says
        whether the batch may be in a log."""
        if self._open is not None:
            self._close()
        return [self._remove(batch, self._abandoned(batch)) for batch in list(self._line)]

    def _abandoned(self, batch: ProducerBatch) -> LedgerError:
        if batch.in_flight or batch.doubtful:
            return self._timeout(batch, self._all_time, maybe_committed=True)
        return ClosedError(f"The producer was closed before {batch.count} message(s) were sent: send them again.")


def _may_move(batch: ProducerBatch) -> bool:
    # A batch that timed out has its result already. In another queue it would hide the deadlines of later batches.
    return not (batch.bound or batch.in_flight or batch.doubtful or batch.expired)
