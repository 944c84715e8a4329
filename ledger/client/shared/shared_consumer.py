"""The asyncio consumer of a shared group: the members lease messages one by one from all queues of their topics.

    receive       messages are leased to this member for a time
    ack           a message is consumed, and nobody receives it again
    nack          the member does not consume it: it is handed out again, at once or after a delay
    extend        the member needs more time

A message whose lease ends is handed out again, to any member. After `max_attempts` of the group it goes to the dead
letters. Every change is an entry of the log, so it survives a failover.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import random
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any, Generic, Literal, cast

from ledger.cancellation import heed_cancellation
from ledger.client.checked_numbers import checked_whole
from ledger.client.connection.cluster_client import ClusterClient, no_topic
from ledger.client.connection.environment import cluster_of
from ledger.client.connection.lifetime import AsyncLifetime, security_in
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.consumer.tags import wanted_tags
from ledger.client.group.assigned_queues import prepare_retries
from ledger.client.group.push_consumer import is_async
from ledger.client.records import Received
from ledger.client.shared.lease_ends import extended_end_s
from ledger.client.shared.lease_keeper import LeaseKeeper
from ledger.client.shared.shard_link import Ask, ShardLink
from ledger.client.shared.shared_message import (
    ACKNOWLEDGE,
    EXTEND,
    GIVE_BACK,
    PUT_OFF,
    MessageLease,
    SentChange,
    SharedMessage,
    changes_of,
    leased_messages,
    with_value,
)
from ledger.client.traced_listener import traced_listener
from ledger.client.tracing import TracerSource, client_spans
from ledger.consumer_groups import AT_THE_FIRST, BEHIND_THE_LAST, validate_group_name, validate_member_name
from ledger.errors import ClosedError, InvalidArgumentError, LedgerError, UnknownTopicError
from ledger.hashing import tag_hash
from ledger.shared import (
    DEFAULT_LEASE_MS,
    MAX_FILTER_CHARACTERS,
    MAX_LEASE_MS,
    MAX_RECEIVED,
    MAX_RECEIVED_BYTES,
    MAX_WAIT_MS,
    MIN_LEASE_MS,
)
from ledger.topics import topic_names
from ledger.v1 import consumer_group_pb2

log = logging.getLogger("ledgermq.client.shared_consumer")

SharedStart = Literal["earliest", "latest"]

# Changes of one request.
_CHANGES_AT_ONCE = 500
# How much later than its time a shard may answer before the others do not wait for it.
_LATE_S = 1.0
# Receives of one consumer that ask brokers at the same time; more of them wait. A node reads no further request of a
# stream that has 64 requests without an answer, and changes must not wait for receives.
_RECEIVES_AT_ONCE = 32
# How long a consumer that stops waits for the answers to its receives.
_STOP_S = 2.0

# A coroutine function, or a plain function that may take long.
SharedListener = Callable[[SharedMessage[Received]], Awaitable[object] | object]
AsyncSharedListener = Callable[[SharedMessage[Received]], Awaitable[object]]
SharedMessages = SharedMessage[Any] | Iterable[SharedMessage[Any]]


class AsyncSharedConsumer(AsyncLifetime, Generic[Received]):
    """An asyncio client that consumes topics together with the other members of the shared group `group`. Create the
    group first: `ledgermq group create NAME --mode shared`, or `create_consumer_group` of an admin client.

    `receive` leases messages to this member. The program acknowledges each of them with `ack`, or gives it up for now
    with `nack`. An iteration does this by itself: it acknowledges a message when the program asks for the next one, and
    extends the lease until then.

    If a topic is deleted, the consumer continues with its other topics, and it finds a topic that was created again
    within about 30 s. If all topics are deleted, reading raises UnknownTopicError until one of the topics exists again.

    group                the shared group: 1 to 63 of the characters A-Z a-z 0-9 _ . -
    bootstrap_servers    "host:port,host:port" or a list of addresses; one reachable address is enough
    order                "key": the group must have order by key, so messages with one key are handed out one after
                         another. None (default): either
    start                where the group begins with a queue that it has never consumed: "earliest" (default) or
                         "latest"
    tags                 receive only messages with one of these tags, such as "paid || refunded"; None (default) or
                         "*": all messages. Equal for all members of the group
    where                receive only messages for which this condition on headers, tag and keys is true, such as
                         "price > 10 AND region = 'EU'"; None (default): all messages. The nodes evaluate it. Equal for
                         all members of the group. docs/CONSUMERS.md describes the language
    lease_ms             how long a message is leased, if `receive` does not say it (default 30,000)
    prefetch             how many messages an iteration leases at a time (default 32)
    max_bytes            about how many bytes one receive may have (default 1 MiB)
    deserializer         a function such as json.loads, which makes the `value` of each message from its bytes (default
                         None). If it fails, reading raises its error, and the lease of the message ends in its time
    tracing              True: `consume` makes a span of OpenTelemetry around each call of the listener, with the global
                         tracer provider; or a tracer provider (default False). Needs the extra `otel`
    check_crcs, client_id, request_timeout_ms, retry_backoff_ms, rng: as for AsyncConsumer
    """

    def __init__(
        self,
        *topics: str | Iterable[str],
        group: str,
        bootstrap_servers: str | Sequence[str] | None = None,
        order: Literal["key"] | None = None,
        start: SharedStart = "earliest",
        tags: str | Iterable[str] | None = None,
        where: str | None = None,
        lease_ms: int = DEFAULT_LEASE_MS,
        prefetch: int = 32,
        max_bytes: int = 1024 * 1024,
        deserializer: Callable[[bytes], Received] | None = None,
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
        servers, environment = cluster_of(self._environment, bootstrap_servers, security_in(locals()))
        validate_group_name(group)
        if start not in ("earliest", "latest"):
            raise InvalidArgumentError(f'start is "{start}": it must be "earliest" or "latest".')
        if order not in (None, "key"):
            raise InvalidArgumentError(f'order is "{order}": it must be "key" or None.')
        if where is not None and not 1 <= len(where.strip()) <= MAX_FILTER_CHARACTERS:
            raise InvalidArgumentError(
                f"A filter has 1 to {MAX_FILTER_CHARACTERS:,} characters, and this has {len(where):,}: shorten it, or "
                "leave out `where`."
            )
        self._spans = client_spans(tracing, client_id)
        self._group, self._order, self._where = group, order, where or ""
        self._names = topic_names(topics)
        self._start_offset = AT_THE_FIRST if start == "earliest" else BEHIND_THE_LAST
        self._tag_hashes = tuple(sorted(map(tag_hash, wanted_tags(tags) or ())))
        self._lease_ms = _checked_lease(lease_ms)
        self._prefetch = checked_whole("prefetch", prefetch, 1, MAX_RECEIVED)
        self._max_bytes = checked_whole("max_bytes", max_bytes, 1, MAX_RECEIVED_BYTES)
        self._deserializer, self._check_crcs = deserializer, check_crcs
        client_id = client_id or f"ledgermq-{os.getpid()}"
        self._name = f"{client_id}-{environment.new_producer_id():016x}".replace(" ", "_")
        validate_member_name(self._name)
        self._client = ClusterClient(
            servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            rng=rng or random.Random(),
            environment=environment,
        )
        # By shard.
        self._links: dict[int, ShardLink] = {}
        # The names of the topics that exist, by id.
        self._topic_names: dict[int, str] = {}
        self._next_link = 0
        # Messages that arrived for a receive that wanted no more. The next receive gets them.
        self._surplus: deque[SharedMessage[bytes]] = deque()
        self._receives = asyncio.Semaphore(_RECEIVES_AT_ONCE)
        # Requests of receives that are under way, with their tasks.
        self._asks: dict[asyncio.Task[None], Ask] = {}
        # The iteration: messages that it hands out next, the message in hand, and messages to acknowledge.
        self._ahead: deque[SharedMessage[Received]] = deque()
        self._in_hand: SharedMessage[Received] | None = None
        self._finished: list[SharedMessage[Any]] = []
        self._keeper = LeaseKeeper(self._extend_again, self._lease_ms)
        self._keeping: asyncio.Task[None] | None = None
        # Calls of listeners. A dict, because a set has no order.
        self._calls: dict[asyncio.Task[None], None] = {}
        self._is_ending = False
        # Closes the consumer, also if the caller of `stop` is cancelled.
        self._ending: asyncio.Task[None] | None = None

    # -- the life cycle

    async def start(self) -> None:
        """Connect, and join the shared group.

        Raises UnknownTopicError, UnknownGroupError, GroupConflictError, PermissionDeniedError or UnavailableError."""
        await self._client.start()
        try:
            await prepare_retries(self._client, self._group)
            for name in self._names:
                await self._client.topic(name)
            for link in await self._current_links():
                await link.open()
        except BaseException:
            await self._close_links()
            await self._client.close()
            raise
        self._keeping = asyncio.create_task(self._keeper.run(), name=f"leases of shared group {self._group}")

    async def stop(self, timeout_s: float = 30.0) -> None:
        """Give back the messages that were not handed out, and acknowledge those that the iteration has finished. Wait
        up to `timeout_s` seconds for running calls of `consume`, and close the connections. Calls that take longer are
        cancelled, and their messages are handed out again after their leases. Other messages in hand keep their leases.

        If the caller is cancelled, for example by `asyncio.wait_for`, running calls are cancelled at once, and the
        consumer is closed all the same. The call is idempotent."""
        if self._ending is not None:
            await asyncio.shield(self._ending)
            return
        if not self._client.started:
            return
        self.stop_reading()
        stopper = asyncio.current_task()
        self._ending = asyncio.create_task(self._end(stopper, timeout_s), name="end of a shared consumer")
        try:
            await asyncio.shield(self._ending)
        except asyncio.CancelledError:
            self._cancel_calls(stopper)
            await asyncio.shield(self._ending)
            raise

    async def _end(self, stopper: asyncio.Task[Any] | None, timeout_s: float) -> None:
        if self._asks:
            await asyncio.wait(list(self._asks), timeout=_STOP_S)
        await self._give_back()
        # A listener that stops the consumer does not wait for itself.
        if calls := [call for call in self._calls if call is not stopper]:
            await asyncio.wait(calls, timeout=timeout_s)
        self._cancel_calls(stopper)
        await asyncio.gather(*calls, return_exceptions=True)
        if self._keeping is not None:
            self._keeping.cancel()
        await self._give_back()  # what arrived or was finished meanwhile
        for task in self._asks:
            task.cancel()
        await asyncio.gather(*self._asks, return_exceptions=True)
        await self._close_links()
        await self._client.close()

    async def _give_back(self) -> None:
        """Give back the messages that were not handed out, and acknowledge those that the iteration has finished."""
        finished, self._finished = self._finished, []
        unread: list[SharedMessage[Any]] = [*self._surplus, *self._ahead]
        self._surplus.clear()
        self._ahead.clear()
        with contextlib.suppress(LedgerError):
            await self._send(finished, ACKNOWLEDGE)
            await self._send(unread, GIVE_BACK)

    def _cancel_calls(self, stopper: asyncio.Task[Any] | None) -> None:
        for call in self._calls:
            if call is not stopper:
                call.cancel()

    def stop_reading(self) -> None:
        """Hand out no more messages: an iteration ends after the message in hand, and receive() raises ClosedError. The
        program can still acknowledge what it has. See also `ledgermq.stop_on_signal`."""
        self._is_ending = True
        for ask in self._asks.values():
            ask.cancel()

    @property
    def closed(self) -> bool:
        """True if the consumer was stopped."""
        return self._client.closed

    @property
    def member(self) -> str:
        """This member's name in the group."""
        return self._name

    # -- receiving

    async def receive(
        self,
        max_messages: int = 32,
        *,
        lease_ms: int | None = None,
        max_wait_ms: int = 20_000,
        ack: SharedMessages = (),
    ) -> list[SharedMessage[Received]]:
        """Lease up to `max_messages` messages, and return them. If there are none, wait for messages for up to
        `max_wait_ms`, and then return an empty list.

        `lease_ms` is how long the messages are leased (None: as the consumer's setting says). The messages of `ack` are
        acknowledged with the same request. Raises ClosedError after `stop_reading`, and other LedgerErrors."""
        lease_ms = self._lease_ms if lease_ms is None else _checked_lease(lease_ms)
        max_messages = checked_whole("max_messages", max_messages, 1, MAX_RECEIVED)
        max_wait_ms = checked_whole("max_wait_ms", max_wait_ms, 0, MAX_WAIT_MS)
        self._check_reading()
        finished = as_list(ack)
        self._keeper.drop(finished)
        if finished and (self._surplus or self._receives.locked()):
            await self._send(finished, ACKNOWLEDGE)
            finished = []
        begun_s = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(max_wait_ms / 1000):
                await self._receives.acquire()
        except TimeoutError:
            return self._taken(max_messages)
        try:
            self._check_reading()
            if not self._surplus:
                waited_ms = round((asyncio.get_running_loop().time() - begun_s) * 1000)
                await self._receive(max_messages, lease_ms, max(0, max_wait_ms - waited_ms), finished)
            elif finished:
                await self._send(finished, ACKNOWLEDGE)
            return self._taken(max_messages)
        finally:
            self._receives.release()

    async def ack(self, messages: SharedMessages) -> int:
        """Acknowledge one or more messages, and return when this is committed. Return how many of them counted: a
        message whose lease ended does not count if another receive got it since. If a leader fails before it answers,
        the request is repeated; a message that it acknowledged the first time is then not counted, although it is
        acknowledged. Raises LedgerError."""
        return await self._send(as_list(messages), ACKNOWLEDGE)

    async def nack(self, messages: SharedMessages, *, delay_ms: int = 0) -> int:
        """Let one or more messages be handed out again, after `delay_ms`. Return how many of them counted, as `ack`
        does. Raises LedgerError."""
        delay_ms = checked_whole("delay_ms", delay_ms, 0, MAX_LEASE_MS)
        return await self._send(as_list(messages), PUT_OFF, delay_ms)

    async def extend(self, messages: SharedMessages, *, lease_ms: int | None = None) -> int:
        """Let the leases of one or more messages end `lease_ms` from now on (None: as the consumer's setting says).
        Return how many of them counted, as `ack` does. Raises LedgerError."""
        lease_ms = self._lease_ms if lease_ms is None else _checked_lease(lease_ms)
        return await self._extend(as_list(messages), lease_ms)

    # -- iteration

    def __aiter__(self) -> AsyncIterator[SharedMessage[Received]]:
        return self

    async def __anext__(self) -> SharedMessage[Received]:
        """Return the next message, and wait for it without a time limit. The message before it is acknowledged, unless
        the program has called `ack` or `nack` with it. Leases of the iteration are extended by themselves, unless the
        program blocks the event loop for too long: the group then hands these messages out again, and the iteration
        leaves them out. The iteration ends when the consumer is stopped."""
        if self._in_hand is not None and self._in_hand in self._keeper:
            self._keeper.drop([self._in_hand])
            self._finished.append(self._in_hand)
        self._in_hand = None
        self._drop_ended()
        while not self._ahead and self._reads_on():
            finished, self._finished = self._finished, []
            try:
                messages = await self.receive(self._prefetch, ack=finished)
            except BaseException as error:
                # Some of them may be acknowledged. The next call, or `stop`, acknowledges all of them.
                self._finished = [*finished, *self._finished]
                if not isinstance(error, ClosedError) or self._reads_on():
                    raise
                break
            self._keeper.keep(messages)
            self._ahead.extend(messages)
        if not self._reads_on():
            raise StopAsyncIteration
        self._in_hand = self._ahead.popleft()
        return self._in_hand

    def _drop_ended(self) -> None:
        """Drop the next messages of the iteration if their leases have ended: other members may have them."""
        now_s = asyncio.get_running_loop().time()
        while self._ahead and self._ahead[0].ends_s <= now_s:
            self._keeper.drop([self._ahead.popleft()])

    async def consume(
        self,
        listener: SharedListener[Received],
        *,
        concurrency: int = 1,
        retry_delay_ms: int = 10_000,
    ) -> None:
        """Call `listener` for each message, up to `concurrency` at a time, until the consumer is stopped. A message is
        acknowledged when the call returns. If the call raises an exception, the message is handed out again after
        `retry_delay_ms`. Leases are extended while calls run. A plain function is called in another thread.

        Raises LedgerError if messages cannot be received, acknowledged or given up: calls that run are then cancelled,
        and their messages are handed out again after their leases."""
        concurrency = checked_whole("concurrency", concurrency, 1, MAX_RECEIVED)
        retry_delay_ms = checked_whole("retry_delay_ms", retry_delay_ms, 0, MAX_LEASE_MS)
        if not callable(listener):
            raise InvalidArgumentError(f"listener is {listener!r}: give a function that is called with each message.")

        if self._spans is not None:
            listener = cast(
                "SharedListener[Received]",
                traced_listener(listener, self._spans, self._group, is_async=is_async(listener)),
            )
        # Threads of its own: those of the event loop are fewer than calls may run, and have other work, too.
        threads = ThreadPoolExecutor(concurrency, "ledgermq-listener")
        try:
            async with asyncio.TaskGroup() as group:
                await self._consume(_called_in(threads, listener), concurrency, retry_delay_ms, group)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            threads.shutdown(wait=False)

    async def _consume(
        self, listener: AsyncSharedListener[Received], concurrency: int, retry_delay_ms: int, group: asyncio.TaskGroup
    ) -> None:
        calls: set[asyncio.Task[None]] = set()
        while self._reads_on():
            if len(calls) >= concurrency:
                await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
                continue
            try:
                messages = await self.receive(concurrency - len(calls))
            except ClosedError:
                if self._reads_on():
                    raise
                break
            if not self._reads_on():
                self._ahead.extend(messages)  # `stop` gives them back
                break
            for message in messages:
                call = group.create_task(self._call(listener, message, retry_delay_ms))
                calls.add(call)
                call.add_done_callback(calls.discard)
                self._calls[call] = None
                call.add_done_callback(self._calls.pop)

    async def _call(
        self,
        listener: AsyncSharedListener[Received],
        message: SharedMessage[Received],
        retry_delay_ms: int,
    ) -> None:
        self._keeper.keep([message])
        try:
            if await self._is_consumed(listener, message):
                await self.ack(message)
            else:
                await self.nack(message, delay_ms=retry_delay_ms)
        except ClosedError:
            if self._reads_on():
                raise
            log.warning("message %s is handed out again: its listener ended after the consumer was closed", message.id)
        finally:
            self._keeper.drop([message])

    async def _is_consumed(self, listener: AsyncSharedListener[Received], message: SharedMessage[Received]) -> bool:
        """Call the listener. Return False if it raises an exception."""
        try:
            await listener(message)
        except (Exception, asyncio.CancelledError) as error:
            heed_cancellation()  # without one, the listener awaited something that was cancelled
            log.warning("message %s failed at attempt %d: %r", message.id, message.attempt, error, exc_info=True)
            return False
        return True

    # -- the work

    def _reads_on(self) -> bool:
        return not self._is_ending

    def _check_reading(self) -> None:
        self._client.check_open()
        if self._is_ending:
            raise ClosedError("This consumer was told to stop reading: it hands out no more messages.")

    async def _receive(
        self, max_messages: int, lease_ms: int, max_wait_ms: int, finished: list[SharedMessage[Any]]
    ) -> None:
        """Ask the shards for messages, and put them into the surplus. The first shard is asked alone, and without a
        wait; if it has none, all are asked."""
        links = await self._current_links()
        riding: dict[int, list[SharedMessage[Any]]] = defaultdict(list)
        for message in finished:
            riding[message.lease.shard].append(message)
        self._next_link += 1
        first = links[self._next_link % len(links)]
        others = {shard: some for shard, some in riding.items() if shard != first.shard}
        sent = [asyncio.ensure_future(self._send(some, ACKNOWLEDGE)) for some in others.values()]
        try:
            wait_ms = max_wait_ms if len(links) == 1 else 0
            (begun,) = self._begin([first], max_messages, lease_ms, wait_ms, riding[first.shard])
            late_s = None if len(links) == 1 else _LATE_S
            try:
                # A shard without a leader holds up no other. Its request goes on, as acknowledgements ride on it.
                await self._first_messages([begun], late_s)
            except asyncio.CancelledError:
                self._cancel([begun])
                raise
            if not self._surplus and len(links) > 1 and max_wait_ms:
                tasks = self._begin(links, max_messages, lease_ms, max_wait_ms)
                try:
                    await self._first_messages(tasks, max_wait_ms / 1000 + _LATE_S)
                finally:
                    self._cancel(tasks)
                # Those that were cancelled answer soon, and may bring messages.
                await self._first_messages(tasks, _LATE_S, all_of_them=True)
        except asyncio.CancelledError:
            for each in sent:
                each.cancel()
            sent.clear()  # no error of an acknowledgement replaces the cancellation
            raise
        finally:
            await asyncio.gather(*sent)

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
                attempt_id=self._client.environment.new_producer_id(),
            )
            ask = Ask()
            if self._is_ending:
                ask.cancel()
            task = asyncio.create_task(self._one(link, ask, wanted, finished), name="receive of a shared consumer")
            self._asks[task] = ask
            task.add_done_callback(self._ended)
            tasks.append(task)
        return tasks

    def _cancel(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        for task in tasks:
            if (ask := self._asks.get(task)) is not None:
                ask.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._asks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("a receive of shared group %s failed: %s", self._group, error)

    async def _first_messages(
        self, tasks: Sequence[asyncio.Task[None]], most_s: float | None, *, all_of_them: bool = False
    ) -> None:
        """Return when there are messages, when all of these tasks have ended, or after `most_s` seconds. Raises the
        error of the first task if all have failed. With `all_of_them`, wait for them also if there are messages."""
        loop = asyncio.get_running_loop()
        until_s = None if most_s is None else loop.time() + most_s
        waiting = {task for task in tasks if not task.done()}
        while waiting and (all_of_them or not self._surplus):
            left_s = None if until_s is None else until_s - loop.time()
            if left_s is not None and left_s <= 0:
                return
            _, waiting = await asyncio.wait(waiting, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        errors = [error for task in tasks if (error := _error_of(task)) is not None]
        if len(errors) == len(tasks) and not self._surplus:
            raise errors[0]

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
            name = self._topic_names.get(batch.topic_id)
            if name is None:
                continue  # the topic was deleted meanwhile
            messages = leased_messages(link.shard, name, batch, asked_s, received.ends_s, check_crc=self._check_crcs)
            self._surplus.extend(messages)

    def _taken(self, max_messages: int) -> list[SharedMessage[Received]]:
        """Remove and return the next messages whose leases have not ended. If the first of them cannot be deserialized,
        remove it and raise the error of the deserializer. A later one stays, for the next call."""
        now_s = asyncio.get_running_loop().time()
        taken: list[SharedMessage[Received]] = []
        while self._surplus and len(taken) < max_messages:
            message = self._surplus.popleft()
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
                self._surplus.appendleft(message)
                break
        return taken

    async def _send(self, messages: Sequence[SharedMessage[Any]], kind: int, duration_ms: int = 0) -> int:
        """Send changes that end leases to the shards of the messages. Return how many messages they changed."""
        self._keeper.drop(messages)
        return sum(each.counted for each in await self._sent(messages, kind, duration_ms))

    async def _sent(self, messages: Sequence[SharedMessage[Any]], kind: int, duration_ms: int) -> list[SentChange]:
        """Send changes of leases to the shards of the messages, and return them with their results."""
        sent = await asyncio.gather(*self._by_shard(messages, kind, duration_ms))
        return list(chain.from_iterable(sent))

    def _by_shard(
        self, messages: Sequence[SharedMessage[Any]], kind: int, duration_ms: int
    ) -> list[Coroutine[Any, Any, list[SentChange]]]:
        """Return what sends the changes to each shard."""
        by_shard: dict[int, list[MessageLease]] = defaultdict(list)
        for message in messages:
            by_shard[message.lease.shard].append(message.lease)
        return [self._sent_to(shard, leases, kind, duration_ms) for shard, leases in by_shard.items()]

    async def _sent_to(self, shard: int, leases: list[MessageLease], kind: int, duration_ms: int) -> list[SentChange]:
        link = self._links.get(shard)
        if link is None:
            raise InvalidArgumentError("This message was not received by this consumer.")
        changes = list(changes_of(leases, kind, duration_ms))
        counts: list[int] = []
        for first in range(0, len(changes), _CHANGES_AT_ONCE):
            counts += await link.change(changes[first : first + _CHANGES_AT_ONCE])
        return [SentChange(shard, change, counted) for change, counted in zip(changes, counts, strict=True)]

    async def _extend(self, messages: Sequence[SharedMessage[Any]], lease_ms: int) -> int:
        ends_s = extended_end_s(lease_ms, asyncio.get_running_loop().time())
        for message in messages:  # the change may count although no answer says so, and may shorten the lease
            message.ends_s = min(message.ends_s, ends_s)
        results = await asyncio.gather(*self._by_shard(messages, EXTEND, lease_ms), return_exceptions=True)
        sent = [each for result in results if not isinstance(result, BaseException) for each in result]
        extended = {lease for each in sent if each.counts_for_all for lease in each.leases}
        for message in messages:
            if message.lease in extended:
                message.ends_s = ends_s
        lost = {lease for each in sent if not each.counted for lease in each.leases}
        now_s = asyncio.get_running_loop().time()
        self._keeper.drop([message for message in messages if message.lease in lost and message.ends_s <= now_s])
        for result in results:  # an error of one shard, after what the others said
            if isinstance(result, BaseException):
                raise result
        return sum(each.counted for each in sent)

    async def _extend_again(self, messages: Sequence[SharedMessage[Any]]) -> int:
        return await self._extend(messages, self._lease_ms)

    async def _current_links(self) -> list[ShardLink]:
        """Return the links to all shards that have queues of the topics. Raises UnknownTopicError if none of the topics
        exists."""
        topics = self._topics_there() or [await self._first_topic()]
        self._know(topics)
        shards = {shard for topic in topics for shard in topic.shards}
        for shard in sorted(shards):
            if shard not in self._links:
                self._links[shard] = ShardLink(self._client, shard, self._opening, self._look_for_topics)
        return [self._links[shard] for shard in sorted(shards)]

    def _topics_there(self) -> list[RoutedTopic]:
        """Return the topics of this consumer that exist, as far as its routes know."""
        known = self._client.routes.table.topics
        return [known[name] for name in self._names if name in known]

    async def _first_topic(self) -> RoutedTopic:
        """Ask the leader of shard 0 for a topic that exists. Raises UnknownTopicError."""
        for name in self._names:
            with contextlib.suppress(UnknownTopicError):
                return await self._client.topic(name)
        raise no_topic(self._names[0])

    def _know(self, topics: Sequence[RoutedTopic]) -> None:
        """Open other streams if topics were deleted or created again: a stream names topics by their ids."""
        names = {topic.topic_id: topic.name for topic in topics}
        if names != self._topic_names:
            self._topic_names = names
            for link in self._links.values():
                link.opening_changed()

    async def _look_for_topics(self) -> None:
        """Ask the leader of shard 0 which topics exist. In a secured cluster no member has a right on the id of a
        deleted topic, so the leader of a shard refuses a stream that names it."""
        with contextlib.suppress(LedgerError):
            for name in self._names:
                with contextlib.suppress(UnknownTopicError):
                    await self._client.topic(name, newest=True)
        if topics := self._topics_there():
            self._know(topics)

    def _opening(self, shard: int) -> consumer_group_pb2.ShareOpening:
        return consumer_group_pb2.ShareOpening(
            shard=shard,
            consumer_group=self._group,
            member=self._name,
            by_key=self._order == "key",
            topics=[
                consumer_group_pb2.SharedTopic(
                    topic_id=topic_id,
                    tag_hashes=self._tag_hashes,
                    start_offset=self._start_offset,
                    filter=self._where,
                )
                for topic_id in self._topic_names
            ],
        )

    async def _close_links(self) -> None:
        await asyncio.gather(*(link.close() for link in self._links.values()))


def _error_of(task: asyncio.Task[None]) -> BaseException | None:
    """Return the error of a task that has ended, or None."""
    if not task.done():
        return None
    return ClosedError("This client was closed: make a new one.") if task.cancelled() else task.exception()


def as_list(messages: SharedMessages) -> list[SharedMessage[Any]]:
    """Return one or more messages as a list. A message is itself a tuple."""
    return [messages] if isinstance(messages, SharedMessage) else list(messages)


def _called_in(threads: ThreadPoolExecutor, listener: SharedListener[Received]) -> AsyncSharedListener[Received]:
    """Return a coroutine function that calls the listener: a plain function in one of the threads."""
    if is_async(listener):
        return cast("AsyncSharedListener[Received]", listener)

    async def called(message: SharedMessage[Received]) -> object:
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(threads, context.run, listener, message)

    return called


def _checked_lease(lease_ms: int) -> int:
    return checked_whole("lease_ms", lease_ms, MIN_LEASE_MS, MAX_LEASE_MS)
