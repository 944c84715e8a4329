"""Turns a history into columns. Each message that was sent has one row, and each message that was read has one row.

A Python loop is too slow for ten million operations, so this module replaces names by numbers. Each check then
consists of a few sorts and comparisons of numpy columns. The *identity* of a message is a number that stands for its
queue, producer, epoch and sequence. The same message has the same identity everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np

from chaos.live.checker.cells import NONE, OUTCOMES, Flags, Growing, Numbers
from chaos.live.checker.shared_columns import SharedColumns, SharedReader
from chaos.live.checker.timed_columns import TimedColumns, TimedReader
from chaos.live.checker.transaction_columns import TransactionColumns, TransactionReader
from ledger.history import (
    AdminRequest,
    Assign,
    Cancel,
    Close,
    Decide,
    Delivery,
    EndRequest,
    HistoryError,
    LeaseRequest,
    Open,
    Operation,
    Poll,
    Prepare,
    ProgressReport,
    Reveal,
    Schedule,
    Send,
    SharedReceive,
)


@dataclass(frozen=True, slots=True)
class SendColumns:
    """Messages that were sent, in the order of the history. All columns have the same length."""

    # The number of the line in the history, counted from 0 over all files.
    operation: Numbers
    process: Numbers
    # A number for topic and queue; `HistoryColumns.queues` has the names.
    queue: Numbers
    # The identity of the message; NONE if the message never left its process.
    identity: Numbers
    producer: Numbers
    epoch: Numbers
    sequence: Numbers
    # The acknowledged offset; NONE unless the outcome is OK.
    offset: Numbers
    # Whether the producer chose the queue, so that the order in the queue is promised.
    bound: Flags
    outcome: Numbers
    crc: Numbers
    start: Numbers
    end: Numbers


@dataclass(frozen=True, slots=True)
class ReadColumns:
    """Messages that were read, in the order of the history."""

    operation: Numbers
    process: Numbers
    queue: Numbers
    identity: Numbers
    producer: Numbers
    epoch: Numbers
    sequence: Numbers
    offset: Numbers
    crc: Numbers
    # The node that the consumer reads from; 0 if the consumer follows the leader.
    node: Numbers
    final: Flags
    start: Numbers
    end: Numbers


@dataclass(frozen=True, slots=True)
class HistoryColumns:
    """A whole history: sends and reads as columns, and the other operations as lists."""

    sends: SendColumns
    reads: ReadColumns
    timed: TimedColumns
    transactions: TransactionColumns
    shared: SharedColumns
    # Topic and queue, by the number of the queue.
    queues: Sequence[tuple[str, int]]
    producers: Sequence[str]
    # Producers whose start is in the history.
    known: frozenset[int]
    # Producers that recorded the outcome of every message. A killed producer did not.
    orderly: frozenset[int]
    # Processes with a producer that did not.
    silent: frozenset[int]
    # Queue and node of each final reading, including final readings that found no message.
    read_to_end: frozenset[tuple[int, int]]
    # By process of the final reading: the node that the process read.
    readers: Mapping[int, int]
    # Each operation comes with the number of its line in the history.
    assigns: Sequence[tuple[int, Assign]]
    progress: Sequence[tuple[int, ProgressReport]]
    admin: Sequence[AdminRequest]
    operations: int

    def beginnings(self) -> dict[tuple[int, int], int]:
        """Return, for each queue and node, the offset at which the final reading began. Retention has removed the
        messages before the returned offset.
        """
        numbers = {queue: number for number, queue in enumerate(self.queues)}
        return {
            (numbers[assign.topic, assign.queue], self.readers[assign.process]): assign.offset
            for _, assign in self.assigns
            if assign.process in self.readers
        }

    def place(self, queue: int, offset: int) -> str:
        """Return `topic:queue:offset`."""
        topic, number = self.queues[queue]
        return f"{topic}:{number}:{offset}"

    def name(self, producer: int, epoch: int, sequence: int) -> str:
        """Return the name of a message, as reports print it."""
        return f"{self.producers[producer]}/{epoch}/{sequence}"


class _Numbering:
    """Numbers names (or other keys) in the order in which they first appear."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def of(self, thing: Any) -> int:
        return self._numbers.setdefault(thing, len(self._numbers))

    def things(self) -> list[Any]:
        return list(self._numbers)


def columns_of(history: Iterable[Operation]) -> HistoryColumns:
    """Read the whole history into memory: about 100 bytes for each message sent and for each message read."""
    return _Reader().read(history)


