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
from ledger.client.background import spawn
from ledger.client.checked_arguments import (
    checked_callable,
    checked_client_id,
    checked_deserializer,
    checked_flag,
    checked_list,
    checked_rng,
    checked_text,
    shown,
)
from ledger.client.checked_numbers import checked_wait, checked_whole
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.environment import cluster_of
from ledger.client.connection.lifetime import AsyncLifetime, security_in
from ledger.client.consumer.tags import wanted_tags
from ledger.client.group.assigned_queues import prepare_retries
from ledger.client.group.push_consumer import is_async
from ledger.client.records import Message, Received
from ledger.client.shared.group_links import GroupLinks, Membership
from ledger.client.shared.lease_ends import extended_end_s
from ledger.client.shared.lease_keeper import LeaseKeeper
from ledger.client.shared.receives import SharedReceives
from ledger.client.shared.shared_message import (
    ACKNOWLEDGE,
    EXTEND,
    GIVE_BACK,
    PUT_OFF,
    SentChange,
    SharedMessage,
)
from ledger.client.traced_listener import traced_listener
from ledger.client.tracing import TracerSource, client_spans
from ledger.consumer_groups import AT_THE_FIRST, BEHIND_THE_LAST, validate_group_name, validate_member_name
from ledger.errors import ClosedError, InternalError, InvalidArgumentError, LedgerError
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

log = logging.getLogger("ledgermq.client.shared_consumer")

SharedStart = Literal["earliest", "latest"]

