"""All unfinished batches of a producer: one queue sequencer for each queue, polled together. The accumulator has no
clock and does no I/O. The sender passes events to it: a piece is added, an answer arrives, time passes. The
accumulator returns the batches to send and the results for receipts. The sender does the I/O.

A large batch costs the leader hardly more than a small one. Therefore an open batch lingers while any batch for its
shard is unanswered. If no batch for its shard is in flight, the open batch is sent at once.

The accumulator also moves batches from sequencers of failing shards to sequencers of other shards.
`queue_sequencer.py` has the rules for such moves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle

from ledger.client.connection.backoff import Backoff
from ledger.client.producer.delivery import Delivery
from ledger.client.producer.fault_table import FaultTable
from ledger.client.producer.producer_batch import Answer, BatchResult, Piece, ProducerBatch
from ledger.client.producer.queue_sequencer import QueueSequencer
from ledger.errors import LedgerError


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Batches of one sequencer that must be sent now, in this order."""

    sequencer: QueueSequencer
    batches: list[ProducerBatch]


@dataclass(frozen=True, slots=True)
class Owed:
    """The result of a poll: the batches to send and the results to deliver."""

    dispatches: list[Dispatch]
    results: list[BatchResult]


class Accumulator:
    """The sequencers of a producer. `faults` says which shards are avoided."""

    def __init__(self, delivery: Delivery, backoff: Backoff, faults: FaultTable | None = None) -> None:
        self.faults = faults or FaultTable(())
        self._delivery = delivery
        self._backoff = backoff
        # Sequencers that are not idle, in the order in which they got work. A dict, because a set has no order.
        self._busy: dict[QueueSequencer, None] = {}

    def sequencer(self, topic_id: int, queue: int, shard: int) -> QueueSequencer:
        """Make the sequencer of a queue. The caller keeps the sequencer, and makes only one for each queue."""
        return QueueSequencer(topic_id, queue, shard, self._delivery, self._backoff)

    @property
    def trouble(self) -> LedgerError | None:
        """The last error of the first sequencer whose attempts fail, or None."""
        return next((sequencer.trouble for sequencer in self._busy if sequencer.trouble is not None), None)

    def unresolved(self) -> list[ProducerBatch]:
        """Return the batches whose receipts have no result yet."""
        return [batch for sequencer in self._busy for batch in sequencer.unresolved()]

    def add(self, sequencer: QueueSequencer, piece: Piece, now: float, wall_ms: int, *, close: bool = False) -> None:
        sequencer.add(piece, now, wall_ms, close=close)
        self._busy[sequencer] = None

    def answered(
        self, sequencer: QueueSequencer, batch: ProducerBatch, answer: Answer, now: float, *, sent: bool = True
    ) -> list[BatchResult]:
        return sequencer.answered(batch, answer, now, sent=sent)

    def poll(self, now: float) -> Owed:
        """Close, number and return the batches that can be sent now, and end batches that have timed out."""
        owed = Owed([], [])
        for sequencer in list(self._busy):
            owed.results.extend(sequencer.expire(now))
            if sequencer.offers(now):
                self._move(sequencer, now)
        owing = {sequencer.shard for sequencer in self._busy if sequencer.has_in_flight}
        for sequencer in list(self._busy):
            batches = sequencer.take(now, gathers=sequencer.shard in owing)
            if batches:
                owed.dispatches.append(Dispatch(sequencer, batches))
            elif sequencer.idle:
                del self._busy[sequencer]
        return owed

    def _move(self, sequencer: QueueSequencer, now: float) -> None:
        """Move batches to queues of other shards that do not fail, in turn, if the promised order allows the move."""
        others = [
            other
            for other in (*sequencer.siblings[sequencer.queue + 1 :], *sequencer.siblings[: sequencer.queue])
            if other.shard != sequencer.shard and other.takes_over and self.faults.is_available(other.shard, now)
        ]
        if others:
            for batch, other in zip(sequencer.give_away(), cycle(others), strict=False):
                other.take_over(batch)
                self._busy[other] = None

    def next_wake(self) -> float | None:
        """Return the time of the next poll if no event comes first, or None if no poll is needed."""
        return min((wake for sequencer in self._busy if (wake := sequencer.next_wake()) is not None), default=None)

    def hasten(self, now: float) -> None:
        """Let all open batches be sent without lingering."""
        for sequencer in self._busy:
            sequencer.hasten(now)

    def hurry(self, now: float, concerns: Callable[[QueueSequencer], bool]) -> None:
        """End the back-off of the sequencers for which `concerns` returns True."""
        for sequencer in self._busy:
            if concerns(sequencer):
                sequencer.hurry(now)

    def abandon(self) -> list[BatchResult]:
        """End all batches with the result that is known now. After `abandon`, call no other method."""
        results = [one for sequencer in self._busy for one in sequencer.abandon()]
        self._busy.clear()
        return results
