"""A small model of a leader's log, and a receipt that records its result. Both serve the tests of the producer.

The model checks epochs and sequence numbers as a broker does. The model remembers only the newest batches of a
producer, and a test can restore an earlier state of the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ledger.batch import Batch, BatchHeader
from ledger.client.producer.producer_batch import Acknowledged, Answer
from ledger.errors import LedgerError, MessageTooLargeError, SequenceGapError
from ledger.timed import WaitingMessages

REMEMBERED = 8
REFUSED = b"too large"


@dataclass
class Producer:
    """The broker's state for one producer in one queue."""

    epoch: int = 0
    next_sequence: int = 0
    batches: dict[int, tuple[int, int]] = field(default_factory=dict)  # first sequence -> (base offset, count)


class NaiveBroker:
    """The log of one queue. `produce` returns the answer that a correct leader gives to a batch."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.producer = Producer()
        # The state before an append that was not committed. The next leader may or may not have the append.
        self.saved: tuple[list[bytes], Producer] | None = None

    def produce(self, data: bytes) -> Answer:
        values, header = Batch(data).values(), BatchHeader.parse(data)
        if REFUSED in values:
            return MessageTooLargeError("too large")
        known = self.producer
        if header.epoch < known.epoch:
            raise AssertionError("a live producer was fenced by itself")
        if header.epoch > known.epoch:
            if header.first_sequence != 0:
                return SequenceGapError()
            known = self.producer = Producer(header.epoch)
        if header.first_sequence > known.next_sequence:
            return SequenceGapError()
        if header.first_sequence < known.next_sequence:
            base_offset, count = known.batches[header.first_sequence]
            assert count == len(values)
            assert self.log[base_offset : base_offset + count] == values, "two batches have the same number"
            return Acknowledged(base_offset, 1, 0, duplicate=True)
        base_offset = len(self.log)
        self.log += values
        known.next_sequence += len(values)
        known.batches[header.first_sequence] = (base_offset, len(values))
        known.batches = dict(sorted(known.batches.items())[-REMEMBERED:])
        return Acknowledged(base_offset, 1, 0, duplicate=False)

    def mark(self) -> tuple[list[bytes], Producer]:
        known = self.producer
        return list(self.log), Producer(known.epoch, known.next_sequence, dict(known.batches))

    def back_to(self, mark: tuple[list[bytes], Producer]) -> None:
        self.log, self.producer = mark


@dataclass
class Fate:
    """The receipt of one piece. The receipt records the result, and asserts that the result is delivered only once."""

    values: list[bytes]
    queue: int | None = None
    first_offset: int | None = None
    error: LedgerError | None = None

    @property
    def told(self) -> bool:
        return self.first_offset is not None or self.error is not None

    def acknowledged(self, queue: int, first_offset: int, count: int, answer: Acknowledged) -> None:
        assert not self.told
        assert count == len(self.values)
        self.queue = queue
        self.first_offset = first_offset

    def scheduled(self, queue: int, waiting: WaitingMessages, answer: Acknowledged) -> None:
        raise AssertionError("the messages have no delivery times")

    def failed(self, error: LedgerError) -> None:
        assert not self.told
        self.error = error
