"""Fetches ahead for the cursors of one shard, from one node at a time.

One long-polling request covers all queues of the shard. The next request is sent as soon as there is room, before the
program has read the previous messages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import grpc.aio

from ledger.client.connection.channels import failure
from ledger.client.connection.cluster_client import ClusterClient, no_leader
from ledger.client.consumer.cursor import Cursor
from ledger.errors import (
    InternalError,
    LedgerError,
    NoLeaderError,
    OffsetTooLowError,
    ThrottledError,
    UnknownQueueError,
    UnknownTopicError,
    from_wire,
)
from ledger.v1 import broker_pb2

log = logging.getLogger("ledgermq.client.consumer")

# How much longer than its long poll a fetch may take.
_GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """`node`: whom to ask; None: the shard's leader. `tag_hashes`: what to ask for; empty: everything.
    `skips_dropped`: where messages are kept no longer, the next fetch begins with the first that are."""

    node: int | None
    max_bytes: int
    max_wait_ms: int
    prefetch_bytes: int
    tag_hashes: tuple[int, ...]
    skips_dropped: bool = False


class Fetcher:
    """`on_news` is called after every change that a waiting reader should look at."""

    def __init__(
        self,
        client: ClusterClient,
        shard: int,
        cursors: Sequence[Cursor],
        settings: FetchSettings,
        on_news: Callable[[], None],
    ) -> None:
        # Set while no fetch has succeeded for as long as a request may take; then readers had better know.
        self.trouble: LedgerError | None = None
        self._client = client
        self._shard = shard
        self._cursors = {(cursor.topic_id, cursor.queue): cursor for cursor in cursors}
        self._settings = settings
        self._on_news = on_news
        self._room = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task = self._started()

    def add(self, cursors: Iterable[Cursor]) -> None:
        self._cursors.update(((cursor.topic_id, cursor.queue), cursor) for cursor in cursors)
        self.restart()

    def remove(self, cursor: Cursor) -> None:
        """It may be none of these."""
        if self._cursors.get((cursor.topic_id, cursor.queue)) is cursor:
            del self._cursors[cursor.topic_id, cursor.queue]
            self.restart()

    def restart(self) -> None:
        """A cursor has moved: what is under way is of no use any more."""
        self._task.cancel()
        self._task = self._started()

    def made_room(self) -> None:
        """Messages have been taken."""
        self._room.set()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _started(self) -> asyncio.Task[None]:
        task = self._loop.create_task(self._run())
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A fault in here must reach the reader, who would wait for ever."""
        fault = None if task.cancelled() else task.exception()
        if fault is not None:
            self.trouble = InternalError(f"Reading ahead failed in this client: {fault!r}.")
            self.trouble.__cause__ = fault
            self._on_news()

    async def _run(self) -> None:
        """Until every cursor has an error, or is paused; a seek starts it anew."""
        failures, last_success = 0, self._loop.time()
        while cursors := self._in_turn():
            await self._wait_for_room()
            error = await self._fetch(cursors)
            if error is None:
                failures, last_success, self.trouble = 0, self._loop.time(), None
                continue
            if isinstance(error, ThrottledError):  # no trouble: there is only more to wait for
                last_success = self._loop.time()
                await asyncio.sleep((error.throttle_ms or 0) / 1000)
                continue
            failures += 1
            if (self._loop.time() - last_success) * 1000 >= self._client.request_timeout_ms:
                self.trouble = error
                self._on_news()
            await asyncio.sleep(self._client.backoff.wait_ms(failures) / 1000)

    def _in_turn(self) -> list[Cursor]:
        """The cursors to fetch for, beginning with another one each time: the first ones may get all the bytes."""
        for first in list(self._cursors)[:1]:
            self._cursors[first] = self._cursors.pop(first)
        return [cursor for cursor in self._cursors.values() if cursor.error is None and not cursor.paused]

    async def _wait_for_room(self) -> None:
        while sum(cursor.buffered_bytes for cursor in self._cursors.values()) >= self._settings.prefetch_bytes:
            self._room.clear()
            await self._room.wait()

    async def _fetch(self, cursors: Sequence[Cursor]) -> LedgerError | None:
        """Fetch once. The error, if trying again may help; others are left with their cursors."""
        try:
            address = self._address()
        except NoLeaderError as error:
            self._client.routes.refresh_soon()
            return error
        try:
            response = await self._client.connections.stub(address).Fetch(
                self._request(cursors), timeout=self._settings.max_wait_ms / 1000 + _GRACE_SECONDS
            )
        except grpc.aio.AioRpcError as error:
            return self._noted(address, failure(address, error))
        if asyncio.current_task() is not self._task:  # gRPC swallows a cancellation that comes with the answer
            raise asyncio.CancelledError
        self._client.routes.heard_of(response.configuration_index)
        error_of_any = None
        for queue in response.queues:
            error_of_any = self._take(address, queue) or error_of_any
        # Readers hear of it one turn later, when the next fetch is sent: they keep the loop busy for a while.
        self._loop.call_soon(self._on_news)
        return error_of_any

    def _address(self) -> str:
        if self._settings.node is not None:
            return self._client.node_address(self._settings.node)
        address = self._client.routes.table.leader_address(self._shard)
        if address is None:
            raise no_leader(self._shard)
        return address

    def _request(self, cursors: Sequence[Cursor]) -> broker_pb2.FetchRequest:
        return broker_pb2.FetchRequest(
            queues=[
                broker_pb2.QueueFetch(
                    topic_id=cursor.topic_id,
                    queue=cursor.queue,
                    offset=cursor.fetch_offset,
                    tag_hashes=self._settings.tag_hashes,
                )
                for cursor in cursors
            ],
            max_wait_ms=self._settings.max_wait_ms,
            max_bytes=self._settings.max_bytes,
        )

    def _take(self, address: str, queue: broker_pb2.FetchedQueue) -> LedgerError | None:
        cursor = self._cursors[queue.topic_id, queue.queue]
        if cursor.error is not None:
            return None  # it has met a damaged batch meanwhile: this would leave a hole
        if queue.HasField("error"):
            error = from_wire(queue.error)
            # Whoever has the cursor takes it away where its topic was deleted; a queue that a replica does not know yet
            # is there, or there would be no cursor.
            if error.retriable or isinstance(error, (UnknownTopicError, UnknownQueueError)):
                return self._noted(address, error)
            if not self._skipped(cursor, error):
                cursor.error = error
            return None
        for batch in queue.batches:
            cursor.fetched(batch.base_offset, batch.term, batch.body, batch.append_time_ms)
        cursor.passed(max(queue.next_offset, cursor.fetch_offset))
        return None

    def _skipped(self, cursor: Cursor, error: LedgerError) -> bool:
        """Whether this is about messages that are kept no longer, and they may be passed over."""
        if not self._settings.skips_dropped or not isinstance(error, OffsetTooLowError) or error.first_offset is None:
            return False
        log.warning("%d messages are passed over: %s", error.first_offset - cursor.fetch_offset, error)
        cursor.skip_to(error.first_offset)
        return True

    def _noted(self, address: str, error: LedgerError) -> LedgerError:
        if self._settings.node is None:
            self._client.routes.note(self._shard, address, error)
        elif isinstance(error, UnknownTopicError):
            self._client.routes.refresh_soon()
        return error
