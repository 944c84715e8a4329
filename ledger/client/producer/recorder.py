"""Writes each send of a producer and its result into a history file (`AsyncProducer(history=...)`).

The recorder replaces the receipt of each piece (messages that are sent together) with a receipt that also writes to
the file. When the producer accepts a piece, the recorder notes the sizes and checksums of its messages, and the
current time. When the batch of the piece has a result, the recorder learns the sequence numbers of the piece. The
recorder writes the history line of the piece before the program gets the result. Messages with delivery times are not
recorded.
"""

from __future__ import annotations

from pathlib import Path

import google_crc32c

from ledger.client.producer.producer_batch import NONE, Acknowledged, BatchResult, Piece, ProducerBatch, Receipt
from ledger.errors import DeliveryTimeoutError, LedgerError
from ledger.history import Close, HistoryWriter, Open, OperationOutcome, Send, now_ns
from ledger.timed import WaitingMessages


class Recorder:
    """Writes the history file of one producer. The methods raise HistoryError if the file cannot be written."""

    def __init__(self, path: Path, process: int, producer_id: int) -> None:
        self._writer = HistoryWriter(path)
        self._process = process
        self._producer = f"{producer_id:016x}"
        self._writer.write(Open(process, self._producer, now_ns()))

    def handed_over(self, topic: str, piece: Piece) -> None:
        piece.receipt = _Recorded(self, piece.receipt, topic, piece)

    def settling(self, results: BatchResult) -> None:
        """Note a batch's queue and sequence numbers for each piece in the batch, immediately before the batch's
        receipts get the result."""
        if results.batch.target is not None:
            return  # messages with delivery times are not recorded
        sequence = results.batch.first_sequence
        for receipt, count in results.receipts:
            assert isinstance(receipt, _Recorded)
            receipt.learn(results.queue, results.batch, sequence)
            sequence += count if sequence != NONE else 0

    def write(self, recorded: _Recorded, outcome: OperationOutcome, offset: int | None, error: str | None) -> None:
        self._writer.write(
            Send(
                self._process,
                outcome,
                recorded.topic,
                recorded.queue,
                recorded.bound,
                offset,
                self._producer if recorded.sequence != NONE else "",
                recorded.epoch,
                recorded.sequence,
                recorded.crcs,
                recorded.sizes,
                error,
                recorded.start,
                now_ns(),
            )
        )

    def close(self) -> None:
        """Write the last line, `close`, and close the file. All sends must already have a result."""
        self._writer.write(Close(self._process, self._producer, now_ns()))
        self._writer.close()


class _Recorded:
    """A receipt that writes the history line of its piece, and then passes the result to the original receipt.
    Implements Receipt."""

    __slots__ = (
        "_inner",
        "_recorder",
        "bound",
        "crcs",
        "doubtful",
        "epoch",
        "queue",
        "sequence",
        "sizes",
        "start",
        "topic",
    )

    def __init__(self, recorder: Recorder, inner: Receipt, topic: str, piece: Piece) -> None:
        self._recorder = recorder
        self._inner = inner
        self.topic = topic
        self.crcs = [google_crc32c.value(value) for value in piece.values]
        self.sizes = [len(value) for value in piece.values]
        self.start = now_ns()
        self.queue = self.sequence = NONE
        self.epoch = 0
        self.bound = self.doubtful = False

    def learn(self, queue: int, batch: ProducerBatch, sequence: int) -> None:
        self.queue, self.epoch, self.sequence = queue, batch.epoch, sequence
        self.bound = batch.bound
        self.doubtful = batch.doubtful or batch.in_flight

    def acknowledged(self, queue: int, first_offset: int, count: int, answer: Acknowledged) -> None:
        self._recorder.write(self, OperationOutcome.OK, first_offset, None)
        self._inner.acknowledged(queue, first_offset, count, answer)

    def scheduled(self, queue: int, waiting: WaitingMessages, answer: Acknowledged) -> None:
        self._inner.scheduled(queue, waiting, answer)

    def failed(self, error: LedgerError) -> None:
        doubtful = self.doubtful or (isinstance(error, DeliveryTimeoutError) and error.maybe_committed)
        self._recorder.write(
            self, OperationOutcome.UNKNOWN if doubtful else OperationOutcome.FAIL, None, type(error).__name__
        )
        self._inner.failed(error)
