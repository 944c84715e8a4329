"""Records each message from its send to its delivery, and compares the results that clients received with the log.

    send ──> ok, at a place | surely failed | unknown        told by the producer
    commit                                                   seen in the log, once each, in log order: the truth
    deliver                                                  given by a consumer

A message's value names its producer and its number, so a message in a log or from a consumer can be traced to the call
that sent it. Results and deliveries are compared with the committed entries at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

Fail = Callable[[str, str], None]
NO_ORDER = -1
# Names of topics that a fault deletes, and that no load reads, begin with this.
DOOMED = "doomed"
# Names of topics that a mirror makes, and that no load reads, begin with this.
COPY = "copy-"


class SendOutcome(Enum):
    PENDING = "pending"
    OK = "ok"
    # Not committed, neither now nor later.
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, order=True)
class MessagePlace:
    topic: str
    queue: int
    offset: int


@dataclass(slots=True)
class SentMessage:
    """One message that a client of the simulator has sent."""

    producer: int
    # Number of the message, in the order of this producer's calls.
    number: int
    topic: str
    # Messages of one line keep their order. All single sends of a producer are in one line. Each send_many has its own
    # line, because it may wait for buffer space while other sends pass. Messages in line `NO_ORDER` may be committed in
    # any order.
    line: int
    outcome: SendOutcome = SendOutcome.PENDING
    # Where it is committed; None if it is not committed.
    place: MessagePlace | None = None

    @property
    def name(self) -> bytes:
        return b"%d.%d" % (self.producer, self.number)

    def __str__(self) -> str:
        return f"message {self.number} of producer {self.producer}"


class LoadHistory:
    """Records the sends, results, commits and deliveries of messages in one run. The function `fail(invariant,
    what)` records a violation."""

    def __init__(self, fail: Fail) -> None:
        self.outcomes = dict.fromkeys(SendOutcome, 0)
        self.delivered = 0
        self.reads = 0
        # Messages that were trimmed before a consumer had read them.
        self.skipped = 0
        self._fail = fail
        self._sent: dict[bytes, SentMessage] = {}
        # Messages of topics that the consumers of the load do not read.
        self._doomed: set[bytes] = set()
        # Producer -> number of its last message.
        self._numbers: dict[int, int] = {}
        # Queue -> committed messages by offset.
        self._queues: dict[tuple[str, int], list[SentMessage]] = {}
        # (producer, line, queue) -> number of the last message that is committed there.
        self._last: dict[tuple[int, int, str, int], int] = {}
        # (consumer, queue) -> the next offset that the consumer must receive.
        self._positions: dict[tuple[int, str, int], int] = {}
        # Queue -> its largest first offset on any node.
        self._begins: dict[tuple[str, int], int] = {}

    # -- called by producers

    def send(self, producer: int, topic: str, line: int = 0) -> SentMessage:
        """Record that this producer sends its next message, and return the record of the message."""
        number = self._numbers[producer] = self._numbers.get(producer, 0) + 1
        sent = SentMessage(producer, number, topic, line)
        self._sent[sent.name] = sent
        self.outcomes[SendOutcome.PENDING] += 1
        return sent

    def doom(self, name: bytes) -> None:
        """Record that a client sends a message with this name to a topic that the consumers of the load do not read."""
        self._doomed.add(name)

    def acknowledged(self, sent: SentMessage, *places: MessagePlace) -> None:
        """Record the results of all sends of a message. A message that is sent again has several."""
        self._settle(sent, SendOutcome.OK)
        for place in places:
            if sent.place != place:
                self._fail(
                    "acknowledged is committed", f"{sent} was acknowledged at {place}, but committed at {sent.place}"
                )

    def scheduled(self, sent: SentMessage) -> None:
        """Record that a message with a delivery time was acknowledged. It may wait, and it has no place then."""
        self._settle(sent, SendOutcome.OK)

    def failed(self, sent: SentMessage) -> None:
        self._settle(sent, SendOutcome.FAILED)
        if sent.place is not None:
            self._fail("failed is not committed", f"{sent} surely failed, but is committed at {sent.place}")

    def unknown(self, sent: SentMessage) -> None:
        self._settle(sent, SendOutcome.UNKNOWN)

    def _settle(self, sent: SentMessage, outcome: SendOutcome) -> None:
        assert sent.outcome is SendOutcome.PENDING
        sent.outcome = outcome
        self.outcomes[SendOutcome.PENDING] -= 1
        self.outcomes[outcome] += 1

    # -- called for the log

    def committed(self, queue: int, base_offset: int, values: list[bytes]) -> None:
        """Record the next committed batch of the log."""
        for offset, value in enumerate(values, base_offset):
            sent = self._sent.get(name := name_of(value))
            if name in self._doomed:
                continue
            if sent is None:
                self._fail("committed was sent", f"no producer sent {value[:40]!r}")
            else:
                self._commit(sent, MessagePlace(sent.topic, queue, offset))

    def _commit(self, sent: SentMessage, place: MessagePlace) -> None:
        if sent.place is not None:
            self._fail("exactly once", f"{sent} is committed at {sent.place} and at {place}")
        if sent.outcome is SendOutcome.FAILED:
            self._fail("failed is not committed", f"{sent} surely failed, but is committed at {place}")
        queue = self._queues.setdefault((place.topic, place.queue), [])
        if len(queue) != place.offset:
            self._fail("offsets without gaps", f"{place} is committed after {len(queue)} messages")
        line = (sent.producer, sent.line, place.topic, place.queue)
        if sent.line != NO_ORDER and sent.number <= self._last.get(line, 0):
            self._fail("in its producer's order", f"{sent} is committed after message {self._last[line]}")
        self._last[line] = sent.number
        sent.place = place
        queue.append(sent)

    def begins(self, topic: str, queue: int, offset: int) -> None:
        """Record that the queue begins at this offset on one node, because the log start of the node has moved."""
        self._begins[topic, queue] = max(offset, self.first_offset(topic, queue))

    def first_offset(self, topic: str, queue: int) -> int:
        """Return the largest of the first offsets that the nodes have for the queue."""
        return self._begins.get((topic, queue), 0)

    # -- called by consumers

    def position(self, consumer: int, topic: str, queue: int) -> int:
        return self._positions.get((consumer, topic, queue), 0)

    def deliver(self, consumer: int, place: MessagePlace, value: bytes) -> None:
        key = (consumer, place.topic, place.queue)
        expected = self._positions.get(key, 0)
        if place.offset != expected:
            self._fail("no gap, no repeat", f"consumer {consumer} received {place} instead of offset {expected}")
        self._positions[key] = place.offset + 1
        self.delivered += 1
        sent = self.at(place)
        if sent is None:
            self._fail("delivered is committed", f"consumer {consumer} received {place}, which is not committed")
        elif sent.name != name_of(value):
            self._fail("delivered is committed", f"consumer {consumer} received {value[:40]!r} at {place}, not {sent}")

    def skip(self, consumer: int, topic: str, queue: int, offset: int) -> None:
        """Record that a consumer continues the queue at this offset, because the earlier messages were trimmed."""
        if offset > self.first_offset(topic, queue):
            self._fail(
                "nothing kept is skipped",
                f"a consumer learned that {topic}/{queue} begins at {offset}: not so on any node",
            )
        self.skipped += offset - self.position(consumer, topic, queue)
        self._positions[consumer, topic, queue] = offset

    def read(self, topic: str, queue: int, floor: int, end: int) -> None:
        """Check a linearizable read of the end offset of a queue, which returned `end`. When the client requested
        the read, `floor` messages of the queue were committed."""
        self.reads += 1
        if end < floor:
            self._fail("reads are not stale", f"{topic}/{queue} ends at {end}, but {floor} were committed before")
        if end > len(self._queues.get((topic, queue), [])):
            self._fail("read is committed", f"{topic}/{queue} ends at {end}, after its last committed message")

    # -- called for the end and for copies

    def at(self, place: MessagePlace) -> SentMessage | None:
        """Return the message that is committed there, or None."""
        queue = self._queues.get((place.topic, place.queue), [])
        return queue[place.offset] if place.offset < len(queue) else None

    def ends(self) -> dict[tuple[str, int], int]:
        """Return, for each queue, the offset after its last committed message."""
        return {key: len(queue) for key, queue in self._queues.items()}

    @property
    def total(self) -> int:
        """The number of committed messages in all queues."""
        return sum(len(queue) for queue in self._queues.values())


def name_of(value: bytes) -> bytes:
    """Return the name of the message with this value. The value of each message consists of the message's name, a
    colon, and arbitrary bytes."""
    return value.partition(b":")[0]
