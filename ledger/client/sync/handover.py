"""Passes messages from the program's threads to the thread of the event loop, many at a time.

A call of another thread's event loop costs a system call and a switch of threads, and a coroutine for each message
costs as much again. So the program's threads put messages into a line, and only the first message of an empty line
wakes the event loop, which takes the whole line. The event loop looks again after each line, so a program that sends
without pause wakes it once.

    program's threads -> line (at most 2,048 messages) -> event loop's thread -> producer

A message in the line is not counted in the producer's buffer yet. While the line is full, the program's thread waits
for the event loop, which needs some milliseconds. If the producer's buffer is full, the event loop refuses the message
with BufferFullError. When the event loop has ended, the messages that it has not taken get ClosedError.

The event loop's thread takes no lock of this module, because a signal handler runs in the middle of any call of the
main thread. If it closes the producer there, it waits for the event loop, and an event loop that waited for a lock of
the interrupted call would never end. So both sides use only operations of a deque that are atomic, in an order that
loses no message, also if the handler sends messages itself, and if Ctrl-C ends the call.
"""

from __future__ import annotations

import concurrent.futures
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
# Threads that send at the same moment may exceed both by a message each, and callbacks of futures do not wait.

# While the line is full, how often a waiting thread looks whether the event loop still runs.
_LOOK_SECONDS = 0.1

MessageFuture = concurrent.futures.Future[RecordMetadata]
# A message as it waits: its future, its size in bytes, its topic, and the other arguments of `send_nowait` in order.
_Waiting = tuple[MessageFuture, int, str, tuple[Any, ...]]


class Handover:
    """The line of one synchronous producer. `accept(receipt, topic, *arguments)` is called on the event loop's thread
    for each message, in order. If it raises an error, the future of the message gets the error."""

    def __init__(self, thread: LoopThread, accept: Callable[..., None]) -> None:
        self._thread = thread
        self._accept = accept
        self._line: deque[_Waiting] = deque()
        # The bytes that came into the line and that left it. The program's threads change the first number, and the
        # event loop's thread the second.
        self._came_bytes = 0
        self._left_bytes = 0
        # Protects `_came_bytes`. A signal handler may send a message while its own thread holds the lock.
        self._lock = threading.RLock()
        # A held lock for each thread that waits for room. The event loop releases it.
        self._waiters: deque[threading.Lock] = deque()
        # Messages that were taken from the line. Only the event loop's thread uses them.
        self._taken: deque[_Waiting] = deque()
        # While the two are equal, the event loop comes: it was asked, and has not found the line empty since. Each time
        # it finds the line empty, it begins a new turn.
        self._turn = 0
        self._asked_in = -1
        # True when the event loop has ended, and takes nothing from the line any more.
        self._ended = False
        thread.at_end(self._end)

    def __len__(self) -> int:
        """The number of messages that wait in the line."""
        return len(self._line)

    def put(self, size: int, topic: str, arguments: tuple[Any, ...]) -> MessageFuture:
        """Add a message of `size` bytes to the line, and return its future. If the line is full, wait until the event
        loop has taken it. Raises ClosedError."""
        if self._ended or self._thread.is_copy:
            self._thread.check_open()
        waiting = (MessageFuture(), size, topic, arguments)
        if self._thread.is_current:  # a callback of a future sends again, and must not wait for its own thread
            self._left_bytes -= size
        else:
            while self._is_full(size):
                self._wait_for_room(size)
            with self._lock:
                self._came_bytes += size
        self._line.append(waiting)
        if self._ended:
            self._refuse_all()
        else:
            self._ask()
        return waiting[0]

    def _ask(self) -> None:
        """Ask the event loop to come, if it does not come yet. The caller's message is in the line already, and the
        event loop begins a new turn before it looks into the line for the last time. So one of the two sees the other.
        """
        turn = self._turn
        if self._asked_in != turn:
            self._thread.soon(self._take)
            self._asked_in = turn  # not before: a signal may come in between, and its handler may send and wait

    def _is_full(self, size: int) -> bool:
        waiting = len(self._line)
        return waiting > 0 and (
            waiting >= MAX_LINE_MESSAGES or self._came_bytes - self._left_bytes + size > MAX_LINE_BYTES
        )

    def _wait_for_room(self, size: int) -> None:
        while self._is_full(size):
            self._thread.check_open()
            waiter = threading.Lock()
            waiter.acquire()
            self._waiters.append(waiter)
            # The event loop may have been here before the waiter. If it does not come: perhaps Ctrl-C ended the call
            # that put the last message into the line, before it asked.
            if self._is_full(size) and not waiter.acquire(timeout=_LOOK_SECONDS):
                self._ask()

    def _take(self) -> None:
        if not self._line and not self._taken:
            self._turn += 1
            if not self._line:  # a message that came in between did not ask
                return
            self._asked_in = self._turn
        self._thread.call_soon_here(self._take)
        self._empty_into_taken()
        while self._taken:
            future, _, topic, arguments = self._taken.popleft()
            receipt = MessageReceipt(topic, future)
            try:
                self._accept(receipt, topic, *arguments)
            except LedgerError as error:
                receipt.failed(error)
            except Exception as error:  # of an argument with an unusual type: the program gets it as from send()
                receipt.broken(error)

    def _empty_into_taken(self) -> None:
        """Take what is in the line now, and wake the threads that wait for room."""
        for _ in range(len(self._line)):
            waiting = self._line.popleft()
            self._left_bytes += waiting[1]
            self._taken.append(waiting)
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        while self._waiters:
            self._waiters.popleft().release()

    def _end(self) -> None:
        """Fail the messages that the event loop has not taken before it ended, and let no more into the line."""
        self._ended = True
        while self._taken:
            _refuse(self._taken.popleft())
        self._refuse_all()
        self._wake_waiters()

    def _refuse_all(self) -> None:
        """Fail the messages that came into the line after the event loop took it for the last time. Several threads
        may do so at the same time."""
        while self._line:
            try:
                waiting = self._line.popleft()
            except IndexError:  # another thread was faster
                return
            _refuse(waiting)


def _refuse(waiting: _Waiting) -> None:
    future, _, topic, _ = waiting
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
