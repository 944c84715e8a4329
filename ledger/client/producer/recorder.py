"""Writes each send and each cancel of a producer, with its result, into a history file (`AsyncProducer(history=...)`).

The recorder replaces the receipt of each piece (messages that are sent together) with a receipt that also writes to
the file. When the producer accepts a piece, the recorder notes the sizes and checksums of its messages, and the
current time. When the batch of the piece has a result, the recorder learns the sequence numbers of the piece. The
recorder writes the history line of the piece before the program gets the result. Messages of transactions are not
recorded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import google_crc32c

from ledger.batch import BatchHeader
from ledger.client.producer.producer_batch import NONE, Acknowledged, BatchResult, Piece, ProducerBatch, Receipt
from ledger.client.producer.receipts import TimedReceipt
from ledger.errors import DeliveryTimeoutError, LedgerError
from ledger.history import Cancel, Close, HistoryWriter, Open, Operation, OperationOutcome, Schedule, Send, now_ns
from ledger.timed import TimedHandle, WaitingMessages


class Recorder:
    """Writes the history file of one producer. The methods raise HistoryError if the file cannot be written."""

    def __init__(self, path: Path, process: int, producer_id: int, clock_ms: Callable[[], int]) -> None:
        """`clock_ms` is the producer's wall clock, in ms since 1970."""
        self._writer = HistoryWriter(path)
        self.process = process
        self.producer = f"{producer_id:016x}"
        self._clock_ms = clock_ms
        self._writer.write(Open(process, self.producer, now_ns()))

    def handed_over(self, topic: str, piece: Piece) -> None:
        if piece.waits:
            piece.receipt = _RecordedWaiting(self, piece.receipt, topic, piece, self._clock_ms())
        else:
            piece.receipt = _RecordedSend(self, piece.receipt, topic, piece)

    def settling(self, results: BatchResult) -> None:
        """Note a batch's queue and sequence numbers for each piece in the batch, immediately before the batch's
        receipts get the result."""
        if results.batch.half is not None:
            return  # messages of transactions are not recorded
        sequence = NONE if results.is_repeat else results.batch.first_sequence
        for receipt, count in results.receipts:
            recorded = receipt.inner if isinstance(receipt, TimedReceipt) else receipt
            assert isinstance(recorded, _RecordedPiece)
            recorded.learn(results.queue, results.batch, sequence)
            sequence += count if sequence != NONE else 0

    async def cancelling(
        self, handles: Sequence[str], cancel: Callable[[Sequence[str]], Awaitable[list[bool]]]
    ) -> list[bool]:
        """Cancel messages with `cancel`, write a line for each handle, and return the results."""
        named, start = [TimedHandle.parse(handle) for handle in handles], now_ns()
        try:
            results = await cancel(handles)
        except BaseException as error:
            for handle in named:
                self._cancel(handle, OperationOutcome.UNKNOWN, type(error).__name__, start)
            raise
        for handle, result in zip(named, results, strict=True):
            self._cancel(handle, OperationOutcome.OK if result else OperationOutcome.FAIL, None, start)
        return results

    def write(self, operation: Operation) -> None:
        self._writer.write(operation)

    def close(self) -> None:
        """Write the last line, `close`, and close the file. All sends must already have a result."""
        self._writer.write(Close(self.process, self.producer, now_ns()))
        self._writer.close()

    def _cancel(self, handle: TimedHandle, outcome: OperationOutcome, error: str | None, start: int) -> None:
        shard, identity, time_ms = handle.shard, handle.identity, handle.deliver_at_ms
        self._writer.write(Cancel(self.process, outcome, shard, identity, time_ms, error, start, now_ns()))


