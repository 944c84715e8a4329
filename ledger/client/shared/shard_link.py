"""The connection of a member of a shared group to one shard: it finds the leader, opens a stream, and repeats
requests at the next leader."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

from ledger.client.connection.answer_watch import AnswerWatch
from ledger.client.connection.cluster_client import ClusterClient, no_leader
from ledger.client.shared.lease_ends import received_end_s
from ledger.client.shared.share_stream import OPENING_S, ShareStream
from ledger.errors import (
    ClosedError,
    ConsumerFencedError,
    InternalError,
    LedgerError,
    PermissionDeniedError,
    RequestTimeoutError,
)
from ledger.v1 import consumer_group_pb2

# A leader that does not answer a request for this time is not the leader any more, or is suspended.
ANSWER_S = 10.0

# An attempt that begins shortly before the deadline of its request has this time.
_LAST_S = 0.05

Result = TypeVar("Result")


class ReceivedBatches(NamedTuple):
    """What a receive got. The leases last at least until `ends_s`, by the clock of the event loop in seconds."""

    batches: Sequence[consumer_group_pb2.SharedBatch] = ()
    ends_s: float = 0.0


class Ask:
    """One receive that is under way. `cancel` makes it return soon."""

    def __init__(self) -> None:
        self.is_cancelled = False
        # True: the changes that ride on the request are answered, or there are none.
        self.is_settled = False
        self.stream: ShareStream | None = None
        self.number = 0
        self.is_answered = False
        # Why the last attempt failed before the receive was cancelled. None: no attempt has failed.
        self.error: LedgerError | None = None

    def cancel(self) -> None:
        self.is_cancelled = True
        if self.stream is not None:
            self.stream.cancel(self.number)


class ShardLink:
    """The member's link to the leader of one shard."""

    def __init__(
        self,
        client: ClusterClient,
        shard: int,
        opening: Callable[[int], consumer_group_pb2.ShareOpening],
        on_refused: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`opening(shard)` returns the first request of a stream. `on_refused` is called if the leader says that the
        member has no right; it calls `opening_changed` if the opening named a topic that was deleted."""
        self.shard = shard
        self._client = client
        self._opening = opening
        self._on_refused = on_refused
        self._stream: ShareStream | None = None
        # How often the opening has changed, and how often it had when the stream was opened.
        self._changes = self._changes_opened = 0
        # Only one task opens the stream.
        self._lock = asyncio.Lock()

    def opening_changed(self) -> None:
        """Let the next request open another stream, because `opening` returns another opening from now on. Requests
        without an answer are repeated on that stream."""
        self._changes += 1

    async def open(self) -> None:
        """Open the stream, and repeat it until the client's request timeout. Raises LedgerError."""
        await self._repeated(self._opened, self._client.request_timeout_ms / 1000)

    async def change(self, changes: Sequence[consumer_group_pb2.WantedChange]) -> list[int]:
        """Send changes, and return how many messages each of them changed. If the leader fails before it answers, the
        change is sent again, and the new leader may report 0 although the first attempt counted. Raises LedgerError."""
        return list((await self.changed(changes)).changed)

    async def changed(self, changes: Sequence[consumer_group_pb2.WantedChange]) -> consumer_group_pb2.ShareResponse:
        """Send changes, and return the answer of the leader. `changed` counts what this request changed, and `settled`
        also what was acknowledged before. Raises LedgerError."""

        async def attempt(deadline: float) -> consumer_group_pb2.ShareResponse:
            stream = await self._opened(deadline)
            _, changed, _ = stream.send(changes, None)
            assert changed is not None, "the request has changes"
            answer = await self._answer(stream, changed, 0.0, deadline)
            if len(answer.changed) != len(changes):
                raise InternalError(
                    f"Node {stream.address} answered {len(answer.changed)} of {len(changes)} changes of leases: this "
                    "is a fault of the node."
                )
            return answer

        return await self._repeated(attempt, self._client.request_timeout_ms / 1000)

    async def receive(
        self, ask: Ask, wanted: consumer_group_pb2.Receive, changes: Sequence[consumer_group_pb2.WantedChange] = ()
    ) -> ReceivedBatches:
        """Wait for messages. `changes` ride on the request, and `ask.is_settled` says whether they are answered. If the
        receive is cancelled and has no answer, return no messages. Raises LedgerError."""
        attempts = 0
        ask.is_settled = not changes
        loop = asyncio.get_running_loop()

        async def attempt(deadline: float) -> ReceivedBatches:
            nonlocal attempts
            stream = await self._opened(deadline)
            if ask.is_cancelled and not attempts and not changes:
                return ReceivedBatches()
            again = consumer_group_pb2.Receive()
            again.CopyFrom(wanted)
            again.repeated_attempt = wanted.repeated_attempt or attempts > 0
            attempts += 1
            ask.stream = stream
            asked_s = loop.time()
            ask.number, changed, received = stream.send(changes, again)
            assert received is not None, "the request has a receive"
            if ask.is_cancelled:
                stream.cancel(ask.number)
            if changed is not None:
                await self._answer(stream, changed, 0.0, deadline)
                ask.is_settled = True
            answer = await self._answer(stream, received, wanted.max_wait_ms / 1000, deadline)
            ask.is_answered = True
            return ReceivedBatches(answer.batches, received_end_s(answer, wanted.lease_ms, asked_s, loop.time()))

        try:
            return await self._repeated(attempt, (wanted.max_wait_ms + self._client.request_timeout_ms) / 1000, ask)
        except LedgerError:
            if ask.is_cancelled:  # nobody waits for messages any more
                return ReceivedBatches()
            raise

    async def close(self) -> None:
        if self._stream is not None:
            await self._stream.close()

    def _watch(self, stream: ShareStream, expected_s: float = 0.0) -> AnswerWatch:
        """End the stream if it does not answer and another node leads, until the watch is cancelled."""

        def moved() -> None:
            stream.breaks(RequestTimeoutError(f"Node {stream.address} does not answer, and another node leads now."))

        return AnswerWatch(self._client.routes, self.shard, stream.address, moved, expected_s)

    async def _answer(
        self,
        stream: ShareStream,
        future: asyncio.Future[consumer_group_pb2.ShareResponse],
        wait_s: float,
        deadline: float,
    ) -> consumer_group_pb2.ShareResponse:
        """Return an answer that the leader may hold back for `wait_s`. If there is none in time, or at the deadline of
        the request, or if another node leads meanwhile, end the stream. Raises LedgerError."""
        watch, most_s = self._watch(stream, wait_s), _within(wait_s + ANSWER_S, deadline)
        try:
            async with asyncio.timeout(most_s):
                return await future
        except TimeoutError:
            error = RequestTimeoutError(f"Node {stream.address} did not answer within {most_s:.3g} s.")
            stream.breaks(error)
            raise error from None
        finally:
            watch.cancel()

    async def _repeated(
        self, attempt: Callable[[float], Awaitable[Result]], most_s: float, ask: Ask | None = None
    ) -> Result:
        """Call `attempt(deadline)` until it succeeds, fails in a way that another attempt cannot help, `most_s` has
        passed, or `ask` is cancelled."""
        loop = asyncio.get_running_loop()
        deadline, failures = loop.time() + most_s, 0
        while True:
            self._client.check_open()
            changes = self._changes
            try:
                return await attempt(deadline)
            except PermissionDeniedError as error:
                if self._on_refused is not None:
                    await self._on_refused()
                if self._changes == changes:
                    raise self._client.routes.table.with_names(error) from None
                continue
            except LedgerError as error:
                failures += 1
                if ask is not None and not ask.is_cancelled:
                    ask.error = self._client.routes.table.with_names(error)
                wait_s = self._client.backoff.wait_ms(failures) / 1000
                is_over = loop.time() + wait_s >= deadline or (ask is not None and ask.is_cancelled)
                if not error.retriable or is_over:
                    raise self._client.routes.table.with_names(error) from None
            await asyncio.sleep(wait_s)

    async def _opened(self, deadline: float) -> ShareStream:
        """Return an open stream to the shard's leader. Raises LedgerError."""
        async with self._lock:
            routes = self._client.routes
            address = routes.table.leader_address(self.shard)
            stream = self._stream
            if stream is not None and isinstance(stream.error, ConsumerFencedError):
                raise stream.error  # a later stream of this member has taken its place
            if stream is not None and stream.error is not None:
                routes.note(self.shard, stream.address, stream.error)
                self._stream, stream = None, None
                address = routes.table.leader_address(self.shard)
            if stream is not None and self._changes_opened != self._changes:
                self._stream = None
                await stream.close()
                stream = None
            if stream is not None:
                return stream
            if address is None:
                routes.refresh_soon()
                raise no_leader(self.shard)
            self._changes_opened = self._changes
            stream = ShareStream(address, self._client.connections.stub(address), self._opening(self.shard))
            watch, most_s = self._watch(stream), _within(OPENING_S, deadline)
            try:
                async with asyncio.timeout(most_s):
                    await asyncio.shield(stream.opened)
            except LedgerError as error:
                routes.note(self.shard, address, error)
                raise
            except TimeoutError:
                late = RequestTimeoutError(f"Node {address} did not open a stream within {most_s:.3g} s.")
                await stream.close()
                routes.note(self.shard, address, late)
                raise late from None
            except asyncio.CancelledError:
                stream.breaks(ClosedError(f"Nothing waits for the stream to node {address} any more."))
                raise
            finally:
                watch.cancel()
            self._stream = stream
            return stream


def _within(most_s: float, deadline: float) -> float:
    """Return how long a step may take whose request ends at `deadline`, by the clock of the event loop."""
    return min(most_s, max(_LAST_S, deadline - asyncio.get_running_loop().time()))
