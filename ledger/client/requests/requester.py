"""The asyncio requester: it sends requests to a topic, and waits for their replies in one queue of the reply topic.

A task reads the replies and gives each to the call with its correlation id. The calls that wait are the only state: a
reply to a call that has ended is dropped.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from pathlib import Path

from ledger.client.background import spawn
from ledger.client.checked_arguments import checked_rng
from ledger.client.checked_numbers import checked_number, checked_whole
from ledger.client.connection.backoff import Backoff
from ledger.client.connection.lifetime import AsyncLifetime, settings_in, within
from ledger.client.connection.own_process import check_loop
from ledger.client.consumer.consumer import AsyncConsumer
from ledger.client.producer.arguments import GivenHeaders, checked_headers
from ledger.client.producer.producer import AsyncProducer
from ledger.client.producer.producer_batch import because
from ledger.client.records import Message
from ledger.client.requests.reply_address import (
    REPLY_TOPIC,
    RESERVED_HEADERS,
    ReplyAddress,
    correlation_of,
    error_of,
)
from ledger.errors import (
    BusyError,
    ClosedError,
    InternalError,
    InvalidArgumentError,
    LedgerError,
    RequestTimeoutError,
    ResponderFailedError,
    UnknownTopicError,
)
from ledger.topics import validate_topic_name

log = logging.getLogger("ledgermq.client.requester")

MAX_IN_FLIGHT = 100_000
_MAX_TIMEOUT_MS = 86_400_000
_AGAIN_MS, _MOST_AGAIN_MS = 100, 5_000


class AsyncRequester(AsyncLifetime):
    """An asyncio client that sends requests to topics and receives their replies. A `Responder` answers them.

    bootstrap_servers   "host:port,host:port" or a list of addresses; one reachable address is enough
    reply_topic         the topic of the replies, which must exist (default "replies"). The requester reads one of
                        its queues, and gets only its own replies
    max_in_flight       how many requests may wait for replies at the same time, 1 to 100,000 (default 1,000)
    client_id           the name that this client shows to nodes; None: chosen by the client
    request_timeout_ms  how long a node may take to answer a call of this client (default 30,000)
    retry_backoff_ms    the wait after the first failure (default 20); it doubles with each failure
    rng                 randomness for the choice of the queue and for back-offs (default: a new random.Random())

    The security settings `tls`, `ca`, `client_certificate`, `client_key`, `user`, `password`, `password_file`, `token`
    and `profile` are those of every client (docs/GUIDE.md, Connecting).
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        reply_topic: str = REPLY_TOPIC,
        max_in_flight: int = 1_000,
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
        self._settings = settings_in(locals(), without=("reply_topic", "max_in_flight"))
        validate_topic_name(reply_topic)
        self._reply_topic = reply_topic
        self._max_in_flight = checked_whole("max_in_flight", max_in_flight, 1, MAX_IN_FLIGHT)
        self._rng = checked_rng(rng)
        self._producer = self._new_producer()
        # The calls that wait, by correlation id.
        self._waiting: dict[bytes, asyncio.Future[Message]] = {}
        self._requests = 0
        # Why replies cannot be read now.
        self._trouble: LedgerError | None = None
        # The task that reads replies has failed. All calls raise this error.
        self._defect: InternalError | None = None
        self._reading: asyncio.Task[None] | None = None
        # Closes everything. The first call of stop() makes it; the others wait for it.
        self._ending: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect to the cluster, and find the end of the queue of the replies. Raises UnknownTopicError if the reply
        topic does not exist, or UnavailableError."""
        await self._producer.start()
        try:
            self._tag = f"{self._environment.new_producer_id():016x}"
            self._queue = self._rng.randrange(await self._queues())
            consumer = within(self._environment, AsyncConsumer)
            self._consumer: AsyncConsumer = consumer(
                self._reply_topic,
                start="latest",
                queues=[self._queue],
                tags=[self._tag],
                on_dropped="skip",
                **self._settings,
            )
            await self._consumer.start()
        except BaseException:
            await self._producer.stop()
            self._producer = self._new_producer()  # for another start
            raise
        self._reading = spawn(self._read(), "replies of a requester", self._failed)

    def _new_producer(self) -> AsyncProducer:
        return within(self._environment, AsyncProducer)(**self._settings)

    def _failed(self, defect: InternalError) -> None:
        """Let all calls raise the defect: replies are not read any more."""
        self._defect = defect
        self._fail_waiting(defect)

    def _fail_waiting(self, error: LedgerError) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)

    async def stop(self) -> None:
        """Close the client. Calls that wait for replies raise ClosedError."""
        if self._reading is None:
            return
        check_loop(self._reading.get_loop())
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(self._reading), name="end of a requester")
        await asyncio.shield(self._ending)  # a caller that gives up does not leave half of it open

    async def _end(self, reading: asyncio.Task[None]) -> None:
        reading.cancel()
        self._fail_waiting(ClosedError("The requester was closed before the reply arrived."))
        await asyncio.gather(reading, return_exceptions=True)
        await self._consumer.stop()
        await self._producer.stop()

    async def request(
        self,
        topic: str,
        value: bytes | bytearray | memoryview,
        *,
        key: bytes | str | None = None,
        tag: str | None = None,
        headers: GivenHeaders = None,
        queue: int | None = None,
        timeout_ms: float = 10_000,
    ) -> Message:
        """Send a request, wait for its reply, and return the reply. `key`, `tag`, `headers` and `queue` are those of
        `Producer.send`.

        Raises RequestTimeoutError if no reply arrives within `timeout_ms` milliseconds. The request may be answered
        nevertheless: a program that sends it again must expect that the responder handles it twice. Raises
        ResponderFailedError if the handler of the responder failed, BusyError if `max_in_flight` requests wait, and the
        errors of `Producer.send`.
        """
        timeout_ms = checked_number("timeout_ms", timeout_ms, 1, _MAX_TIMEOUT_MS)
        given = tuple(checked_headers(headers) or ())
        if reserved := [name for name, _ in given if name in RESERVED_HEADERS]:
            raise InvalidArgumentError(f'The requester gives the header "{reserved[0]}" itself: use another name.')
        if self._reading is None or self._ending is not None:
            raise ClosedError("This client is not started, or closed: use it in a `with` block.")
        if self._defect is not None:
            raise self._defect
        if len(self._waiting) >= self._max_in_flight:
            raise BusyError(
                f"{len(self._waiting):,} requests wait for replies, and the limit is max_in_flight: send again when "
                "some have ended."
            )
        self._requests += 1
        address = ReplyAddress(self._reply_topic, self._queue, self._tag, f"{self._tag}-{self._requests}".encode())
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[address.correlation_id] = reply
        try:
            async with asyncio.timeout(timeout_ms / 1000) as limit:
                await self._producer.send(
                    topic, value, key=key, tag=tag, headers=[*given, *address.headers()], queue=queue
                )
                return _result(await reply, topic)
        except TimeoutError as error:
            if not limit.expired() or isinstance(error, LedgerError):
                raise
            raise RequestTimeoutError(
                f'No reply to a request to topic "{topic}" arrived within {timeout_ms:g} ms{because(self._trouble)}. '
                "The request may be answered later. Check that a responder runs."
            ) from self._trouble
        finally:
            del self._waiting[address.correlation_id]
            reply.cancel()

    @property
    def closed(self) -> bool:
        """True if the client was stopped."""
        return self._ending is not None

    async def _queues(self) -> int:
        """Return the number of queues of the reply topic."""
        try:
            return len((await self._producer._client.topic(self._reply_topic)).shards)
        except UnknownTopicError as error:
            raise UnknownTopicError(
                f'There is no topic "{self._reply_topic}" for replies: create it (`ledgermq topic create '
                f"{self._reply_topic}`), or name another with `reply_topic`."
            ) from error

    async def _read(self) -> None:
        backoff, failures = Backoff(_AGAIN_MS, _MOST_AGAIN_MS, self._rng), 0
        while True:
            try:
                for message in await self._consumer.getmany():
                    waiting = self._waiting.get(correlation_of(message))
                    if waiting is not None and not waiting.done():  # a second reply is dropped
                        waiting.set_result(message)
                self._trouble, failures = None, 0
            except ClosedError:
                return
            except LedgerError as error:
                self._trouble, failures = error, failures + 1
                log.warning("the requester cannot read replies, trying again: %s", error)
                await asyncio.sleep(backoff.wait_ms(failures) / 1000)


def _result(reply: Message, topic: str) -> Message:
    error = error_of(reply)
    if error:
        raise ResponderFailedError(f'The responder of topic "{topic}" failed: {error}')
    return reply
