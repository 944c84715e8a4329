"""All open work of a producer: one queue sequencer for each queue, polled together. No clock and no I/O.

Events go in: a piece is added, an answer arrives, time passes. Each event returns the batches to send and the receipts
to settle; the sender does the I/O.

A batch costs its leader about the same whatever its size. So an open batch lingers while its shard owes an answer for
any queue; if nothing is under way in the shard, the batch is sent at once.

The accumulator also moves batches from the sequencers of failing shards to those of other shards. `queue_sequencer.py`
has the rules.
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
    """Batches of one sequencer that go out now, in this order."""

    sequencer: QueueSequencer
    batches: list[ProducerBatch]


@dataclass(frozen=True, slots=True)
class Owed:
    """What a poll says is to be done."""

    dispatches: list[Dispatch]
    results: list[BatchResult]


class Accumulator:
    """Lanes, and which of them have something to do."""

    def __init__(self, delivery: Delivery, backoff: Backoff, faults: FaultTable | None = None) -> None:
        """`faults`: which shards are passed over."""
        self.faults = faults or FaultTable(())
        self._delivery = delivery
        self._backoff = backoff
        # Lanes that are not idle, in the order they ceased to be (a dict, because a set has no order).
        self._busy: dict[QueueSequencer, None] = {}

    def sequencer(self, topic_id: int, queue: int, shard: int) -> QueueSequencer:
        """A new sequencer; the caller keeps it, one for each queue."""
        return QueueSequencer(topic_id, queue, shard, self._delivery, self._backoff)

    @property
    def trouble(self) -> LedgerError | None:
        """What stands in the way of some sequencer, if anything does."""
        return next((sequencer.trouble for sequencer in self._busy if sequencer.trouble is not None), None)

    def unresolved(self) -> list[ProducerBatch]:
        """The batches of which somebody still waits to hear: until they have no receipts any more."""
        return [batch for sequencer in self._busy for batch in sequencer.unresolved()]

    def add(self, sequencer: QueueSequencer, piece: Piece, now: float, wall_ms: int, *, close: bool = False) -> None:
        sequencer.add(piece, now, wall_ms, close=close)
        self._busy[sequencer] = None

    def answered(
        self, sequencer: QueueSequencer, batch: ProducerBatch, answer: Answer, now: float, *, sent: bool = True
    ) -> list[BatchResult]:
        return sequencer.answered(batch, answer, now, sent=sent)

    def poll(self, now: float) -> Owed:
        """Close, number and take what can go out, and settle what ran out of time."""
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
        """What may go, to queues of other shards: the next ones that do not fail, in turn."""
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
        """When to poll again if nothing else happens before; None: never."""
        return min((wake for sequencer in self._busy if (wake := sequencer.next_wake()) is not None), default=None)

    def hasten(self, now: float) -> None:
        """Let everything gathered go without lingering."""
        for sequencer in self._busy:
            sequencer.hasten(now)

    def hurry(self, now: float, concerns: Callable[[QueueSequencer], bool]) -> None:
        """End the back-off of the sequencers that `concerns` picks."""
        for sequencer in self._busy:
            if concerns(sequencer):
                sequencer.hurry(now)

    def abandon(self) -> list[BatchResult]:
        """Settle everything as it stands; nothing may be added or answered afterwards."""
        results = [one for sequencer in self._busy for one in sequencer.abandon()]
        self._busy.clear()
        return results
