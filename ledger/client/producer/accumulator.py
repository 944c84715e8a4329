"""Holds all unfinished batches of a producer: it has one queue sequencer for each queue, and polls all of them
together. The accumulator has no clock and does no I/O. The sender tells the accumulator about events: a piece is
added, an answer arrives, time passes. The accumulator returns the batches to send and the results for receipts. The
sender sends the batches to brokers.

A large batch costs the leader hardly more than a small batch. While an earlier batch for the same shard has no answer
yet, an open batch lingers and collects more messages. If no batch for the shard is in flight, the open batch is sent
at once.

The accumulator also moves batches from the queues of a shard that fails to queues of other shards. The docstring of
`queue_sequencer.py` explains which batches can move.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import cycle

from ledger.client.connection.backoff import Backoff
from ledger.client.producer.delivery import DeliverySettings
from ledger.client.producer.fault_table import FaultTable
from ledger.client.producer.producer_batch import Answer, BatchResult, Piece, ProducerBatch
from ledger.client.producer.queue_sequencer import QueueSequencer
from ledger.client.producer.wait_warnings import Wait
from ledger.errors import LedgerError


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Batches of one sequencer that the sender must send now, in the order of the list."""

    sequencer: QueueSequencer
    batches: list[ProducerBatch]


@dataclass(frozen=True, slots=True)
class Owed:
    """The result of a poll: the batches to send and the results to deliver."""

    dispatches: list[Dispatch]
    results: list[BatchResult]


class Accumulator:
    """Holds the queue sequencers of one producer. The table `faults` says which shards are avoided."""

    def __init__(self, delivery: DeliverySettings, backoff: Backoff, faults: FaultTable | None = None) -> None:
        self.faults = faults or FaultTable(())
        self._delivery = delivery
        self._backoff = backoff
        # Sequencers that are not idle, in the order in which they got work. A dict, because a set has no order.
        self._busy: dict[QueueSequencer, None] = {}

    def sequencer(self, topic_id: int, queue: int, shard: int, topic: str = "") -> QueueSequencer:
        """Make and return a sequencer for a queue. The caller must keep the sequencer, and must make only one
        sequencer for each queue."""
        return QueueSequencer(topic_id, queue, shard, self._delivery, self._backoff, topic)

    def timed_sequencer(
        self, topic_id: int, queue: int, shard: int, topic: str, target: tuple[int, int], producer_id: int
    ) -> QueueSequencer:
        """Make and return a sequencer for messages that wait in this queue of `%TIMED` and are delivered to the queue
        `target`. Several targets have the same queue of `%TIMED`, so each has a producer id of its own, and with it
        its own sequence."""
        delivery = replace(self._delivery, producer_id=producer_id)
        return QueueSequencer(topic_id, queue, shard, delivery, self._backoff, topic, target)

    def lane(self, topic_id: int, queue: int, shard: int, topic: str, delivery: DeliverySettings) -> QueueSequencer:
        """Make and return a sequencer with settings of its own."""
        return QueueSequencer(topic_id, queue, shard, delivery, self._backoff, topic)

    @property
    def trouble(self) -> LedgerError | None:
        """The last error of the first sequencer that has batches and has failed since its last acknowledgement, or
        None if there is no such sequencer."""
        return next((sequencer.trouble for sequencer in self._busy if sequencer.trouble is not None), None)

    def waits(self, now: float) -> dict[int, Wait]:
        """Return how long the oldest closed batch for each shard waits for its result at the time `now`, in ms."""
        waits: dict[int, Wait] = {}
        for sequencer in self._busy:
            waited, known = sequencer.waited_ms(now), waits.get(sequencer.shard)
            if known is None or waited > known.waited_ms:
                waits[sequencer.shard] = Wait(waited, sequencer.trouble)
        return waits

    def unresolved(self) -> list[ProducerBatch]:
        """Return all batches that have no result for their receipts yet."""
        return [batch for sequencer in self._busy for batch in sequencer.unresolved()]

    def add(self, sequencer: QueueSequencer, piece: Piece, now: float, wall_ms: int, *, close: bool = False) -> None:
        sequencer.add(piece, now, wall_ms, close=close)
        self._busy[sequencer] = None

    def answered(
        self, sequencer: QueueSequencer, batch: ProducerBatch, answer: Answer, now: float, *, sent: bool = True
    ) -> list[BatchResult]:
        return sequencer.answered(batch, answer, now, sent=sent)

    def poll(self, now: float) -> Owed:
        """Close and number the batches that must be sent now. Return these batches, and the results of batches that
        have timed out."""
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
        """Move the batches that are allowed to move to queues of other shards that work, one batch to each queue in
        turn."""
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
        """Return the time at which the next poll is needed if no event comes earlier. Return None if no poll is
        needed."""
        return min((wake for sequencer in self._busy if (wake := sequencer.next_wake()) is not None), default=None)

    def hasten(self, now: float) -> None:
        """End the lingering of all open batches, so that the next poll can return them."""
        for sequencer in self._busy:
            sequencer.hasten(now)

    def hurry(self, now: float, concerns: Callable[[QueueSequencer], bool]) -> None:
        """End the back-off of each sequencer for which `concerns(sequencer)` returns True."""
        for sequencer in self._busy:
            if concerns(sequencer):
                sequencer.hurry(now)

    def abandon(self) -> list[BatchResult]:
        """End all batches, because the producer closes, and return their results. After `abandon`, the caller must
        not call any method of the accumulator."""
        results = [one for sequencer in self._busy for one in sequencer.abandon()]
        self._busy.clear()
        return results
