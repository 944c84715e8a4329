"""The synchronous client of shared groups: SharedConsumer."""

from __future__ import annotations

import contextlib
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Generic, Literal

from ledger.client.checked_numbers import checked_wait
from ledger.client.connection.lifetime import Lifetime, settings_in
from ledger.client.records import Received
from ledger.client.shared.shared_consumer import AsyncSharedConsumer, SharedListener, SharedMessages, SharedStart
from ledger.client.shared.shared_message import SharedMessage
from ledger.client.sync.loop_thread import CLEAN_UP_S, started, stopped
from ledger.client.tracing import TracerSource
from ledger.errors import ClosedError
from ledger.shared import DEFAULT_LEASE_MS


class SharedConsumer(Lifetime, Generic[Received]):
    """The synchronous form of AsyncSharedConsumer, with the same arguments. The constructor joins the shared group.

    Leases of an iteration are extended by the client's own thread, also while the program works."""

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
        self._client: AsyncSharedConsumer[Received] = AsyncSharedConsumer(*topics, **settings_in(locals()))
        # The message of an iteration that was interrupted, for example by Ctrl-C, when the other thread had got it.
        self._ahead: deque[SharedMessage[Received]] = deque()
        self._thread = started(self._client, "ledgermq-shared-consumer")

    def receive(
        self,
        max_messages: int = 32,
        *,
        lease_ms: int | None = None,
        max_wait_ms: int = 20_000,
        ack: SharedMessages = (),
    ) -> list[SharedMessage[Received]]:
        """Lease up to `max_messages` messages, and return them, as AsyncSharedConsumer.receive does. While no leader
        answers, the call raises an error 1 s after `max_wait_ms`, but not before 5 s."""
        return self._thread.run(self._client.receive(max_messages, lease_ms=lease_ms, max_wait_ms=max_wait_ms, ack=ack))

    def ack(self, messages: SharedMessages) -> int:
        """Acknowledge one or more messages, and return when this is committed. Return how many of them counted."""
        return self._thread.run(self._client.ack(messages))

    def nack(self, messages: SharedMessages, *, delay_ms: int = 0) -> int:
        """Let one or more messages be handed out again, after `delay_ms`. Return how many of them counted."""
        return self._thread.run(self._client.nack(messages, delay_ms=delay_ms))

    def extend(self, messages: SharedMessages, *, lease_ms: int | None = None) -> int:
        """Let the leases of one or more messages end `lease_ms` from now on. Return how many of them counted."""
        return self._thread.run(self._client.extend(messages, lease_ms=lease_ms))

    def __iter__(self) -> Iterator[SharedMessage[Received]]:
        return self

    def __next__(self) -> SharedMessage[Received]:
        """Return the next message, and acknowledge the one before it, as AsyncSharedConsumer's iteration does."""
        try:
            self._thread.run(self._read_ahead(), clean_up_s=CLEAN_UP_S)
        except ClosedError:
            if self._thread.is_copy:
                raise  # the process was forked, so the client's thread does not exist here
            raise StopIteration from None
        if not self._ahead:
            raise StopIteration
        message = self._ahead[0]
        del self._ahead[0]  # no call follows, so no signal handler runs before the message is returned
        return message

    def consume(
        self,
        listener: SharedListener[Received],
        *,
        concurrency: int = 1,
        retry_delay_ms: int = 10_000,
    ) -> None:
        """Call `listener` for each message, as AsyncSharedConsumer.consume does. A listener that is a coroutine
        function is called on the client's own thread, and any other listener on other threads."""
        self._thread.run(self._client.consume(listener, concurrency=concurrency, retry_delay_ms=retry_delay_ms))

    @property
    def closed(self) -> bool:
        """True if the consumer was stopped."""
        return self._client.closed

    @property
    def member(self) -> str:
        """This member's name in the group."""
        return self._client.member

    def stop_reading(self) -> None:
        """Hand out no more messages: an iteration ends after the message in hand, and receive() raises ClosedError.
        Other threads and signal handlers can call it. See also `ledgermq.stop_on_signal`."""
        self._thread.soon(self._client.stop_reading)

    def close(self, timeout_s: float = 30.0) -> None:
        """Stop the consumer, as AsyncSharedConsumer.stop does: wait up to `timeout_s` seconds for running calls of
        `consume`. The call is idempotent. A listener must not call close(), because close() waits for it: it can call
        `stop_reading`. `timeout_s` does not limit the last acknowledgement, which takes up to `request_timeout_ms`
        while no leader answers."""
        stopped(self._client.stop(checked_wait("timeout_s", timeout_s)), self._thread)

    def stop(self, timeout_s: float = 30.0) -> None:
        """Do the same as `close`, under the name that the asyncio clients use."""
        self.close(timeout_s)

    async def _read_ahead(self) -> None:
        if not self._ahead:
            with contextlib.suppress(StopAsyncIteration):
                self._ahead.append(await anext(self._client))
