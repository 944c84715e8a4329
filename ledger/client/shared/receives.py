"""The receives of one member of a shared group: it asks the shards, and keeps what arrives until a call takes it."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Generic, cast

from ledger.client.records import Received
from ledger.client.shared.group_links import GroupLinks
from ledger.client.shared.shard_link import Ask, ShardLink
from ledger.client.shared.shared_message import (
    ACKNOWLEDGE,
    MessageLease,
    SharedMessage,
    changes_of,
    leased_messages,
    with_value,
)
from ledger.errors import ClosedError, LedgerError, RequestTimeoutError
from ledger.v1 import consumer_group_pb2

log = logging.getLogger("ledgermq.client.shared_consumer")

# How much later than its time a shard may answer before the others do not wait for it.
_LATE_S = 1.0
# Messages whose acknowledgement has no answer. More of them are handed out again after their leases.
_MAX_UNANSWERED = 1_000


class SharedReceives(Generic[Received]):
    """`fill` brings messages into the surplus, and `taken` takes them out."""

    def __init__(
        self,
        links: GroupLinks,
        acknowledge: Callable[[Sequence[SharedMessage[Any]]], Awaitable[int]],
        new_attempt_id: Callable[[], int],
        *,
        max_bytes: int,
        check_crcs: bool,
        deserializer: Callable[[bytes], Received] | None,
    ) -> None:
        """`acknowledge` is called with finished messages that cannot go with a request for messages."""
        self._links = links
        self._acknowledge = acknowledge
        self._new_attempt_id = new_attempt_id
        self._max_bytes = max_bytes
        self._check_crcs = check_crcs
        self._deserializer = deserializer
        self._next_link = 0
        # Messages that arrived for a receive that wanted no more. The next receive gets them.
        self.surplus: deque[SharedMessage[bytes]] = deque()
        # Messages whose acknowledgement went with a request for messages that has ended without an answer to it. The
        # consumer acknowledges them once more when it stops. Oldest first.
        self._unanswered: dict[MessageLease, SharedMessage[Any]] = {}
        # Requests that are under way, with their tasks.
        self._asks: dict[asyncio.Task[None], Ask] = {}
        self._is_over = False

    async def fill(
        self, max_messages: int, lease_ms: int, max_wait_ms: int, finished: list[SharedMessage[Any]], patience_s: float
    ) -> None:
        """Ask the shards for messages, and put them into the surplus. The first shard is asked alone, and without a
        wait; if it has none or does not answer, all are asked. The messages of `finished` are acknowledged.

        While no leader answers, the call ends with an error 1 s after `max_wait_ms`, or after `patience_s` if that is
        longer. Acknowledgements that ride on a request go on meanwhile. Raises LedgerError."""
        links = await self._links.current()
        self.settle(finished)
        riding: dict[int, list[SharedMessage[Any]]] = defaultdict(list)
        for message in finished:
            riding[message.lease.shard].append(message)
        self._next_link += 1
        first = links[self._next_link % len(links)]
        others = {shard: some for shard, some in riding.items() if shard != first.shard}
        sent = [asyncio.ensure_future(self._acknowledge(some)) for some in others.values()]
        try:
            wait_ms = max_wait_ms if len(links) == 1 else 0
            (begun,) = self._begin([first], max_messages, lease_ms, wait_ms, riding[first.shard])
            ask = self._asks[begun]
            if len(links) == 1:
                await self._first_answers([begun], max_wait_ms, patience_s)
                return
            try:
                # A shard without a leader holds up no other. Its request goes on, as acknowledgements ride on it.
                await self._first_messages([begun], _LATE_S)
            except asyncio.CancelledError:
                self._cancel([begun])
                raise
            if not self.surplus and (max_wait_ms or not ask.is_answered):
                tasks = self._begin(links, max_messages, lease_ms, max_wait_ms)
                await self._first_answers(tasks, max_wait_ms, patience_s)
        except asyncio.CancelledError:
            for each in sent:
                each.cancel()
            sent.clear()  # no error of an acknowledgement replaces the cancellation
            raise
        finally:
            await asyncio.gather(*sent)

    def taken(self, max_messages: int) -> list[SharedMessage[Received]]:
        """Remove and return the next messages whose leases have not ended. If the first of them cannot be deserialized,
        remove it and raise the error of the deserializer. A later one stays, for the next call."""
        now_s = asyncio.get_running_loop().time()
        taken: list[SharedMessage[Received]] = []
        while self.surplus and len(taken) < max_messages:
            message = self.surplus.popleft()
            if message.ends_s <= now_s:
                continue
            if self._deserializer is None:
                taken.append(cast(SharedMessage[Received], message))
                continue
            try:
                taken.append(with_value(message, self._deserializer))
            except Exception:
                if not taken:
                    raise
                self.surplus.appendleft(message)
                break
        return taken

    def settle(self, messages: Iterable[SharedMessage[Any]]) -> None:
        """Forget acknowledgements without an answer, because these messages are acknowledged or given up again."""
        for message in messages:
            self._unanswered.pop(message.lease, None)

    @property
    def unanswered(self) -> list[SharedMessage[Any]]:
        """The messages whose acknowledgement went with a request for messages, and has no answer."""
        return list(self._unanswered.values())

    def end(self) -> None:
        """Take back all requests. What they bring nevertheless goes into the surplus."""
        self._is_over = True
        for ask in self._asks.values():
            ask.cancel()

    async def wait_ended(self, most_s: float) -> None:
        """Wait up to `most_s` seconds for the answers to the requests that were taken back."""
        if self._asks:
            await asyncio.wait(list(self._asks), timeout=most_s)

    async def close(self) -> None:
        for task in self._asks:
            task.cancel()
        await asyncio.gather(*self._asks, return_exceptions=True)

    def _begin(
        self,
        links: Sequence[ShardLink],
        max_messages: int,
        lease_ms: int,
        max_wait_ms: int,
        finished: Sequence[SharedMessage[Any]] = (),
    ) -> list[asyncio.Task[None]]:
        """Begin to ask these shards for messages. What they answer goes into the surplus, also if it arrives after the
        end of the receive."""
        tasks = []
        for link in links:
            wanted = consumer_group_pb2.Receive(
                max_messages=max_messages,
                max_bytes=self._max_bytes,
                lease_ms=lease_ms,
                max_wait_ms=max_wait_ms,
                attempt_id=self._new_attempt_id(),
            )
            ask = Ask()
            if self._is_over:
                ask.cancel()
            task = asyncio.create_task(self._one(link, ask, wanted, finished), name="receive of a shared consumer")
            self._asks[task] = ask
            task.add_done_callback(partial(self._ended, finished))
            tasks.append(task)
        return tasks

    def _cancel(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        for task in tasks:
            if (ask := self._asks.get(task)) is not None:
                ask.cancel()

    def _ended(self, finished: Sequence[SharedMessage[Any]], task: asyncio.Task[None]) -> None:
        unanswered = [] if self._asks.pop(task).is_settled else finished
        self._unanswered.update((message.lease, message) for message in unanswered)
        while len(self._unanswered) > _MAX_UNANSWERED:
            del self._unanswered[next(iter(self._unanswered))]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("a receive of a shared group failed: %s", error)
            if unanswered:
                log.warning(
                    "acknowledgements of %d messages have no answer; they are sent again when the consumer stops: %s",
                    len(unanswered),
                    error,
                )

    async def _first_messages(
        self, tasks: Sequence[asyncio.Task[None]], most_s: float | None, *, all_of_them: bool = False
    ) -> None:
        """Return when there are messages, when all of these tasks have ended, or after `most_s` seconds. Raises the
        error of the first task if all have failed. With `all_of_them`, wait for them also if there are messages."""
        loop = asyncio.get_running_loop()
        until_s = None if most_s is None else loop.time() + most_s
        waiting = {task for task in tasks if not task.done()}
        while waiting and (all_of_them or not self.surplus):
            left_s = None if until_s is None else until_s - loop.time()
            if left_s is not None and left_s <= 0:
                return
            _, waiting = await asyncio.wait(waiting, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        errors = [error for task in tasks if (error := _error_of(task)) is not None]
        if len(errors) == len(tasks) and not self.surplus:
            raise errors[0]

    async def _first_answers(self, tasks: Sequence[asyncio.Task[None]], max_wait_ms: int, patience_s: float) -> None:
        """Wait for the first messages, and take back the requests that have not brought any. Raises LedgerError if no
        leader answers."""
        asks = [self._asks[task] for task in tasks]
        begun_s = asyncio.get_running_loop().time()
        try:
            await self._first_messages(tasks, max_wait_ms / 1000 + _LATE_S)
            if not any(ask.is_answered for ask in asks):
                await self._first_messages(tasks, begun_s + patience_s - asyncio.get_running_loop().time())
        except asyncio.CancelledError:
            self._cancel(tasks)
            raise
        waiting = [task for task, ask in zip(tasks, asks, strict=True) if ask.is_settled and not task.done()]
        self._cancel(waiting)
        if waiting:  # they answer soon, and may bring messages
            await self._first_messages(waiting, _LATE_S, all_of_them=True)
        if not self.surplus and not self._is_over and not any(ask.is_answered for ask in asks):
            raise _trouble(asks, asyncio.get_running_loop().time() - begun_s)

    async def _one(
        self,
        link: ShardLink,
        ask: Ask,
        wanted: consumer_group_pb2.Receive,
        finished: Sequence[SharedMessage[Any]],
    ) -> None:
        changes = list(changes_of((message.lease for message in finished), ACKNOWLEDGE))
        asked_s = asyncio.get_running_loop().time()
        received = await link.receive(ask, wanted, changes)
        for batch in received.batches:
            name = self._links.topic_name(batch.topic_id)
            if name is None:
                continue  # the topic was deleted meanwhile
            messages = leased_messages(link.shard, name, batch, asked_s, received.ends_s, check_crc=self._check_crcs)
            self.surplus.extend(messages)


def _trouble(asks: Sequence[Ask], waited_s: float) -> LedgerError:
    """Return why no leader has answered these requests."""
    silent = RequestTimeoutError(f"No leader answered this receive within {waited_s:.3g} s.")
    return next((ask.error for ask in asks if ask.error is not None), silent)


def _error_of(task: asyncio.Task[None]) -> BaseException | None:
    """Return the error of a task that has ended, or None."""
    if not task.done():
        return None
    return ClosedError("This client was closed: make a new one.") if task.cancelled() else task.exception()