class _Reader:
    def __init__(self) -> None:
        self._queues, self._producers = _Numbering(), _Numbering()
        self._sends = Growing(shared=9, own=3)
        self._reads = Growing(shared=7, own=5)
        self._timed = TimedReader(self._queues.of)
        self._transactions = TransactionReader(self._queues.of)
        self._shared = SharedReader(self._queues.of)
        self._closed: set[int] = set()
        # Process and producer.
        self._opened: set[tuple[int, int]] = set()
        self._read_to_end: set[tuple[int, int]] = set()
        self._readers: dict[int, int] = {}
        self._assigns: list[tuple[int, Assign]] = []
        self._progress: list[tuple[int, ProgressReport]] = []
        self._admin: list[AdminRequest] = []

    def read(self, history: Iterable[Operation]) -> HistoryColumns:
        number = -1
        for number, operation in enumerate(history):
            self._take(number, operation)
        sends, reads = self._columns()
        return HistoryColumns(
            sends=sends,
            reads=reads,
            timed=self._timed.columns(),
            transactions=self._transactions.columns(),
            shared=self._shared.columns(),
            queues=self._queues.things(),
            producers=self._producers.things(),
            known=frozenset(producer for _, producer in self._opened),
            orderly=frozenset(self._closed),
            silent=frozenset(process for process, producer in self._opened if producer not in self._closed),
            read_to_end=frozenset(self._read_to_end),
            readers=self._readers,
            assigns=self._assigns,
            progress=self._progress,
            admin=self._admin,
            operations=number + 1,
        )

    def _take(self, number: int, operation: Operation) -> None:
        match operation:
            case Send():
                self._send(number, operation)
            case Poll():
                self._poll(number, operation)
            case Schedule():
                self._timed.schedule(number, operation)
            case Cancel():
                self._timed.cancel(number, operation)
            case Delivery():
                self._timed.delivery(number, operation)
            case Prepare():
                self._transactions.prepare(number, operation)
            case Decide():
                self._transactions.decide(number, operation)
            case EndRequest():
                self._transactions.end(number, operation)
            case Reveal():
                self._transactions.reveal(number, operation)
            case SharedReceive():
                self._shared.receive(number, operation)
            case LeaseRequest():
                self._shared.change(number, operation)
            case Assign():
                self._queues.of((operation.topic, operation.queue))
                self._assigns.append((number, operation))
            case ProgressReport():
                self._progress.append((number, operation))
            case AdminRequest():
                self._admin.append(operation)
            case Open():
                self._opened.add((operation.process, self._producers.of(operation.producer)))
            case Close():
                self._closed.add(self._producers.of(operation.producer))

    def _send(self, number: int, send: Send) -> None:
        count, queue = len(send.crcs), self._queues.of((send.topic, send.queue))
        producer = self._producers.of(send.producer)
        shared = (
            number,
            send.process,
            queue,
            producer,
            send.epoch,
            OUTCOMES[send.outcome],
            send.bound,
            send.start,
            send.end,
        )
        self._sends.add(count, shared, _run(send.sequence, count), _run(send.offset, count), send.crcs)

    def _poll(self, number: int, poll: Poll) -> None:
        queue = self._queues.of((poll.topic, poll.queue))
        shared = (number, poll.process, queue, poll.node, poll.final, poll.start, poll.end)
        if poll.final:
            self._read_to_end.add((queue, poll.node))
            self._readers[poll.process] = poll.node
        producers = map(self._producers.of, poll.producers)
        self._reads.add(len(poll.offsets), shared, poll.offsets, producers, poll.epochs, poll.sequences, poll.crcs)

    def _columns(self) -> tuple[SendColumns, ReadColumns]:
        operation, process, queue, producer, epoch, outcome, bound, start, end, *own = self._sends.columns()
        sequence, offset, crc = own
        read, reader, of, node, final, begun, over, at, by, era, number, sum_ = self._reads.columns()
        eras = _most(epoch, era) + 1
        numbers = _most(sequence, number) + 1
        kinds = len(self._queues.things()) * len(self._producers.things()) * eras
        if kinds * numbers >= 1 << 63:
            raise HistoryError(
                f"the history has {kinds} combinations of producer, queue and epoch of up to {numbers} messages; "
                "64 bits cannot number them all: judge a shorter run"
            )

        def identity(queue: Numbers, producer: Numbers, epoch: Numbers, sequence: Numbers) -> Numbers:
            return ((queue * len(self._producers.things()) + producer) * eras + epoch) * numbers + sequence

        sent = np.where(sequence == NONE, NONE, identity(queue, producer, epoch, sequence))
        sends = SendColumns(
            operation, process, queue, sent, producer, epoch, sequence, offset, bound == 1, outcome, crc, start, end
        )
        met = identity(of, by, era, number)
        return sends, ReadColumns(read, reader, of, met, by, era, number, at, sum_, node, final == 1, begun, over)


def _run(first: int | None, count: int) -> Iterable[int]:
    return repeat(NONE, count) if first is None or first == NONE else range(first, first + count)


def _most(*columns: Numbers) -> int:
    return max((int(column.max()) for column in columns if len(column)), default=0)
