"""The asyncio push consumer: a listener is called with each message; what it can't consume comes again later.

    concurrent   any message as soon as a worker is free      raises ──> retry topic, later, any member
    orderly      of each queue one after the other            raises ──> a second later again, before the next one

The one idea: who writes a listener thinks of one message. A message is finished when the listener returns; when it
raises, or returns `RECONSUME_LATER`, it is not, and after the last attempt it is in the dead letters, never lost.

It must not know how messages are fetched or moved: `group_consumer` does that.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from types import TracebackType
from typing import Any

from ledger.client.backoff import Backoff
from ledger.client.group_consumer import AsyncGroupConsumer
from ledger.client.records import Message, TopicQueue
from ledger.errors import ClosedError, InvalidArgumentError, LedgerError

log = logging.getLogger("ledger.push")


class Outcome(Enum):
    """What a listener may return; None is SUCCESS."""

    SUCCESS = "success"
    RECONSUME_LATER = "reconsume later"


Listener = Callable[[Message], Outcome | None] | Callable[[Message], Awaitable[Outcome | None]]
"""A function, a coroutine function, or an object that can be called. Plain functions are called in threads."""
_AGAIN_S = 5.0
"""Where a message that was not consumed could not be moved: until it is tried here again."""


class AsyncPushConsumer:
    """Calls `listener` with the messages of a consumer group's topics.

    listener      raises, or returns Outcome.RECONSUME_LATER, where the message is to come again
    concurrency   so many messages are with the listener at a time
    orderly       of each queue one after the other, a failed one again and again before the next
    suspend_ms    so long an orderly queue waits after a failure
    max_attempts  so often a message is tried; then it goes to the dead letters
    Everything else as for AsyncGroupConsumer.
    """

    def __init__(
        self,
        *topics: str,
        listener: Listener,
        concurrency: int = 20,
        orderly: bool = False,
        suspend_ms: int = 1_000,
        max_attempts: int = 16,
        **settings: Any,
    ) -> None:
        if concurrency < 1 or suspend_ms < 0:
            raise InvalidArgumentError(
                f"concurrency is {concurrency} and suspend_ms {suspend_ms}: they must be at least 1 and 0."
            )
        if max_attempts < 2:
            raise InvalidArgumentError(f"max_attempts is {max_attempts}: it must be at least 2.")
        self._consumer = AsyncGroupConsumer(*topics, auto_acknowledge=False, max_attempts=max_attempts, **settings)
        self._listener = listener
        self._threads = None if _is_async(listener) else ThreadPoolExecutor(concurrency, "ledgermq-listener")
        self._workers = asyncio.Semaphore(concurrency)
        self._orderly = orderly
        self._suspend_s = suspend_ms / 1000
        self._max_attempts = max_attempts
        self._lanes: dict[TopicQueue, deque[Message]] = {}
        """Orderly: what waits for the message of the same queue that is with the listener."""
        self._calls: dict[asyncio.Task[None], None] = {}
        self._backoff = Backoff(200, _AGAIN_S * 1000, settings.get("rng") or random.Random())
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect, join, and begin to call the listener. Raises as AsyncGroupConsumer does."""
        await self._consumer.start()
        self._reading = asyncio.create_task(self._read(), name="messages for the listener")

    async def stop(self, timeout_s: float = 30.0) -> None:
        """Call the listener no more, wait for the calls under way (so long at most), acknowledge and leave."""
        if self._reading is None:
            return
        self._reading.cancel()
        self._lanes.clear()
        if self._calls:
            await asyncio.wait(list(self._calls), timeout=timeout_s)
        for call in list(self._calls):
            call.cancel()
        await asyncio.gather(self._reading, *self._calls, return_exceptions=True)
        await self._consumer.stop()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def __aenter__(self) -> AsyncPushConsumer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def assignment(self) -> list[TopicQueue]:
        """The queues that this member consumes at the moment."""
        return self._consumer.assignment

    # -- from the queues to the listener

    async def _read(self) -> None:
        failures = 0
        while True:
            await self._workers.acquire()
            self._workers.release()  # somebody is free: only then more is taken
            try:
                messages = await self._consumer.getmany(32)
                failures = 0
            except ClosedError:
                return
            except LedgerError as error:
                failures += 1
                log.warning("no messages at the moment: %s", error)
                await asyncio.sleep(self._backoff.wait_ms(failures) / 1000)
                continue
            for message in messages:
                if self._orderly:
                    self._into_lane(message)
                else:
                    await self._workers.acquire()
                    self._spawn(self._consume_once(message))

    def _spawn(self, call: Any) -> None:
        task = asyncio.create_task(call)
        self._calls[task] = None
        task.add_done_callback(lambda _: self._calls.pop(task))

    async def _consume_once(self, message: Message) -> None:
        """Holds a worker that was taken for it."""
        try:
            if not self._consumer.holds(message):  # another member has the queue: nothing of it is ours
                return
            if await self._call(message):
                self._consumer.finish(message)
                return
        finally:
            self._workers.release()
        await self._move(self._consumer.reconsume_later, message)

    async def _move(self, move: Callable[[Message], Awaitable[None]], message: Message) -> None:
        """Until it is done: the message must not be lost."""
        while True:
            try:
                await move(message)
                return
            except ClosedError:
                return
            except LedgerError as error:
                log.warning("message %s cannot be moved yet: %s", message.id, error)
                await asyncio.sleep(_AGAIN_S)

    # -- orderly

    def _into_lane(self, message: Message) -> None:
        place = TopicQueue(message.topic, message.queue)
        lane = self._lanes.get(place)
        if lane is not None:
            lane.append(message)
            return
        self._lanes[place] = deque([message])
        self._spawn(self._run_lane(place))

    async def _run_lane(self, place: TopicQueue) -> None:
        lane = self._lanes[place]
        try:
            while lane and self._lanes.get(place) is lane:
                await self._consume_in_order(lane.popleft(), lane)
        finally:
            if self._lanes.get(place) is lane:
                del self._lanes[place]

    async def _consume_in_order(self, message: Message, lane: deque[Message]) -> None:
        place = TopicQueue(message.topic, message.queue)
        for attempt in range(message.attempt, self._max_attempts + 1):
            async with self._workers:
                if not self._consumer.holds(message):  # another member has the queue: nothing of it is ours
                    lane.clear()
                    return
                consumed = await self._call(message)
            if consumed:
                self._consumer.finish(message)
                return
            if attempt < self._max_attempts:
                await asyncio.sleep(self._suspend_s)
            if self._lanes.get(place) is not lane:
                return  # stopped
        await self._move(self._consumer.give_up, message)

    # -- the listener

    async def _call(self, message: Message) -> bool:
        """Whether the message is consumed."""
        try:
            if self._threads is not None:
                loop = asyncio.get_running_loop()
                outcome = await loop.run_in_executor(self._threads, self._listener, message)
            else:
                outcome = await self._listener(message)  # type: ignore[misc]
        except Exception:
            log.exception("the listener could not consume message %s (attempt %d)", message.origin, message.attempt)
            return False
        return outcome is not Outcome.RECONSUME_LATER


def _is_async(listener: Listener) -> bool:
    call = listener if inspect.isroutine(listener) else getattr(listener, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(call)