class _RecordedPiece:
    """A receipt that writes the history line of its piece, and then passes the result to the original receipt.
    Implements Receipt."""

    __slots__ = ("_inner", "_recorder", "crcs", "doubtful", "epoch", "queue", "sequence", "sizes", "start", "topic")

    def __init__(self, recorder: Recorder, inner: Receipt, topic: str, piece: Piece) -> None:
        self._recorder = recorder
        self._inner = inner
        self.topic = topic
        self.crcs = [google_crc32c.value(value) for value in piece.values]
        self.sizes = [len(value) for value in piece.values]
        self.start = now_ns()
        self.queue = self.sequence = NONE
        self.epoch = 0
        self.doubtful = False

    def learn(self, queue: int, batch: ProducerBatch, sequence: int) -> None:
        """Note what is known when the batch of the piece has a result. `sequence` is that of the first message, or NONE
        if the batch has no number, or the messages were left out of it."""
        self.queue, self.epoch, self.sequence = queue, batch.epoch, sequence
        self.doubtful = batch.doubtful or batch.in_flight

    def acknowledged(self, queue: int, first_offset: int, count: int, answer: Acknowledged) -> None:
        self._inner.acknowledged(queue, first_offset, count, answer)

    def scheduled(self, queue: int, waiting: WaitingMessages, answer: Acknowledged) -> None:
        self._inner.scheduled(queue, waiting, answer)

    def failed(self, error: LedgerError) -> None:
        doubtful = self.doubtful or (isinstance(error, DeliveryTimeoutError) and error.maybe_committed)
        self._write_failed(OperationOutcome.UNKNOWN if doubtful else OperationOutcome.FAIL, type(error).__name__)
        self._inner.failed(error)

    def _write_failed(self, outcome: OperationOutcome, error: str) -> None:
        raise NotImplementedError


class _RecordedSend(_RecordedPiece):
    """The receipt of messages without delivery times."""

    __slots__ = ("bound",)

    def __init__(self, recorder: Recorder, inner: Receipt, topic: str, piece: Piece) -> None:
        super().__init__(recorder, inner, topic, piece)
        self.bound = False

    def learn(self, queue: int, batch: ProducerBatch, sequence: int) -> None:
        super().learn(queue, batch, sequence)
        self.bound = batch.bound

    def acknowledged(self, queue: int, first_offset: int, count: int, answer: Acknowledged) -> None:
        self._write(OperationOutcome.OK, first_offset, None)
        super().acknowledged(queue, first_offset, count, answer)

    def _write_failed(self, outcome: OperationOutcome, error: str) -> None:
        self._write(outcome, None, error)

    def _write(self, outcome: OperationOutcome, offset: int | None, error: str | None) -> None:
        self._recorder.write(
            Send(
                self._recorder.process,
                outcome,
                self.topic,
                self.queue,
                self.bound,
                offset,
                self._recorder.producer if self.sequence != NONE else "",
                self.epoch,
                self.sequence,
                self.crcs,
                self.sizes,
                error,
                self.start,
                now_ns(),
            )
        )


class _RecordedWaiting(_RecordedPiece):
    """The receipt of messages with delivery times. `queue` is their target queue."""

    __slots__ = ("_clock_ms", "_producer", "_times_ms", "_waits_in")

    def __init__(self, recorder: Recorder, inner: Receipt, topic: str, piece: Piece, clock_ms: int) -> None:
        super().__init__(recorder, inner, topic, piece)
        self._times_ms = piece.delivery_times_ms()
        self._clock_ms = clock_ms
        self._waits_in = NONE
        self._producer = ""

    def learn(self, queue: int, batch: ProducerBatch, sequence: int) -> None:
        assert batch.target is not None
        super().learn(batch.target[1], batch, sequence)
        if sequence != NONE:
            self._waits_in, self._producer = queue, f"{BatchHeader.parse(batch.encoded).producer_id:016x}"

    def scheduled(self, queue: int, waiting: WaitingMessages, answer: Acknowledged) -> None:
        self._write(OperationOutcome.OK, waiting.shard, waiting.first_identity, None)
        super().scheduled(queue, waiting, answer)

    def _write_failed(self, outcome: OperationOutcome, error: str) -> None:
        self._write(outcome, NONE, None, error)

    def _write(self, outcome: OperationOutcome, shard: int, identity: int | None, error: str | None) -> None:
        self._recorder.write(
            Schedule(
                self._recorder.process,
                outcome,
                self.topic,
                self.queue,
                shard,
                self._waits_in,
                identity,
                self._producer,
                self.epoch,
                self.sequence,
                self._times_ms,
                self.crcs,
                self.sizes,
                error,
                self._clock_ms,
                self.start,
                now_ns(),
            )
        )
