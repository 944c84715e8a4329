"""All that a producer still owes its users: one lane for each queue, polled together.

The one idea: things happen to the outbox (a piece is added, an answer comes, time passes), and each time it says what
is owed: batches to send, and receipts to settle. Whoever drives it does the I/O.

A batch costs its leader much the same whatever is in it. So a batch that still gathers lingers while its shard owes an
answer, for whichever of its queues; where nothing is under way there, it goes at once.

It also carries batches from lanes that fail to lanes of other shards, which do not. It must not know clocks, futures,
routes or the network; `lane.py` holds the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle

from ledger.client.backoff import Backoff
from ledger.client.delivery import Delivery
from ledger.client.fault_table import FaultTable
from ledger.client.lane import Lane
from ledger.client.outgoing import Answer, OutgoingBatch, Piece, Settled
from ledger.errors import LedgerError


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Batches of one lane that go out now, in this order."""

    lane: Lane
    batches: list[OutgoingBatch]


@dataclass(frozen=True, slots=True)
class Owed:
    """What a poll says is to be done."""

    dispatches: list[Dispatch]
    settled: list[Settled]


class Outbox:
    """Lanes, and which of them have something to do."""

    def __init__(self, delivery: Delivery, backoff: Backoff, faults: FaultTable | None = None) -> None:
        """`faults`: which shards are passed over."""
        self.faults = faults or FaultTable(())
        self._delivery = delivery
        self._backoff = backoff
        # Lanes that are not idle, in the order they ceased to be (a dict, because a set has no order).
        self._busy: dict[Lane, None] = {}

    def lane(self, topic_id: int, queue: int, shard: int) -> Lane:
        """A new lane; the caller keeps it, one for each queue."""
        return Lane(topic_id, queue, shard, self._delivery, self._backoff)

    @property
    def trouble(self) -> LedgerError | None:
        """What stands in the way of some lane, if anything does."""
        return next((lane.trouble for lane in self._busy if lane.trouble is not None), None)

    def unresolved(self) -> list[OutgoingBatch]:
        """The batches of which somebody still waits to hear: until they have no receipts any more."""
        return [batch for lane in self._busy for batch in lane.unresolved()]

    def add(self, lane: Lane, piece: Piece, now: float, wall_ms: int, *, close: bool = False) -> None:
        lane.add(piece, now, wall_ms, close=close)
        self._busy[lane] = None

    def answered(
        self, lane: Lane, batch: OutgoingBatch, answer: Answer, now: float, *, sent: bool = True
    ) -> list[Settled]:
        return lane.answered(batch, answer, now, sent=sent)

    def poll(self, now: float) -> Owed:
        """Close, number and take what can go out, and settle what ran out of time."""
        owed = Owed([], [])
        for lane in list(self._busy):
            owed.settled.extend(lane.expire(now))
            if lane.offers(now):
                self._move(lane, now)
        owing = {lane.shard for lane in self._busy if lane.has_in_flight}
        for lane in list(self._busy):
            batches = lane.take(now, gathers=lane.shard in owing)
            if batches:
                owed.dispatches.append(Dispatch(lane, batches))
            elif lane.idle:
                del self._busy[lane]
        return owed

    def _move(self, lane: Lane, now: float) -> None:
        """What may go, to queues of other shards: the next ones that do not fail, in turn."""
        others = [
            other
            for other in (*lane.siblings[lane.queue + 1 :], *lane.siblings[: lane.queue])
            if other.shard != lane.shard and other.takes_over and self.faults.is_available(other.shard, now)
        ]
        if others:
            for batch, other in zip(lane.give_away(), cycle(others), strict=False):
                other.take_over(batch)
                self._busy[other] = None

    def next_wake(self) -> float | None:
        """When to poll again if nothing else happens before; None: never."""
        return min((wake for lane in self._busy if (wake := lane.next_wake()) is not None), default=None)

    def hasten(self, now: float) -> None:
        """Let everything gathered go without lingering."""
        for lane in self._busy:
            lane.hasten(now)

    def hurry(self, now: float, concerns: Callable[[Lane], bool]) -> None:
        """End the back-off of the lanes that `concerns` picks."""
        for lane in self._busy:
            if concerns(lane):
                lane.hurry(now)

    def abandon(self) -> list[Settled]:
        """Settle everything as it stands; nothing may be added or answered afterwards."""
        settled = [one for lane in self._busy for one in lane.abandon()]
        self._busy.clear()
        return settled
