"""The asyncio push consumer: it calls a listener with each message, and delivers a failed message again later.

    mode         order of the messages                        after a failed attempt
    concurrent   any message, as soon as a worker is free     through the retry topic, a member receives it later
    orderly      the messages of each queue in order          the same message again, after `suspend_ms`
    broadcast    concurrent or orderly, in every consumer     skipped; if orderly, after the last attempt

A reader task adds messages to a line that all workers share, or, if the listener is orderly, to a line for each queue.
Each worker takes messages from a line, and calls the listener with them.

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
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from pathlib import Path
from typing import Any, Generic

from ledger.cancellation import heed_cancellation
from ledger.client.background import spawn
from ledger.client.checked_arguments import (
    checked_callable,
    checked_client_id,
    checked_deserializer,
    checked_flag,
    checked_hook,
    checked_rng,
)
from ledger.client.checked_numbers import checked_number, checked_wait, checked_whole
from ledger.client.connection.backoff import Backoff
from ledger.client.connection.cluster_client import NOT_STARTED
from ledger.client.connection.lifetime import AsyncLifetime, settings_in, within
from ledger.client.connection.own_process import check_loop
from ledger.client.group.assigned_queue import QueueRun
from ledger.client.group.call_watch import Call, CallWatch
from ledger.client.group.claiming import GroupStart
from ledger.client.group.group_consumer import AsyncGroupConsumer
from ledger.client.group.message_line import MessageLine
from ledger.client.group.rebalance_callbacks import RebalanceCallback
from ledger.client.records import Message, Received, TopicQueue
from ledger.client.traced_listener import traced_listener
from ledger.client.tracing import TracerSource, client_spans
from ledger.errors import ClosedError, ConsumerFencedError, LedgerError, UnknownTopicError

log = logging.getLogger("ledgermq.client.push_consumer")


class Outcome(Enum):
    """The result that a listener returns for a message. A listener that returns None has the result SUCCESS."""

    SUCCESS = "success"
    RECONSUME_LATER = "reconsume later"


# A function, a coroutine function, or an object that can be called. Plain functions are called in threads.
Listener = Callable[[Message[Received]], Outcome | None] | Callable[[Message[Received]], Awaitable[Outcome | None]]
# Called with an error, and with the message if the error concerns one.
OnError = Callable[[Exception, Message[Any] | None], object]
# After these errors of a read the consumer cannot go on: all its topics were deleted, or another consumer of the
# broadcast has taken its place.
_FINAL_ERRORS = (UnknownTopicError, ConsumerFencedError)
# Each worker is a task, and each call of a plain function has a thread.
MAX_CONCURRENCY = 10_000
# The wait before a failed move of a message is tried again.
_AGAIN_S = 5.0
# How long a worker calls the listener before other tasks get a turn.
_TURN_S = 0.005
# A worker looks at the clock at least once in this many calls.
_CALLS_UNTIL_A_LOOK = 16
# The consumer reads about as many messages at a time as the listener consumes in _AHEAD_S, at most _MOST_AHEAD.
_AHEAD_S, _MOST_AHEAD = 0.05, 1_000
# All other settings are those of the group consumer.
_OWN_SETTINGS = (
    "listener", "concurrency", "orderly", "suspend_ms", "consume_timeout_ms", "on_error", "deserializer", "tracing",
)  # fmt: skip


class _OrderlyLine(MessageLine):
    """The messages of one queue that wait for an orderly listener."""

    def __init__(self, place: TopicQueue, losses: int, *, keeps_runs: bool) -> None:
        super().__init__(keeps_runs=keeps_runs)
        self.place = place
        self.losses = losses
        # Whether the latest attempt failed, its message, and how many attempts of this message by this consumer failed.
        self.has_failed = False
        self.failures = 0
        self._failing: Message | None = None

    def fail(self, message: Message) -> None:
        """Put the message back to the front of the line, because an attempt failed."""
        if message is not self._failing:
            self._failing, self.failures = message, 0
        self.has_failed = True
        self.failures += 1
        self.messages.appendleft(message)


class AsyncPushConsumer(AsyncLifetime, Generic[Received]):
    """An asyncio client that consumes topics as a member of a consumer group, and calls `listener` with each message.

    listener            a function, coroutine function or callable object, called with one Message. It raises or returns
                        Outcome.RECONSUME_LATER to receive the message again later. Plain functions run in threads
    concurrency         how many messages may be with the listener at the same time, 1 to 10,000 (default 20)
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
        checked_callable("listener", listener, "that is called with each message")
        concurrency = checked_whole("concurrency", concurrency, 1, MAX_CONCURRENCY)
        max_attempts = checked_whole("max_attempts", max_attempts, 1)
        suspend_ms = checked_whole("suspend_ms", suspend_ms, 0)
        self._consumer = within(self._environment, AsyncGroupConsumer)(*topics, auto_acknowledge=False, **settings)
        self._broadcast = broadcast
        self._timeout_s = checked_number("consume_timeout_ms", consume_timeout_ms, 1) / 1000
        self._monotonic_s = self._environment.monotonic_s
        self._calls = CallWatch(self._timeout_s, self._monotonic_s)
        spans = client_spans(tracing, checked_client_id(client_id))
        self._listener = (
            listener if spans is None else traced_listener(listener, spans, group, is_async=is_async(listener))
        )
        self._deserializer = checked_deserializer(deserializer)
        self._on_error = checked_hook("on_error", on_error, "of an error, and of a message or None")
        # The error with which the consumer stopped by itself.
        self._error: LedgerError | None = None
        # Not None: a task that stops the consumer, because of `stop_reading` or of an error.
        self._ending: asyncio.Task[None] | None = None
        self._threads = None if is_async(listener) else ThreadPoolExecutor(concurrency, "ledgermq-listener")
        self._concurrency = concurrency
        self._orderly = checked_flag("orderly", orderly)
        self._suspend_s = suspend_ms / 1000
        self._max_attempts = max_attempts
        # Without `orderly`: the messages that any worker may take. The limit on messages in hand bounds it.
        self._line = MessageLine(keeps_runs=self._threads is None)
        # With `orderly`: a line for each queue that has messages, and the lines that any worker may take.
        self._orderly_lines: dict[TopicQueue, _OrderlyLine] = {}
        self._ready_lines: deque[_OrderlyLine] = deque()
        # What workers wait for.
        self._ready: Sized = self._ready_lines if orderly else self._line.messages
        # Workers that wait for messages.
        self._idle: deque[asyncio.Future[None]] = deque()
        self._hungry = asyncio.Event()
        # Lines with consumed messages, and messages that the listener failed to consume, until the loop's next turn.
        self._to_settle: deque[MessageLine] = deque()
        self._failed: deque[Message] = deque()
        self._is_stopping = False
        # The tasks of workers, and of moves of failed messages.
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._backoff = Backoff(200, _AGAIN_S * 1000, checked_rng(rng))
        self._reading: asyncio.Task[None] | None = None
        # The end of the consumer, which goes on if the caller of `stop` is cancelled.
        self._leaving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect, join the group and begin to call the listener. Raises the same errors as
        AsyncGroupConsumer.start."""
        await self._consumer.start()
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self._reading = spawn(self._read(), "messages for the listener", self._end_with)
        self._watching = spawn(self._watch(), "how long the listener takes", self._end_with)
        for _ in range(self._concurrency):
            self._spawn(self._work())

    async def stop(self, timeout_s: float = 30.0) -> None:
        """Stop calling the listener, wait up to `timeout_s` seconds for running calls, then acknowledge the
        finished messages and leave the group. `timeout_s` does not limit the last acknowledgement, which takes up to
        `request_timeout_ms` while no leader answers. If the caller is cancelled, for example by `asyncio.wait_for`, the
        consumer cancels running calls and leaves the group without waiting for them."""
        timeout_s = checked_wait("timeout_s", timeout_s)
        if self._reading is None:
            return
        check_loop(self._reading.get_loop())
        if self._is_stopping:
            await self._stopped.wait()
            return
        self._is_stopping = True
        self._reading.cancel()
        try:
            await self._finish_calls(timeout_s)
        finally:
            # A member that stays in the group and does not read would keep its queues from the others.
            self._leaving = asyncio.create_task(self._leave(self._reading), name="end of a push consumer")
            await asyncio.shield(self._leaving)

    async def close(self, timeout_s: float = 30.0) -> None:
        """Do the same as `stop`, under the name that other libraries use."""
        await self.stop(timeout_s)

    async def aclose(self, timeout_s: float = 30.0) -> None:
        """Do the same as `stop`, under the name that `contextlib.aclosing` uses."""
        await self.stop(timeout_s)

    async def _finish_calls(self, timeout_s: float) -> None:
        """Begin no more calls of the listener, and wait for running calls for at most `timeout_s` seconds."""
        for line in (self._line, *self._orderly_lines.values()):
            line.messages.clear()
        self._ready_lines.clear()
        for idle in self._idle:
            idle.cancel()
        deadline = self._loop.time() + timeout_s
        while self._tasks and (remaining := deadline - self._loop.time()) > 0:
            await asyncio.wait(list(self._tasks), timeout=remaining)
            self._settle_all()  # it may begin to move failed messages

    async def _leave(self, reading: asyncio.Task[None]) -> None:
        try:
            for task in list(self._tasks):
                task.cancel()
            self._watching.cancel()
            await asyncio.gather(reading, self._watching, *self._tasks, return_exceptions=True)
            self._settle_all()
            await self._consumer.stop()
            if self._threads is not None:
                self._threads.shutdown(wait=False, cancel_futures=True)
        finally:
            self._stopped.set()

    def stop_reading(self) -> None:
        """Begin to stop as `stop` does, and return at once. `wait_closed` returns when the consumer is closed. See also
        `ledgermq.stop_on_signal`."""
        if self._reading is not None and self._ending is None and not self._is_stopping:
            self._ending = asyncio.create_task(self.stop(), name="end of a push consumer")

    async def wait_closed(self) -> None:
        """Wait until the consumer is closed. If the consumer stopped by itself, raise the error that made it stop."""
        if self._reading is None:
            raise ClosedError(NOT_STARTED)
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
                runs = await self._consumer._read_runs(count)
                failures = 0
            except ClosedError:
                return
            except _FINAL_ERRORS as error:
                self._end_with(error)
                return
            except LedgerError as error:
                if error is self._consumer._assigned_queues.defect:
                    self._end_with(error)
                    return
                failures += 1
                self._tell_error(error, None)
                log.warning("the push consumer cannot read messages, trying again: %s", error)
                await asyncio.sleep(self._backoff.wait_ms(failures) / 1000)
                self._consumer.fetch_again()
                continue
            began = self._loop.time()
            self._hand_over(runs)
            while self._ready or not self._idle:  # read more only when all messages are taken and a worker is idle
                self._hungry.clear()
                await self._hungry.wait()
            lately = sum(len(run.messages) for run in runs) * _AHEAD_S / max(self._loop.time() - began, 1e-6)
            count = min(max(self._concurrency, int(lately)), _MOST_AHEAD)

    def _end_with(self, error: LedgerError) -> None:
        """Begin to stop because of an error, which `wait_closed` raises."""
        if self._error is None:
            log.error("the push consumer stops: %s", error)
            self._error = error
            self._tell_error(error, None)
            self.stop_reading()

    def _hand_over(self, runs: list[QueueRun]) -> None:
        self._settle_all()
        if not self._orderly:
            if not self._line.messages:
                self._line.losses = self._consumer.losses
            self._line.add(runs)
            self._wake_workers()
            return
        for run in runs:
            line = self._orderly_lines.get(run.assigned.place)
            if line is None:
                line = self._orderly_lines[run.assigned.place] = _OrderlyLine(
                    run.assigned.place, self._consumer.losses, keeps_runs=self._threads is None
                )
                self._ready_lines.append(line)
            line.add([run])
        self._wake_workers()

    def _offer(self, line: _OrderlyLine) -> None:
        self._ready_lines.append(line)
        self._wake_workers()

    def _wake_workers(self) -> None:
        """Wake an idle worker, and all others if there is still work when the first worker waits for its listener. A
        listener that never waits needs one worker."""
        if self._wake_one():
            self._loop.call_soon(self._wake_rest)

    def _wake_one(self) -> bool:
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return True
        return False

    def _wake_rest(self) -> None:
        for _ in range(len(self._ready)):
            if not self._wake_one():
                return

    async def _wait(self) -> None:
        """Wait until a message or an orderly queue is ready, or the consumer stops."""
        while not self._ready and not self._is_stopping:
            idle = self._loop.create_future()
            self._idle.append(idle)
            self._hungry.set()
            await idle

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = spawn(work, "work of a push consumer", self._end_with)
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
            else:
                line = self._ready_lines.popleft() if self._orderly else self._line
                if self._threads is None:
                    await self._consume(call, line)
                else:
                    await self._loop.run_in_executor(self._threads, self._consume_now, line)
                if isinstance(line, _OrderlyLine):
                    self._put_back(line)
            if self._ready:
                await asyncio.sleep(0)  # gives other tasks a turn, because a listener may never await anything

    async def _consume(self, call: Call, line: MessageLine) -> None:
        """Call the listener with messages of the line, one after another, for about 5 ms: the time of one turn of a
        worker. With `orderly`, stop at the first failure. Each line of this loop costs time for each message."""
        listener: Callable[[Message[Any]], Awaitable[Outcome | None]] = self._listener  # type: ignore[assignment]
        later = Outcome.RECONSUME_LATER
        assigned_queues = self._consumer._assigned_queues  # its `losses` is an attribute: a property is a call
        messages, take, add_consumed = line.messages, line.messages.popleft, line.consumed.append
        given = None if self._deserializer is None else self._given
        worker = call.worker
        assert isinstance(worker, asyncio.Task)
        turn_ends = self._monotonic_s() + _TURN_S
        calls, next_look = 0, 1
        try:
            while messages:
                call.message = message = take()
                if line.losses != assigned_queues.losses and not self._consumer.holds(message):
                    line.left_out()
                    continue
                try:
                    consumed = await listener(message if given is None else given(message)) is not later
                except asyncio.CancelledError as error:
                    heed_cancellation(before=call.is_overdue)
                    consumed = False if call.is_overdue else self._failed_with(error, message)
                except Exception as error:
                    consumed = self._failed_with(error, message)
                if call.is_overdue:  # the check has cancelled the worker to end this call
                    worker.uncancel()
                if consumed:
                    add_consumed(message)
                    if not line.is_settling:
                        self._settle_soon(line)
                elif not self._settle(line, message, False):
                    return
                calls += 1
                if calls == next_look:  # the first calls show how long a call takes
                    if self._monotonic_s() >= turn_ends:
                        return
                    next_look += min(calls, _CALLS_UNTIL_A_LOOK)
        finally:
            call.end()

    def _consume_now(self, line: MessageLine) -> None:
        """Call the listener as `_consume` does, but in a thread. If a call took too long, `_watch` has already recorded
        the attempt as failed, except with `orderly`."""
        call = self._calls.of(threading.get_ident())
        turn_ends = self._monotonic_s() + _TURN_S
        while not self._is_stopping:
            try:
                message = line.messages.popleft()
            except IndexError:  # other threads took the rest
                return
            if line.losses != self._consumer.losses and not self._consumer.holds(message):
                continue
            call.message = message
            try:
                consumed = self._listener(self._given(message)) is not Outcome.RECONSUME_LATER
            except BaseException as error:  # sys.exit() ends no program from a thread, and must not end the consumer
                consumed = self._failed_with(error, message)
            with self._calls.lock:
                in_time = call.end()
            if (in_time or self._orderly) and not self._settle(line, message, consumed):
                return
            if self._monotonic_s() >= turn_ends:
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
                    self._settle(self._line, message, False)
                    what = "the attempt has failed; the thread of the call cannot be stopped and stays busy"
                log.error(
                    "the listener takes longer than %g s for message %s: %s", self._timeout_s, message.origin, what
                )

    # -- orderly

    def _put_back(self, line: _OrderlyLine) -> None:
        """After a worker's turn with a queue, offer the queue to the workers again. If the last attempt failed,
        first wait for `suspend_ms`, or, after the last allowed attempt, give up the first message."""
        if self._is_stopping:
            return
        if line.has_failed:
            line.has_failed = False
            if line.messages[0].attempt + line.failures <= self._max_attempts:
                self._loop.call_later(self._suspend_s, self._offer, line)
            else:
                self._spawn(self._give_up(line))
        elif line.messages:
            self._offer(line)
        else:
            del self._orderly_lines[line.place]

    async def _give_up(self, line: _OrderlyLine) -> None:
        message = line.messages.popleft()
        line.left_out()
        await self._put_away(self._consumer.give_up, message)
        self._offer(line)

    # -- results of the listener

    def _settle(self, line: MessageLine, message: Message, consumed: bool) -> bool:
        """Record the result of a message. Return False if the listener must not get the next message of the line now.
        Every thread is allowed to call `_settle`."""
        if isinstance(line, _OrderlyLine) and not consumed:
            line.fail(message)
            return False
        (line.consumed if consumed else self._failed).append(message)
        if not line.is_settling:
            self._settle_soon(line)
        return True

    def _settle_soon(self, line: MessageLine) -> None:
        line.is_settling = True
        self._to_settle.append(line)
        later = self._loop.call_soon if self._threads is None else self._loop.call_soon_threadsafe
        later(self._settle_all)

    def _settle_all(self) -> None:
        while self._to_settle:
            self._to_settle.popleft().settle(self._consumer)
        for _ in range(len(self._failed)):  # threads can add more of them at the same time
            self._line.left_out()
            self._spawn(self._put_away(self._consumer.reconsume_later, self._failed.popleft()))

    def _given(self, message: Message) -> Message[Any]:
        """Return the message as the listener gets it."""
        given: Message[Any] = message
        return given if self._deserializer is None else given._replace(value=self._deserializer(message.value))

    def _failed_with(self, error: BaseException, message: Message) -> bool:
        """Report an exception of the listener, and return False: the message is not consumed. CancelledError is such an
        exception if something that the listener awaited was cancelled, and not the worker."""
        if isinstance(error, asyncio.CancelledError):
            error = RuntimeError("the listener awaited something that was cancelled")
        elif not isinstance(error, Exception):
            error = RuntimeError(f"the listener raised {error!r}, which is taken as a failure")
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


def is_async(listener: Callable[..., object]) -> bool:
    """Return True for a coroutine function, and for an object whose calls are coroutines."""
    call = listener if inspect.isroutine(listener) else getattr(listener, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(call)