# Receives of one consumer that ask brokers at the same time; more of them wait. A node reads no further request of a
# stream that has 64 requests without an answer, and changes must not wait for receives.
_RECEIVES_AT_ONCE = 32
# How long a receive waits at least for a leader: an election takes less.
_ELECTION_S = 5.0
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
    check_crcs, client_id, request_timeout_ms, retry_backoff_ms, rng, and the security settings: as for AsyncConsumer
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
            raise InvalidArgumentError(f'start is {shown(start)}: it must be "earliest" or "latest".')
        if order not in (None, "key"):
            raise InvalidArgumentError(f'order is "{order}": it must be "key" or None.')
        if where is not None and not isinstance(where, str):
            raise InvalidArgumentError(f'where is {shown(where)}: it must be a str, such as "price > 10", or None.')
        if where is not None:
            checked_text("where", where)
        if where is not None and not 1 <= len(where.strip()) <= MAX_FILTER_CHARACTERS:
            raise InvalidArgumentError(
                f"A filter has 1 to {MAX_FILTER_CHARACTERS:,} characters, and this has {len(where):,}: shorten it, or "
                "leave out `where`."
            )
        self._spans = client_spans(tracing, checked_client_id(client_id))
        self._group = group
        self._names = topic_names(topics)
        self._lease_ms = _checked_lease(lease_ms)
        self._prefetch = checked_whole("prefetch", prefetch, 1, MAX_RECEIVED)
        client_id = client_id or f"ledgermq-{os.getpid()}"
        self._name = f"{client_id}-{environment.new_producer_id():016x}".replace(" ", "_")
        validate_member_name(self._name)
        self._client = ClusterClient(
            servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            rng=checked_rng(rng),
            environment=environment,
        )
        membership = Membership(
            group,
            self._name,
            order == "key",
            AT_THE_FIRST if start == "earliest" else BEHIND_THE_LAST,
            sorted(map(tag_hash, wanted_tags(tags) or ())),
            where or "",
        )
        self._links = GroupLinks(self._client, self._names, membership)
        self._receives: SharedReceives[Received] = SharedReceives(
            self._links,
            lambda messages: self._send(messages, ACKNOWLEDGE),
            environment.new_producer_id,
            max_bytes=checked_whole("max_bytes", max_bytes, 1, MAX_RECEIVED_BYTES),
            check_crcs=checked_flag("check_crcs", check_crcs),
            deserializer=checked_deserializer(deserializer),
        )
        self._may_receive = asyncio.Semaphore(_RECEIVES_AT_ONCE)
        # The iteration: messages that it hands out next, the message in hand, and messages to acknowledge.
        self._ahead: deque[SharedMessage[Received]] = deque()
        self._in_hand: SharedMessage[Received] | None = None
        self._finished: list[SharedMessage[Any]] = []
        self._keeper = LeaseKeeper(self._extend_again, self._lease_ms, self._failed)
        self._keeping: asyncio.Task[None] | None = None
        # Leases are not extended any more, because of a defect. Receives raise this error.
        self._defect: InternalError | None = None
        # Calls of listeners. A dict, because a set has no order.
        self._calls: dict[asyncio.Task[None], None] = {}
        self._is_ending = False
        # Closes the consumer, also if the caller of `stop` is cancelled.
        self._ending: asyncio.Task[None] | None = None

    # -- the life cycle

    async def start(self) -> None:
        """Connect, and join the shared group. A shard without a leader delays the start, up to `request_timeout_ms`,
        and does not prevent it.

        Raises UnknownTopicError, UnknownGroupError, GroupConflictError, PermissionDeniedError or UnavailableError."""
        self._client.check_unstarted(was_stopped=self._ending is not None)
        await self._client.start()
        try:
            await prepare_retries(self._client, self._group)
            for name in self._names:
                await self._client.topic(name)
            await self._links.open()
        except BaseException:
            await self._links.close()
            await self._client.close()
            raise
        self._keeping = spawn(self._keeper.run(), f"leases of shared group {self._group}", self._failed)

    async def stop(self, timeout_s: float = 30.0) -> None:
        """Give back the messages that were not handed out, and acknowledge those that the iteration has finished. Wait
        up to `timeout_s` seconds for running calls of `consume`, and close the connections. Calls that take longer are
        cancelled, and their messages are handed out again after their leases. Other messages in hand keep their leases.
        `timeout_s` does not limit the last acknowledgement, which takes up to `request_timeout_ms` while no leader
        answers.

        If the caller is cancelled, for example by `asyncio.wait_for`, running calls are cancelled at once, and the
        consumer is closed all the same. The call is idempotent."""
        timeout_s = checked_wait("timeout_s", timeout_s)
        self._client.check_loop()
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

    async def close(self, timeout_s: float = 30.0) -> None:
        """Do the same as `stop`, under the name that other libraries use."""
        await self.stop(timeout_s)

    async def aclose(self, timeout_s: float = 30.0) -> None:
        """Do the same as `stop`, under the name that `contextlib.aclosing` uses."""
        await self.stop(timeout_s)

    async def _end(self, stopper: asyncio.Task[Any] | None, timeout_s: float) -> None:
        await self._receives.wait_ended(_STOP_S)
        await self._give_back()
        # A listener that stops the consumer does not wait for itself.
        if calls := [call for call in self._calls if call is not stopper]:
            await asyncio.wait(calls, timeout=timeout_s)
        self._cancel_calls(stopper)
        await asyncio.gather(*calls, return_exceptions=True)
        if self._keeping is not None:
            self._keeping.cancel()
        await self._receives.close()
        await self._give_back()  # what arrived or was finished meanwhile
        await self._links.close()
        await self._client.close()

    async def _give_back(self) -> None:
        """Give back the messages that were not handed out, and acknowledge those that the iteration has finished."""
        finished = {message.lease: message for message in [*self._finished, *self._receives.unanswered]}.values()
        self._finished.clear()
        unread: list[SharedMessage[Any]] = [*self._receives.surplus, *self._ahead]
        self._receives.surplus.clear()
        self._ahead.clear()
        sends = [self._send(some, ACKNOWLEDGE) for some in _of_shards(finished).values()]
        sends += [self._send(some, GIVE_BACK) for some in _of_shards(unread).values()]
        for result in await asyncio.gather(*sends, return_exceptions=True):
            if isinstance(result, LedgerError):
                log.info("messages are handed out again after their leases: %s", result)
            elif isinstance(result, BaseException):
                raise result

    def _cancel_calls(self, stopper: asyncio.Task[Any] | None) -> None:
        for call in self._calls:
            if call is not stopper:
                call.cancel()

    def stop_reading(self) -> None:
        """Hand out no more messages: an iteration ends after the message in hand, and receive() raises ClosedError. The
        program can still acknowledge what it has. See also `ledgermq.stop_on_signal`."""
        self._is_ending = True
        self._receives.end()

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
        acknowledged with the same request.

        An empty list means that a leader has answered. While no leader answers, the call raises the error of the last
        attempt 1 s after `max_wait_ms`, but not before 5 s, so that it outlasts an election. The messages of `ack` may
        be acknowledged all the same. If several shards have messages of `ack`, it can take up to `request_timeout_ms`.
        Raises ClosedError after `stop_reading`, and other LedgerErrors."""
        return await self._receive(max_messages, lease_ms, max_wait_ms, ack, patience_s=_ELECTION_S)

    async def _receive(
        self,
        max_messages: int,
        lease_ms: int | None = None,
        max_wait_ms: int = 20_000,
        ack: SharedMessages = (),
        *,
        patience_s: float | None = None,
    ) -> list[SharedMessage[Received]]:
        """Do what `receive` does, and wait at least `patience_s` for a leader that answers (None: as long as the
        client repeats a request)."""
        lease_ms = self._lease_ms if lease_ms is None else _checked_lease(lease_ms)
        max_messages = checked_whole("max_messages", max_messages, 1, MAX_RECEIVED)
        max_wait_ms = checked_whole("max_wait_ms", max_wait_ms, 0, MAX_WAIT_MS)
        self._check_reading()
        finished = as_list(ack)
        self._keeper.drop(finished)
        if finished and (self._receives.surplus or self._may_receive.locked()):
            await self._send(finished, ACKNOWLEDGE)
            finished = []
        begun_s = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(max_wait_ms / 1000):
                await self._may_receive.acquire()
        except TimeoutError:
            return self._receives.taken(max_messages)
        try:
            self._check_reading()
            if not self._receives.surplus:
                waited_ms = round((asyncio.get_running_loop().time() - begun_s) * 1000)
                wait_ms = max(0, max_wait_ms - waited_ms)
                most_s = (wait_ms + self._client.request_timeout_ms) / 1000 if patience_s is None else patience_s
                await self._receives.fill(max_messages, lease_ms, wait_ms, finished, most_s)
            elif finished:
                await self._send(finished, ACKNOWLEDGE)
            return self._receives.taken(max_messages)
        finally:
            self._may_receive.release()

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
                messages = await self._receive(self._prefetch, ack=finished)
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
        checked_callable("listener", listener, "that is called with each message")
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
                messages = await self._receive(concurrency - len(calls))
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

    def _failed(self, defect: InternalError) -> None:
        self._defect = self._defect or defect

    def _check_reading(self) -> None:
        self._client.check_open()
        if self._defect is not None:
            raise self._defect
        if self._is_ending:
            raise ClosedError("This consumer was told to stop reading: it hands out no more messages.")

    async def _send(self, messages: Sequence[SharedMessage[Any]], kind: int, duration_ms: int = 0) -> int:
        """Send changes that end leases to the shards of the messages. Return how many messages they changed."""
        self._keeper.drop(messages)
        self._receives.settle(messages)
        return sum(each.counted for each in await self._sent(messages, kind, duration_ms))

    async def _sent(self, messages: Sequence[SharedMessage[Any]], kind: int, duration_ms: int) -> list[SentChange]:
        """Send changes of leases to the shards of the messages, and return them with their results."""
        sent = await asyncio.gather(*self._by_shard(messages, kind, duration_ms))
        return list(chain.from_iterable(sent))

    def _by_shard(
        self, messages: Sequence[SharedMessage[Any]], kind: int, duration_ms: int
    ) -> list[Coroutine[Any, Any, list[SentChange]]]:
        """Return what sends the changes to each shard."""
        return [
            self._links.change(shard, [message.lease for message in some], kind, duration_ms)
            for shard, some in _of_shards(messages).items()
        ]

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


def as_list(messages: SharedMessages) -> list[SharedMessage[Any]]:
    """Return one or more messages as a list. A message is itself a tuple. Raises InvalidArgumentError for anything that
    was not received from a shared group."""
    given = [messages] if isinstance(messages, Message) else checked_list("messages", messages, "received messages")
    for message in given:
        if not hasattr(message, "lease"):
            raise InvalidArgumentError(
                f"messages has {shown(message)}, which has no lease: give messages that this consumer received, and no "
                "copies of them."
            )
    return given


def _of_shards(messages: Iterable[SharedMessage[Any]]) -> dict[int, list[SharedMessage[Any]]]:
    found: dict[int, list[SharedMessage[Any]]] = defaultdict(list)
    for message in messages:
        found[message.lease.shard].append(message)
    return found


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
