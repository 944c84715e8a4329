"""The asyncio responder: a push consumer whose listener calls a handler with each request, and sends the result to the
requester.

A request is handled at least once. A failure of the handler is told to the requester, and the request is finished. If
the responder dies before it has finished a request, another member of its group handles the request again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ledger.client.checked_arguments import checked_callable, checked_list
from ledger.client.checked_numbers import checked_number, checked_wait
from ledger.client.connection.lifetime import AsyncLifetime, settings_in, within
from ledger.client.group.claiming import GroupStart
from ledger.client.group.push_consumer import AsyncPushConsumer, is_async
from ledger.client.producer.producer import AsyncProducer
from ledger.client.records import Message, TopicQueue
from ledger.client.requests.reply_address import REPLY_TOPIC, ReplyAddress, reply_address
from ledger.errors import LedgerError
from ledger.topics import validate_topic_name

log = logging.getLogger("ledgermq.client.responder")

# A function or a coroutine function that returns the reply to a request. Plain functions are called in threads. None is
# an empty reply.
Handler = Callable[[Message], bytes | None] | Callable[[Message], Awaitable[bytes | None]]
_OWN_SETTINGS = ("handler", "reply_topics", "handler_timeout_ms")
_OF_THE_GROUP = ("group", "concurrency", "start", "tags", "session_timeout_ms")


class AsyncResponder(AsyncLifetime):
    """An asyncio client that answers the requests in topics. Responders of one `group` share the requests.

        handler             a function or coroutine function, called with one Message. It returns the reply as bytes,
                            and None for an empty reply. If it raises an exception, the requester gets a
                            ResponderFailedError with the text of the exception. Plain functions run in threads. Other
                            messages of the topics, which have no reply address, are handled too, and get no reply
        reply_topics        the topics to which replies may be sent (default: "replies"). A request that names another
                            topic gets no reply, and a line in the log
        handler_timeout_ms  how long the handler may take for one request (default 30,000); after that the requester
                            gets a ResponderFailedError. A coroutine is cancelled. A plain function keeps its thread
        concurrency         how many requests may be with the handler at the same time, 1 to 10,000 (default 20)
        start               where a new group begins: "earliest" (default), "latest", or a datetime
        tags                answer only requests with one of these tags; None (default): all
    All other settings are those of AsyncPushConsumer.
    """

    def __init__(
        self,
        *topics: str | Iterable[str],
        group: str,
        handler: Handler,
        bootstrap_servers: str | Sequence[str] | None = None,
        reply_topics: str | Collection[str] = (REPLY_TOPIC,),
        handler_timeout_ms: float = 30_000,
        concurrency: int = 20,
        start: GroupStart = "earliest",
        tags: str | Iterable[str] | None = None,
        session_timeout_ms: int = 10_000,
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
        names = [reply_topics] if isinstance(reply_topics, str) else checked_list("reply_topics", reply_topics, "names")
        for name in names:
            validate_topic_name(name)
        self._reply_topics = frozenset(names)
        self._handler = checked_callable("handler", handler, "that is called with each request")
        self._timeout_s = checked_number("handler_timeout_ms", handler_timeout_ms, 1) / 1000
        consumer = within(self._environment, AsyncPushConsumer)
        self._consumer: AsyncPushConsumer = consumer(*topics, listener=self._answer, **settings)
        self._of_the_producer = {name: value for name, value in settings.items() if name not in _OF_THE_GROUP}
        self._producer = self._new_producer()
        self._threads = None if is_async(handler) else ThreadPoolExecutor(concurrency, "ledgermq-handler")

    async def start(self) -> None:
        """Connect, join the group and begin to call the handler. Raises the same errors as AsyncPushConsumer.start."""
        await self._producer.start()
        try:
            await self._consumer.start()
        except BaseException:
            await self._producer.stop()
            self._producer = self._new_producer()  # for another start
            raise

    def _new_producer(self) -> AsyncProducer:
        return within(self._environment, AsyncProducer)(**self._of_the_producer)

    async def stop(self, timeout_s: float = 30.0) -> None:
        """Stop calling the handler, wait up to `timeout_s` seconds for running calls and their replies, and leave the
        group. `timeout_s` does not limit the last acknowledgement, which takes up to `request_timeout_ms` while no
        leader answers."""
        timeout_s = checked_wait("timeout_s", timeout_s)
        try:
            await self._consumer.stop(timeout_s)
        finally:
            if self._threads is not None:
                self._threads.shutdown(wait=False, cancel_futures=True)
            await self._producer.stop()

    async def close(self, timeout_s: float = 30.0) -> None:
        """Do the same as `stop`, under the name that other libraries use."""
        await self.stop(timeout_s)

    async def aclose(self, timeout_s: float = 30.0) -> None:
        """Do the same as `stop`, under the name that `contextlib.aclosing` uses."""
        await self.stop(timeout_s)

    def stop_reading(self) -> None:
        """Take no more requests, and return at once. `wait_closed` returns when running calls have ended. See also
        `ledgermq.stop_on_signal`."""
        self._consumer.stop_reading()

    async def wait_closed(self) -> None:
        """Wait until no more requests are handled. If the responder stopped by itself, raise the error that made it
        stop."""
        await self._consumer.wait_closed()

    async def wait_assigned(self, timeout_ms: float | None = None) -> list[TopicQueue]:
        """Wait until this member owns at least one queue, and return the queues that it owns. If `timeout_ms`
        milliseconds pass before (None: no limit), return an empty list."""
        return await self._consumer.wait_assigned(timeout_ms)

    @property
    def closed(self) -> bool:
        """True if the responder was stopped, or has stopped by itself."""
        return self._consumer.closed

    @property
    def member(self) -> str:
        """This member's name in the consumer group."""
        return self._consumer.member

    async def _answer(self, request: Message) -> None:
        """Handle one request and send its reply. The request is finished in any case."""
        value, error = await self._handled(request)
        address = reply_address(request)
        if address is None:
            return
        if address.topic not in self._reply_topics:
            log.warning(
                "request %s gets no reply: it names the topic %s, which is not among the responder's reply topics",
                request.id,
                address.topic,
            )
            return
        try:
            await self._reply(address, value, error)
        except LedgerError as failure:
            log.warning("the reply to request %s cannot be sent: %s", request.id, failure)

    async def _reply(self, address: ReplyAddress, value: bytes | None, error: str) -> None:
        """Send the reply. If the value cannot be sent, for example because it is too large, send the reason."""
        try:
            await self._send(address, value or b"", error)
        except LedgerError as refusal:
            if error or refusal.retriable:
                raise
            await self._send(address, b"", f"the reply cannot be sent: {refusal}")

    async def _send(self, address: ReplyAddress, value: bytes, error: str) -> None:
        headers = address.reply_headers(error)
        await self._producer.send(address.topic, value, tag=address.tag, queue=address.queue, headers=headers)

    async def _handled(self, request: Message) -> tuple[bytes | None, str]:
        """Return what the handler returned, or a text that says why it failed."""
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                return await self._call(request), ""
        except Exception as error:
            if limit.expired() and isinstance(error, TimeoutError):
                log.warning("the handler took longer than %g s for request %s", self._timeout_s, request.id)
                return None, f"the handler took longer than {self._timeout_s:g} s"
            log.exception("the handler failed for request %s", request.id)
            return None, f"{type(error).__name__}: {error}"

    async def _call(self, request: Message) -> bytes | None:
        if self._threads is None:
            return await self._handler(request)  # type: ignore[misc, no-any-return]  # a coroutine function
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._handler, request)  # type: ignore[arg-type]
