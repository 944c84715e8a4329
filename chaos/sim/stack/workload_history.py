"""What clients did and were told, and what the log says: every message from its send to its delivery.

    send ──> ok, at a place | surely failed | unknown        told by the producer
    commit                                                   seen in the log, once each, in its order: the truth
    deliver                                                  given by a consumer

A message's value names its producer and its number, so whatever is found in a log or comes out of a consumer can be
traced to the call that sent it. What is acknowledged, refused or delivered is compared with the truth at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

Fail = Callable[[str, str], None]
NO_ORDER = -1


class SendOutcome(Enum):
    PENDING = "pending"
    OK = "ok"
    # Surely not committed, now or later.
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    topic: str
    queue: int
    offset: int


@dataclass(slots=True)
class Sent:
    """One message."""

    producer: int
    # In the order of this producer's calls.
    number: int
    topic: str
    # Messages of one line keep their order: all single sends are in line 0, each send_many has one of its own (it may
    # wait for room while others pass). Those in no line (`NO_ORDER`) are promised none.
    line: int
    outcome: SendOutcome = SendOutcome.PENDING
    # Where it is committed; None while it is not.
    place: Place | None = None

    @property
    def name(self) -> bytes:
        return b"%d.%d" % (self.producer, self.number)

    def __str__(self) -> str:
        return f"message {self.number} of producer {self.producer}"


class History:
    def __init__(self, fail: Fail) -> None:
        self.outcomes = dict.fromkeys(SendOutcome, 0)
        self.delivered = 0
        self.reads = 0
        # Messages that a consumer was too late for: the log begins behind them.
        self.skipped = 0
        self._fail = fail
        self._sent: dict[bytes, Sent] = {}
        # By producer: its last number.
        self._numbers: dict[int, int] = {}
        # What is committed, by offset.
        self._queues: dict[tuple[str, int], list[Sent]] = {}
        # By producer, line and queue: the number of its last message that is committed there.
        self._last: dict[tuple[int, int, str, int], int] = {}
        # By consumer and queue: the offset that must come next.
        self._positions: dict[tuple[int, str, int], int] = {}
        # By queue: the largest first offset that it has on any node.
        self._begins: dict[tuple[str, int], int] = {}

    # -- what producers do and are told

    def send(self, producer: int, topic: str, line: int = 0) -> Sent:
        """The next message of that producer."""
        number = self._numbers[producer] = self._numbers.get(producer, 0) + 1
        sent = Sent(producer, number, topic, line)
        self._sent[sent.name] = sent
        self.outcomes[SendOutcome.PENDING] += 1
        return sent

    def acknowledged(self, sent: Sent, place: Place) -> None:
        self._settle(sent, SendOutcome.OK)
        if sent.place != place:
            self._fail("acknowledged is committed", f"{sent} was acknowledged at {place}, committed at {sent.place}")

    def failed(self, sent: Sent) -> None:
        self._settle(sent, SendOutcome.FAILED)
        if sent.place is not None:
            self._fail("failed is not committed", f"{sent} surely failed, and is committed at {sent.place}")

    def unknown(self, sent: Sent) -> None:
        self._settle(sent, SendOutcome.UNKNOWN)

    def _settle(self, sent: Sent, outcome: SendOutcome) -> None:
        assert sent.outcome is SendOutcome.PENDING
        sent.outcome = outcome
        self.outcomes[SendOutcome.PENDING] -= 1
        self.outcomes[outcome] += 1

    # -- what the log says

    def committed(self, queue: int, base_offset: int, values: list[bytes]) -> None:
        """The next batch of the log that is committed."""
        for offset, value in enumerate(values, base_offset):
            sent = self._sent.get(name_of(value))
            if sent is None:
                self._fail("committed was sent", f"nobody sent {value[:40]!r}")
            else:
                self._commit(sent, Place(sent.topic, queue, offset))

    def _commit(self, sent: Sent, place: Place) -> None:
        if sent.place is not None:
            self._fail("exactly once", f"{sent} is committed at {sent.place} and at {place}")
        if sent.outcome is SendOutcome.FAILED:
            self._fail("failed is not committed", f"{sent} surely failed, and is committed at {place}")
        queue = self._queues.setdefault((place.topic, place.queue), [])
        if len(queue) != place.offset:
            self._fail("offsets without gaps", f"{place} is committed when {len(queue)} messages are")
        line = (sent.producer, sent.line, place.topic, place.queue)
        if sent.line != NO_ORDER and sent.number <= self._last.get(line, 0):
            self._fail("in its producer's order", f"{sent} is committed behind message {self._last[line]}")
        self._last[line] = sent.number
        sent.place = place
        queue.append(sent)

    def begins(self, topic: str, queue: int, offset: int) -> None:
        """On some node the log begins so late that the queue begins there."""
        self._begins[topic, queue] = max(offset, self.first_offset(topic, queue))

    def first_offset(self, topic: str, queue: int) -> int:
        """The largest one that the queue has on any node."""
        return self._begins.get((topic, queue), 0)

    # -- what consumers are given

    def position(self, consumer: int, topic: str, queue: int) -> int:
        return self._positions.get((consumer, topic, queue), 0)

    def deliver(self, consumer: int, place: Place, value: bytes) -> None:
        key = (consumer, place.topic, place.queue)
        expected = self._positions.get(key, 0)
        if place.offset != expected:
            self._fail("no gap, no repeat", f"consumer {consumer} was given {place}, not offset {expected}")
        self._positions[key] = place.offset + 1
        self.delivered += 1
        queue = self._queues.get((place.topic, place.queue), [])
        sent = queue[place.offset] if place.offset < len(queue) else None
        if sent is None:
            self._fail("delivered is committed", f"consumer {consumer} was given {place}, which is not committed")
        elif sent.name != name_of(value):
            self._fail("delivered is committed", f"consumer {consumer} was given {value[:40]!r} at {place}: {sent}")

    def skip(self, consumer: int, topic: str, queue: int, offset: int) -> None:
        """The consumer is told that the queue begins there."""
        if offset > self.first_offset(topic, queue):
            self._fail(
                "nothing kept is skipped", f"{topic}/{queue} is said to begin at {offset}, and begins nowhere so"
            )
        self.skipped += offset - self.position(consumer, topic, queue)
        self._positions[consumer, topic, queue] = offset

    def read(self, topic: str, queue: int, floor: int, end: int) -> None:
        """A linearizable read, asked for when `floor` messages of the queue were committed, found its end there."""
        self.reads += 1
        if end < floor:
            self._fail("reads are not stale", f"{topic}/{queue} ends at {end}, though {floor} were committed before")
        if end > len(self._queues.get((topic, queue), [])):
            self._fail("read is committed", f"{topic}/{queue} ends at {end}, beyond what is committed")

    # -- the end

    def ends(self) -> dict[tuple[str, int], int]:
        """By queue: the offset behind its last committed message."""
        return {key: len(queue) for key, queue in self._queues.items()}

    @property
    def total(self) -> int:
        """Messages that are committed."""
        return sum(len(queue) for queue in self._queues.values())


def name_of(value: bytes) -> bytes:
    """A value is a message's name, a colon, and anything."""
    return value.partition(b":")[0]
