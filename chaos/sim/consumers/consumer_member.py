"""Simulates one process of a member of a consumer group. The process has the real client, and user code that is slow
and fails for some messages.

    The member starts and receives messages. The user code finishes each message, or puts the message off for a later
    delivery. At the end, the member leaves its consumer group in order, or its process is ended.

The user code of a member calls the client in the way that the client's documentation describes. The user code records
a message in the history before it handles the message. The user code first records in the history that a message is
finished, and then calls the client's method `finish`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from chaos.sim.consumers.consumption_history import ConsumptionHistory, MemberHistory
from chaos.sim.consumers.consumption_plan import Style
from chaos.sim.stack.workload import AGAIN_S, ClientProcess
from chaos.sim.stack.workload_history import name_of
from ledger.client.connection.lifetime import within
from ledger.client.group.group_consumer import AsyncGroupConsumer
from ledger.client.group.push_consumer import AsyncPushConsumer, Outcome
from ledger.client.records import Message
from ledger.errors import LedgerError

SUSPEND_MS = 100
STOP_S = 5.0


class CannotConsume(Exception):  # noqa: N818 (a user's own)
    """Raised by a listener that fails for a message as planned."""


def _is_news(record: logging.LogRecord) -> bool:
    """Return False if the log record reports a planned failure of a listener, otherwise True."""
    return record.exc_info is None or not isinstance(record.exc_info[1], CannotConsume)


logging.getLogger("ledgermq.client.push_consumer").addFilter(_is_news)


class ConsumerMember:
    """Runs one member of a consumer group in one simulated process. `seen` records the events of the member. The
    function `topics` returns the names of the existing topics. The callback `on_left` is called when the member has
    left its consumer group."""

    def __init__(
        self,
        seen: MemberHistory,
        history: ConsumptionHistory,
        process: ClientProcess,
        random: Random,
        bootstrap: Sequence[str],
        topics: Callable[[], Sequence[str]],
        on_left: Callable[[], None],
    ) -> None:
        self.seen = seen
        self.process = process
        self.leaves = False
        self._history = history
        self._random = random
        self._bootstrap = bootstrap
        self._topics = topics
        self._on_left = on_left
        self._consumer: AsyncGroupConsumer | AsyncPushConsumer | None = None
        self._work_s = random.choice((0.0, 0.002, 0.01))

    @property
    def name(self) -> str:
        """The current member name of the process, or "" if the process has not joined its consumer group."""
        return next(reversed(self.seen.ear.names), "")

    def start(self) -> None:
        self.process.life.deliver(self.process.life.create_task, self._run())

    def leave(self) -> None:
        """Begin an orderly departure from the consumer group."""
        self.leaves = True
        self.process.life.deliver(self.process.life.create_task, self._leave())

    async def _run(self) -> None:
        while not all(topic in self._topics() for topic in self.seen.plan.topics):  # noqa: ASYNC110
            await asyncio.sleep(AGAIN_S)
        consumer = await self._started()
        if isinstance(consumer, AsyncGroupConsumer):
            await self._read(consumer)

    async def _started(self) -> AsyncGroupConsumer | AsyncPushConsumer:
        while True:
            consumer = self._made()
            try:
                await consumer.start()
            except LedgerError:
                await asyncio.sleep(AGAIN_S)
            else:
                self._consumer = consumer
                return consumer

    def _made(self) -> AsyncGroupConsumer | AsyncPushConsumer:
        plan, random = self.seen.plan, self._random
        settings: dict[str, Any] = {
            "group": plan.name,
            "bootstrap_servers": list(self._bootstrap),
            "start": plan.start,
            "tags": plan.tags,
            "strategy": plan.strategy,
            "max_attempts": plan.max_attempts,
            "session_timeout_ms": plan.session_timeout_ms,
            "release_timeout_ms": plan.release_timeout_ms,
            "acknowledge_interval_ms": random.choice((100, 500, 1_000)),
            "max_bytes": random.choice((2_000, 1 << 20)),
            "max_wait_ms": random.choice((200, 1_000)),
            "client_id": f"m{self.seen.number}",
            "request_timeout_ms": 5_000,
            "rng": random,
        }
        if plan.style in (Style.PULL, Style.ITERATE):
            return within(self.process.environment, AsyncGroupConsumer)(
                *plan.topics, auto_acknowledge=plan.style is Style.ITERATE, **settings
            )
        return within(self.process.environment, AsyncPushConsumer)(
            *plan.topics,
            listener=self._listen,
            concurrency=plan.concurrency,
            orderly=plan.style is Style.ORDERLY,
            suspend_ms=SUSPEND_MS,
            **settings,
        )

    async def _leave(self) -> None:
        """Leave the consumer group. For a member that pulls messages, do nothing, because its read loop leaves
        between two reads."""
        if isinstance(self._consumer, AsyncPushConsumer):
            with contextlib.suppress(LedgerError):
                await self._consumer.stop(STOP_S)
        elif self._consumer is not None:
            return
        self._on_left()

    # -- push style

    async def _listen(self, message: Message) -> Outcome | None:
        tries = self._history.handed(self.seen, message)
        await asyncio.sleep(self._work_s)
        if not self._fails(message, tries):
            self._history.finished(self.seen, message)
            return None
        if self._random.random() < 0.5:
            raise CannotConsume(message.id)
        return Outcome.RECONSUME_LATER

    def _fails(self, message: Message, tries: int) -> bool:
        plan = self.seen.plan
        attempt = tries if plan.style is Style.ORDERLY else message.attempt
        return attempt <= plan.failures_of(name_of(message.value))

    # -- pull style

    async def _read(self, consumer: AsyncGroupConsumer) -> None:
        # The consumed messages of the last read. The next read marks them as finished.
        finished: list[Message] = []
        while not self.leaves:
            for message in finished:
                self._history.finished(self.seen, message)
            finished = []
            try:
                messages = await consumer.getmany(self._random.choice((1, 5, 50)), timeout_ms=1_000)
            except LedgerError:
                await asyncio.sleep(AGAIN_S)
                continue
            for message in messages:
                self._history.handed(self.seen, message)
            finished = [message for message in messages if await self._consume(consumer, message)]
        with contextlib.suppress(LedgerError):
            await consumer.stop()
        self._on_left()

    async def _consume(self, consumer: AsyncGroupConsumer, message: Message) -> bool:
        """Handle a message as user code. Return False if the user code failed for the message, so that the message
        will be delivered again later."""
        await asyncio.sleep(self._work_s)
        if self._fails(message, 1):
            await self._put_off(consumer, message)
            return False
        if self.seen.plan.style is Style.PULL:
            self._history.finished(self.seen, message)
            consumer.finish(message)
        return True

    async def _put_off(self, consumer: AsyncGroupConsumer, message: Message) -> None:
        """Request a later delivery of the message, and repeat the request until it succeeds. Without a successful
        request, the next read would mark the message as finished."""
        while True:
            try:
                await consumer.reconsume_later(message)
                return
            except LedgerError:
                await asyncio.sleep(AGAIN_S)
