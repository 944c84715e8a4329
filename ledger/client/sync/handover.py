"""Passes messages from the program's threads to the thread of the event loop, many at a time.

A call of another thread's event loop costs a system call and a switch of threads, and a coroutine for each message
costs as much again. So the program's threads put messages into a line, and only the first message of an empty line
wakes the event loop, which takes the whole line. The event loop looks again after each line, so a program that sends
without pause wakes it once.

    program's threads -> line (at most 2,048 messages) -> event loop's thread -> producer

A message in the line is not counted in the producer's buffer yet. While the line is full, the program's thread waits
for the event loop, which needs some milliseconds. If the producer's buffer is full, the event loop refuses the message
with BufferFullError. When the event loop has ended, the messages that it has not taken get ClosedError.
"""

from __future__ import annotations

import concurrent.futures
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from ledger.client.producer.producer_batch import Acknowledged
from ledger.client.producer.receipts import scheduled_metadata
from ledger.client.records import RecordMetadata
from ledger.client.sync.loop_thread import LoopThread
from ledger.errors import ClosedError, LedgerError
from ledger.timed import WaitingMessages

MAX_LINE_MESSAGES = 2_048
# Large values are passed on sooner: a line holds no more bytes than this, or a single message.
MAX_LINE_BYTES = 8 << 20

# While the line is full, how often a waiting thread looks whether the event loop still runs.
_LOOK_SECONDS = 0.1

MessageFuture = concurrent.futures.Future[RecordMetadata]
# A message as it waits: its future, its topic, and the other arguments of `send_nowait` in their order.
_Waiting = tuple[MessageFuture, str, tuple[Any, ...]]


class Handover:
    """The line of one synchronous producer. `accept(receipt, topic, *arguments)` is called on the event loop's thread
    for each message, in order. If it raises an error, the future of the message gets the error."""

    def __init__(self, thread: LoopThread, accept: Callable[..., None]) -> None:
        self._thread = thread
        self._accept = accept
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._line: list[_Waiting] = []
        self._line_bytes = 0
        # Messages that were taken from the line. Only the event loop's thread uses them.
        self._taken: deque[_Waiting] = deque()
        # True from the time at which the event loop is asked to take the line until it has found the line empty.
        self._asked = False
        # True when the event loop has ended. The line is empty then, and stays empty.
        self._ended = False
        thread.at_end(self._end)

    def __len__(self) -> int:
        """The number of messages that wait in the line."""
        return len(self._line)

    def put(self, size: int, topic: str, arguments: tuple[Any, ...]) -> MessageFuture:
        """Add a message of `size` bytes to the line, and return its future. If the line is full, wait until the event
        loop has taken it. Raises ClosedError."""
        future = MessageFuture()
        with self._lock:
            if os.getpid() != self._pid:
                self._thread.check_open()  # a child process has a copy of the line, and no thread that takes it
            if self._is_full(size):
                self._wait_for_room(size)
            if self._ended:
                self._thread.check_open()  # raises ClosedError
            if not self._asked:
                self._thread.call_soon(self._take)
                self._asked = True
            self._line.append((future, topic, arguments))
            self._line_bytes += size
        return future

    def _is_full(self, size: int) -> bool:
        line = self._line
        return bool(line) and (len(line) >= MAX_LINE_MESSAGES or self._line_bytes + size > MAX_LINE_BYTES)

    def _wait_for_room(self, size: int) -> None:
        if self._thread.is_current:  # a callback of a future sends again: nobody else would take the line
            self._room.release()
            try:
                self._take()
            finally:
                self._room.acquire()
        while self._is_full(size):
            self._thread.check_open()
            self._room.wait(_LOOK_SECONDS)

    def _take(self) -> None:
        with self._lock:
            line, self._line, self._line_bytes = self._line, [], 0
            self._asked = bool(line)
            self._room.notify_all()
        if line:
            self._thread.call_soon_here(self._take)
        self._taken.extend(line)
        while self._taken:  # a callback of a future may call `_take` meanwhile
            future, topic, arguments = self._taken.popleft()
            receipt = MessageReceipt(topic, future)
            try:
                self._accept(receipt, topic, *arguments)
            except LedgerError as error:
                receipt.failed(error)
            except Exception as error:  # of an argument with an unusual type: the program gets it as from send()
                receipt.broken(error)

    def _end(self) -> None:
        """Fail the messages that the event loop has not taken before it ended, and let no more into the line."""
        with self._lock:
            self._ended = True
            self._taken.extend(self._line)
            self._line, self._line_bytes = [], 0
            self._room.notify_all()
        while self._taken:
            future, topic, _ = self._taken.popleft()
            MessageReceipt(topic, future).failed(ClosedError("The producer was closed before this message was sent."))


class MessageReceipt:
    """The receipt of one message of a synchronous producer. Implements Receipt. If the program has cancelled the
    future, it gets no result, but the message is still sent."""

    __slots__ = ("_future", "_topic")

    def __init__(self, topic: str, future: MessageFuture) -> None:
        self._topic = topic
        self._future = future

    def acknowledged(self, queue: int, first_offset: int, count: int, answer: Acknowledged) -> None:
        assert count == 1
        if self._future.set_running_or_notify_cancel():
            self._future.set_result(
                RecordMetadata(self._topic, queue, first_offset, answer.append_time_ms, answer.term, answer.duplicate)
            )

    def scheduled(self, queue: int, waiting: WaitingMessages, answer: Acknowledged) -> None:
        if self._future.set_running_or_notify_cancel():
            self._future.set_result(scheduled_metadata(self._topic, queue, waiting, answer))

    def failed(self, error: LedgerError) -> None:
        self.broken(error)

    def broken(self, error: Exception) -> None:
        if self._future.set_running_or_notify_cancel():
            self._future.set_exception(error)
