"""The synchronous clients of requests and replies: Requester and Responder."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from ledger.client.checked_numbers import checked_wait
from ledger.client.connection.lifetime import Lifetime, settings_in
from ledger.client.group.claiming import GroupStart
from ledger.client.producer.arguments import GivenHeaders
from ledger.client.records import Message, TopicQueue
from ledger.client.requests.reply_address import REPLY_TOPIC
from ledger.client.requests.requester import AsyncRequester
from ledger.client.requests.responder import AsyncResponder, Handler
from ledger.client.sync.loop_thread import started, stopped


class Requester(Lifetime):
    """The synchronous form of AsyncRequester, with the same arguments. The constructor connects to the cluster. Several
    threads may wait for replies at the same time."""

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
        self._client = AsyncRequester(**settings_in(locals()))
        self._thread = started(self._client, "ledgermq-requester")

    def request(
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
        """Send a request, wait for its reply, and return the reply, as AsyncRequester.request does."""
        return self._thread.run(
            self._client.request(topic, value, key=key, tag=tag, headers=headers, queue=queue, timeout_ms=timeout_ms)
        )

    @property
    def closed(self) -> bool:
        """True if the client was stopped."""
        return self._client.closed

    def close(self) -> None:
        """Close the client. Threads that wait for replies get ClosedError. The call is idempotent."""
        stopped(self._client.stop(), self._thread)


class Responder(Lifetime):
    """The synchronous form of AsyncResponder, with the same arguments. The constructor joins the group and begins to
    call the handler. A handler that is a coroutine function is called on the client's own thread, and any other
    handler on a pool of threads."""

    _works_alone = True

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
        self._client = AsyncResponder(*topics, **settings_in(locals()))
        self._thread = started(self._client, "ledgermq-responder")

    def wait_assigned(self, timeout_ms: float | None = None) -> list[TopicQueue]:
        """Wait until this member owns at least one queue, and return the queues that it owns. If `timeout_ms`
        milliseconds pass before (None: no limit), return an empty list."""
        return self._thread.run(self._client.wait_assigned(timeout_ms))

    def wait_closed(self) -> None:
        """Wait until no more requests are handled. If the responder stopped by itself, raise the error that made it
        stop."""
        self._thread.run(self._client.wait_closed())

    def stop_reading(self) -> None:
        """Take no more requests, and return at once. Other threads and signal handlers can call it. See also
        `ledgermq.stop_on_signal`."""
        self._thread.soon(self._client.stop_reading)

    @property
    def closed(self) -> bool:
        """True if the responder was stopped, or has stopped by itself."""
        return self._client.closed

    @property
    def member(self) -> str:
        """This member's name in the consumer group."""
        return self._client.member

    def close(self, timeout_s: float = 30.0) -> None:
        """Stop calling the handler, wait up to `timeout_s` seconds for running calls and their replies, and leave the
        group. `timeout_s` does not limit the last acknowledgement, which takes up to `request_timeout_ms` while no
        leader answers. The call is idempotent. The handler must not call close(), because close() waits for the
        handler."""
        stopped(self._client.stop(checked_wait("timeout_s", timeout_s)), self._thread)

    def stop(self, timeout_s: float = 30.0) -> None:
        """Do the same as `close`, under the name that the asyncio clients use."""
        self.close(timeout_s)
