"""The asyncio push consumer: it calls a listener with each message, and delivers a failed message again later.

    mode         order of the messages                        after a failed attempt
    concurrent   any message, as soon as a worker is free     through the retry topic, a member receives it later
    orderly      the messages of each queue in order          the same message again, after `suspend_ms`
    broadcast    concurrent or orderly, in every consumer     skipped; if orderly, after the last attempt

A reader task adds messages to the deque `_ready`, or queues with messages if the listener is orderly. Each worker
takes messages from `_ready`, and calls the listener with them.

A message is finished when the listener returns without a failure. An attempt has failed if the listener raises an
exception, returns `RECONSUME_LATER`, or takes too long. After the last attempt the message goes to the dead letters.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic

from ledger.client.connection.backoff import Backoff
from ledger.client.connection.lifetime import AsyncLifetime, settings_in, within
from ledger.client.group.call_watch import Call, CallWatch
from ledger.client.group.claiming import GroupStart
from ledger.client.group.group_consumer import AsyncGroupConsumer
from ledger.client.group.rebalance_callbacks import RebalanceCallback
from ledger.client.records import Message, Received, TopicQueue
from ledger.client.traced_listener import traced_listener
from ledger.client.tracing import TracerSource, client_spans
from ledger.errors import ClosedError, ConsumerFencedError, InvalidArgumentError, LedgerError, UnknownTopicError

log = logging.getLogger("ledgermq.client.push_consumer")


class Outcome(Enum):
    """The result that a listener returns for a message. A listener that returns None has the result SUCCESS."""

    SUCCESS = "success"
    RECONSUME_LATER = "reconsume later"


# A function, a coroutine function, or an object that can be called. Plain functions are called in threads.
Listener = Callable[[Message[Received]], Outcome | None] | Callable[[Message[Received]], Awaitable[Outcome | None]]
# Called with an error, and with the message if the error concerns one.
OnError = Callable[[Exception, Message[Any] | None], object]
_PLACE = attrgetter("topic", "queue")
# After these errors of a read the consumer cannot go on: all its topics were deleted, or another consumer of the
# broadcast has taken its place.
_FINAL_ERRORS = (UnknownTopicError, ConsumerFencedError)
# The wait before a failed move of a message is tried again.
_AGAIN_S = 5.0
# How long a worker calls the listener before other tasks get a turn.
_TURN_S = 0.005
# The consumer reads about as many messages at a time as the listener consumes in _AHEAD_S, at most _MOST_AHEAD.
_AHEAD_S, _MOST_AHEAD = 0.05, 1_000
# All other settings are those of the group consumer.
_OWN_SETTINGS = (
    "listener", "concurrency", "orderly", "suspend_ms", "consume_timeout_ms", "on_error", "deserializer", "tracing",
)  # fmt: skip


@dataclass(slots=True)
class _OrderlyQueue:
    """The messages of one queue that wait for an orderly listener, with the number of failed attempts of the first
    message."""

    messages: deque[Message] = field(default_factory=deque)
    # Failed attempts of the first message by this consumer.
    failures: int = 0
    # Whether the latest attempt failed.
    has_failed: bool = False
    # The member's `losses` at a time when it owned all these messages; -1: unknown.
    losses: int = -1


class AsyncPushConsumer(AsyncLifetime, Generic[Received]):
    """An asyncio client that consumes topics as a member of a consumer group, and calls `listener` with each message.

    listener            a function, coroutine function or callable object, called with one Message. It raises or returns
                        Outcome.RECONSUME_LATER to receive the message again later. Plain functions run in threads
    concurrency         how many messages may be with the listener at the same time (default 20)
    orderly             True: deliver the messages of each queue in order, and repeat a failed message before the next
                        (default False)
    suspend_ms          how long an orderly queue waits after a failure (default 1,000)
    max_attempts        how many times a message is delivered before it goes to the dead letters (default 17); 1: no
                        retries
    consume_timeout_ms  how long the listener may take for one message (default 900,000); after that the attempt has
                        failed. A coroutine is cancelled. A plain function keeps its thread until it returns; with
                        `orderly` its queue waits for it and the attempt has not failed
    deserializer        a function such as json.loads, which makes the `value` of each message from its bytes (default
                        None). If it fails, the attempt has failed
    on_error            called with each error, and with its message or None: an exception of the listener, a failed
                        move to the retry topic, a failed read (default None). All of them are logged in any case. If
                        the listener is a plain function, on_error is called in threads
    tracing             True: make a span of OpenTelemetry around each call of the listener, with the global tracer
                        provider; or a tracer provider (default False). Needs the extra `otel`
    broadcast           True: this consumer receives every message, without retry topic and dead letters (default
                        False). A failed message is logged and skipped; with `orderly`, after max_attempts
    All other settings are those of AsyncGroupConsumer, except auto_acknowledge.

    If all topics of the consumer are deleted, or another consumer of the broadcast takes its `instance`, the consumer
    stops: `wait_closed` raises the error.
    """

    def __init__(
        self,
        *topics: str | Iterable[str],
        group: str,
        listener: Listener[Received],
        bootstrap_servers: str | Sequence[str] | None = None,
        concurrency: int = 20,
        orderly: bool = False,
        suspend_ms: int = 1_000,
        consume_timeout_ms: int = 15 * 60 * 1000,
        on_error: OnError | None = None,
        start: GroupStart = "earliest",
        tags: str | Iterable[str] | None = None,
        strategy: str = "average",
        configured: Iterable[tuple[str, int]] = (),
        room: str = "",
        acknowledge_interval_ms: int = 1_000,
        max_attempts: int = 17,
        broadcast: bool = False,
        instance: str | None = None,
        deserializer: Callable[[bytes], Received] | None = None,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
        session_timeout_ms: int = 10_000,
        release_timeout_ms: int = 30_000,
        max_bytes: int = 1024 * 1024,
        max_wait_ms: int = 500,
        check_crcs: bool = True,
        tracing: bool | TracerSource = False,
        client_id: str | None = None,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: float = 20,
        rng: random.Random | None = None,
        tls: bool | None = None,
        ca: str | Path | None = None,
        client_certificate: str | Path | None = None,
        client_key: str | Path | None = None,
        user: str | None = None,
        password: str | None = None,
        password_file: str | Path | None = None,
        token: str | None = None,
        profile: str | None = None,
    ) -> None:
        settings = settings_in(locals(), without=_OWN_SETTINGS)
        if concurrency < 1 or suspend_ms < 0:
            raise InvalidArgumentError(
                f"concurrency is {concurrency} and suspend_ms {suspend_ms}: they must be at least 1 and 0."
            )
        if max_attempts < 1 or consume_timeout_ms < 1:
            raise InvalidArgumentError(
                f"max_attempts is {max_attempts} and consume_timeout_ms {consume_timeout_ms}: they must be at least 1."
            )
        self._consumer = within(self._environment, AsyncGroupConsumer)(*topics, auto_acknowledge=False, **settings)
        self._broadcast = broadcast
        self._timeout_s = consume_timeout_ms / 1000
        self._monotonic_s = self._environment.monotonic_s
        self._calls = CallWatch(self._timeout_s, self._monotonic_s)
        spans = client_spans(tracing, client_id)
        self._listener = (
            listener if spans is None else traced_listener(listener, spans, group, is_async=is_async(listener))
        )
        self._deserializer = deserializer
        self._on_error = on_error
        # The error with which the consumer stopped by itself.
        self._error: LedgerError | None = None
        # Not None: a task that stops the consumer, because of `stop_reading` or of an error.
        self._ending: asyncio.Task[None] | None = None
        self._threads = None if is_async(listener) else ThreadPoolExecutor(concurrency, "ledgermq-listener")
        self._concurrency = concurrency
        self._orderly = orderly
        self._suspend_s = suspend_ms / 1000
        self._max_attempts = max_attempts
        # Messages or orderly queues that any worker may take. The limit on messages in hand bounds it. Threads take
        # from it too.
        self._ready: deque[Message | _OrderlyQueue] = deque()
        # Workers that wait for messages.
        self._idle: deque[asyncio.Future[None]] = deque()
        # The consumer's `losses` when the first ready message was read. If the consumer has more losses by now, another
        # member may own the queue of a ready message.
        self._losses = 0
        self._hungry = asyncio.Event()
        # With `orderly`: the queues that have messages.
        self._orderly_queues: dict[TopicQueue, _OrderlyQueue] = {}
        # Messages that the listener consumed, and messages that it failed to consume, until the loop's next turn.
        self._finished: deque[Message] = deque()
        self._failed: deque[Message] = deque()
        self._is_settling = False
        self._is_stopping = False
        # The tasks of workers, and of moves of failed messages.
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._backoff = Backoff(200, _AGAIN_S * 1000, rng or random.Random())
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect, join the group and begin to call the listener. Raises the same errors as
        AsyncGroupConsumer.start."""
        await self._consumer.start()
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self._reading = asyncio.create_task(self._read(), name="messages for the listener")
        self._watching = asyncio.create_task(self._watch(), name="how long the listener takes")
        for _ in range(self._concurrency):
            self._spawn(self._work())

    async def stop(self, timeout_s: float = 30.0) -> None:
        """Stop calling the listener, wait up to `timeout_s` seconds for running calls, then acknowledge the
        finished messages and leave the group."""
        if self._reading is None:
            return
        if self._is_stopping:
            await self._stopped.wait()
            return
        self._is_stopping = True
        try:
            await self._stop(self._reading, timeout_s)
        finally:
            self._stopped.set()

    async def _stop(self, reading: asyncio.Task[None], timeout_s: float) -> None:
        reading.cancel()
        self._ready.clear()
        for idle in self._idle:
            idle.cancel()
        deadline = self._loop.time() + timeout_s
        while self._tasks and (remaining := deadline - self._loop.time()) > 0:
            await asyncio.wait(list(self._tasks), timeout=remaining)
            self._settle_all()  # it may begin to move failed messages
        for task in list(self._tasks):
            task.cancel()
        self._watching.cancel()
        await asyncio.gather(reading, self._watching, *self._tasks, return_exceptions=True)
        self._settle_all()
        await self._consumer.stop()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def stop_reading(self) -> None:
        """Begin to stop as `stop` does, and return at once. `wait_closed` returns when the consumer is closed. See also
        `ledgermq.stop_on_signal`."""
        if self._reading is not None and self._ending is None and not self._is_stopping:
            self._ending = asyncio.create_task(self.stop(), name="end of a push consumer")

    async def wait_closed(self) -> None:
        """Wait until the consumer is closed. If the consumer stopped by itself, raise the error that made it stop."""
        if self._reading is None:
            raise ClosedError("This client is not started: call start() first, or use it in a `with` block.")
        await self._stopped.wait()
        if self._error is not None:
            raise self._error

    @property
    def closed(self) -> bool:
        """True if the consumer was stopped, or has stopped by itself."""
        return self._consumer.closed

    @property
    def member(self) -> str:
        """This member's name in the consumer group."""
        return self._consumer.member

    @property
    def assignment(self) -> list[TopicQueue]:
        """The queues that this member owns and has claimed, without those of the group's retry topic."""
        return self._consumer.assignment

    async def wait_assigned(self, timeout_ms: float | None = None) -> list[TopicQueue]:
        """Wait until this member owns at least one queue and has claimed all queues that are assigned to it, and return
        its `assignment`. If `timeout_ms` milliseconds pass before (None: no limit), return an empty list.
        """
        return await self._consumer.wait_assigned(timeout_ms)

    @property
    def timeouts(self) -> int:
        """The number of calls of the listener that took longer than consume_timeout_ms."""
        return self._calls.timeouts

    # -- from the queues to the workers

    async def _read(self) -> None:
        failures, count = 0, self._concurrency
        while True:
            try:
                messages = await self._consumer.getmany(count)
                failures = 0
            except ClosedError:
                return
            except _FINAL_ERRORS as error:
                log.error("the push consumer stops: %s", error)
                self._error = error
                self._tell_error(error, None)
                self.stop_reading()
                return
            except LedgerError as error:
                failures += 1
                self._tell_error(error, None)
                log.warning("the push consumer cannot read messages, trying again: %s", error)
                await asyncio.sleep(self._backoff.wait_ms(failures) / 1000)
                self._consumer.fetch_again()
                continue
            began = self._loop.time()
            if not self._ready:
                self._losses = self._consumer.losses
            self._hand_over(messages)
            while self._ready or not self._idle:  # read more only when all messages are taken and a worker is idle
                self._hungry.clear()
                await self._hungry.wait()
            lately = len(messages) * _AHEAD_S / max(self._loop.time() - began, 1e-6)
            count = min(max(self._concurrency, int(lately)), _MOST_AHEAD)

    def _hand_over(self, messages: list[Message]) -> None:
        if not self._orderly:
            self._offer(*messages)
            return
        for (topic, queue), some in groupby(messages, _PLACE):
            place = TopicQueue(topic, queue)
            orderly_queue = self._orderly_queues.get(place)
            if orderly_queue is None:
                orderly_queue = self._orderly_queues[place] = _OrderlyQueue(losses=self._consumer.losses)
                self._offer(orderly_queue)
            orderly_queue.messages.extend(some)

    def _offer(self, *works: Message | _OrderlyQueue) -> None:
        self._ready.extend(works)
        wanted = len(works)
        while self._idle and wanted:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                wanted -= 1

    async def _wait(self) -> None:
        """Wait until a message or an orderly queue is ready, or the consumer stops."""
        while not self._ready and not self._is_stopping:
            idle = self._loop.create_future()
            self._idle.append(idle)
            self._hungry.set()
            await idle

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda _: self._tasks.pop(task))

    # -- a worker

    async def _work(self) -> None:
        worker = asyncio.current_task()
        assert worker is not None
        call = self._calls.of(worker)
        while not self._is_stopping:
            if not self._ready:
                await self._wait()
            elif self._orderly:
                orderly_queue = self._ready.popleft()
                assert isinstance(orderly_queue, _OrderlyQueue)
                await self._consume(call, self._messages_of(orderly_queue), partial(self._went, orderly_queue))
                self._put_back(orderly_queue)
            else:
                await self._consume(call, self._messages_of_a_turn(), self._settle)
            if self._ready:
                await asyncio.sleep(0)  # gives other tasks a turn, because a listener may never await anything

    def _messages_of_a_turn(self) -> Iterator[Message]:
        """Yield ready messages for about 5 ms, the time of one turn of a worker. Messages of a queue that the
        member has lost are left out."""
        turn_ends = self._monotonic_s() + _TURN_S
        while not self._is_stopping:
            try:
                message = self._ready.popleft()
            except IndexError:
                return
            assert type(message) is Message
            if self._losses == self._consumer.losses or self._consumer.holds(message):
                yield message
            if self._monotonic_s() >= turn_ends:
                return

    async def _consume(self, call: Call, messages: Iterator[Message], settle: Callable[[Message, bool], bool]) -> None:
        """Call the listener with each of the messages, one after another, until `settle` returns False for a
        message."""
        if self._threads is not None:
            await self._loop.run_in_executor(self._threads, self._consume_now, messages, settle)
            return
        listener: Callable[[Message[Any]], Awaitable[Outcome | None]] = self._listener  # type: ignore[assignment]
        for message in messages:
            call.message = message
            try:
                consumed = await listener(self._given(message)) is not Outcome.RECONSUME_LATER
            except asyncio.CancelledError:
                if not call.is_overdue:
                    raise
                assert isinstance(call.worker, asyncio.Task)
                call.worker.uncancel()
                consumed = False
            except Exception as error:
                consumed = self._failed_with(error, message)
            finally:
                call.end()
            if not settle(message, consumed):
                return

    def _consume_now(self, messages: Iterator[Message], settle: Callable[[Message, bool], bool]) -> None:
        """Call the listener with the messages as `_consume` does, but in a thread. If a call took too long,
        `_watch` has already recorded the attempt as failed, except with `orderly`."""
        call = self._calls.of(threading.get_ident())
        for message in messages:
            call.message = message
            try:
                consumed = self._listener(self._given(message)) is not Outcome.RECONSUME_LATER
            except Exception as error:
                consumed = self._failed_with(error, message)
            with self._calls.lock:
                in_time = call.end()
            if (in_time or self._orderly) and not settle(message, consumed):
                return

    async def _watch(self) -> None:
        """Check regularly for calls of the listener that take too long. Cancel a coroutine that takes too long. If
        a call in a thread takes too long, record the attempt as failed, except with `orderly`."""
        while True:
            await asyncio.sleep(min(1.0, self._timeout_s / 4))
            for call, message in self._calls.overdue():
                if isinstance(call.worker, asyncio.Task):
                    call.worker.cancel()
                    what = "the call is cancelled and the attempt has failed"
                elif self._orderly:
                    what = "the thread of the call cannot be stopped, so the queue waits until the listener returns"
                else:
                    self._settle(message, False)
                    what = "the attempt has failed; the thread of the call cannot be stopped and stays busy"
                log.error(
                    "the listener takes longer than %g s for message %s: %s", self._timeout_s, message.origin, what
                )

    # -- orderly

    def _messages_of(self, orderly_queue: _OrderlyQueue) -> Iterator[Message]:
        """Yield the first message of the queue, and each next message after the first message was consumed. If the
        member has lost the queue, its messages are left out."""
        while orderly_queue.messages and not self._is_stopping:
            message = orderly_queue.messages[0]
            if orderly_queue.losses == self._consumer.losses or self._consumer.holds(message):
                yield message
            else:
                orderly_queue.messages.popleft()
                orderly_queue.failures = 0

    def _went(self, orderly_queue: _OrderlyQueue, message: Message, consumed: bool) -> bool:
        """Record the result of an attempt. Return True if the message was consumed, so that the listener can
        receive the next message."""
        if consumed:
            orderly_queue.messages.popleft()
            orderly_queue.failures = 0
            self._settle(message, consumed)
        else:
            orderly_queue.has_failed = True
        return consumed

    def _put_back(self, orderly_queue: _OrderlyQueue) -> None:
        """After a worker's turn with a queue, offer the queue to the workers again. If the last attempt failed,
        first wait for `suspend_ms`, or, after the last allowed attempt, give up the first message."""
        if self._is_stopping:
            return
        if orderly_queue.has_failed:
            orderly_queue.has_failed = False
            orderly_queue.failures += 1
            if orderly_queue.messages[0].attempt + orderly_queue.failures <= self._max_attempts:
                self._loop.call_later(self._suspend_s, self._offer, orderly_queue)
            else:
                self._spawn(self._give_up(orderly_queue))
        elif orderly_queue.messages:
            self._offer(orderly_queue)
        else:
            self._orderly_queues = {
                place: each for place, each in self._orderly_queues.items() if each is not orderly_queue
            }

    async def _give_up(self, orderly_queue: _OrderlyQueue) -> None:
        await self._put_away(self._consumer.give_up, orderly_queue.messages.popleft())
        orderly_queue.failures = 0
        self._offer(orderly_queue)

    # -- results of the listener

    def _settle(self, message: Message, consumed: bool) -> bool:
        """Record the result of a message. Return True, because the listener can receive the next message in any
        case. Every thread is allowed to call `_settle`."""
        (self._finished if consumed else self._failed).append(message)
        if not self._is_settling:
            self._is_settling = True
            later = self._loop.call_soon if self._threads is None else self._loop.call_soon_threadsafe
            later(self._settle_all)
        return True

    def _settle_all(self) -> None:
        self._is_settling = False  # must come first: a result that a thread adds from now on needs another call
        self._consumer.finish_held(_emptied(self._finished))
        for message in _emptied(self._failed):
            self._spawn(self._put_away(self._consumer.reconsume_later, message))

    def _given(self, message: Message) -> Message[Any]:
        """Return the message as the listener gets it."""
        given: Message[Any] = message
        return given if self._deserializer is None else given._replace(value=self._deserializer(message.value))

    def _failed_with(self, error: Exception, message: Message) -> bool:
        """Report an exception of the listener, and return False: the message is not consumed."""
        log.error(
            "the listener could not consume message %s (attempt %d)", message.origin, message.attempt, exc_info=error
        )
        self._tell_error(error, message)
        return False

    def _tell_error(self, error: Exception, message: Message | None) -> None:
        if self._on_error is not None:
            try:
                self._on_error(error, message)
            except Exception:
                log.exception("on_error raised an exception")

    async def _put_away(self, move: Callable[[Message], Awaitable[None]], message: Message) -> None:
        if self._broadcast:
            log.error("message %s of a broadcast is skipped, because the listener could not consume it", message.id)
            self._consumer.finish(message)
        else:
            await self._move(move, message)

    async def _move(self, move: Callable[[Message], Awaitable[None]], message: Message) -> None:
        """Move the message to its retry topic or to the dead letters. Try again until the move succeeds, because
        the message must not be lost."""
        while True:
            try:
                await move(message)
                return
            except ClosedError:
                return
            except LedgerError as error:
                log.warning("message %s cannot be moved to its retry topic, trying again: %s", message.id, error)
                self._tell_error(error, message)
                await asyncio.sleep(_AGAIN_S)


def _emptied(messages: deque[Message]) -> list[Message]:
    """Remove the messages that the deque has now, and return them. Other threads can append messages at the same
    time."""
    return [messages.popleft() for _ in range(len(messages))]


def is_async(listener: Callable[..., object]) -> bool:
    """Return True for a coroutine function, and for an object whose calls are coroutines."""
    call = listener if inspect.isroutine(listener) else getattr(listener, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(call)
