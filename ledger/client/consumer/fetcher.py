"""Fetches messages for the cursors of one shard before the program asks for them, from one node at a time.

One long-polling request fetches from all queues of the shard that have a cursor. The fetcher sends the next request as
soon as its cursors have room, even if the program has not read all earlier messages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import grpc.aio

from ledger.client.background import spawn
from ledger.client.connection.channels import failure
from ledger.client.connection.cluster_client import ClusterClient, no_leader
from ledger.client.consumer.cursor import Cursor
from ledger.errors import (
    AuthenticationError,
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

# A fetcher pauses while its cursors have as many bytes as this number of fetches that were not handed out.
_FETCHES_AHEAD = 2
# The answer to a fetch may come this much later than `max_wait_ms`.
_GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The settings of all fetches of one consumer.

    Fields:

        node            the node to fetch from; None: the shard's leader
        max_bytes       the size of one fetch. If many fetchers run in the process, fetches are smaller: see FetchShares
        max_wait_ms     how long a fetch waits for new messages
        tag_hashes      fetch only messages whose tags have these hashes; empty: all messages
        skips_dropped   if the next messages are no longer kept, continue with the first message that is
    """

    node: int | None
    max_bytes: int
    max_wait_ms: int
    tag_hashes: tuple[int, ...]
    skips_dropped: bool = False


class Fetcher:
    """A task that fetches messages for the cursors of one shard.

    The fetcher calls `on_news` when a reader that waits must wake up: messages have arrived, or an error has occurred.
    """

    def __init__(
        self,
        client: ClusterClient,
        shard: int,
        cursors: Sequence[Cursor],
        settings: FetchSettings,
        on_news: Callable[[], None],
    ) -> None:
        # The last error, set if no fetch has succeeded for `request_timeout_ms`. Readers then raise it.
        self.trouble: LedgerError | None = None
        self._client = client
        self._shard = shard
        self._cursors = {(cursor.topic_id, cursor.queue): cursor for cursor in cursors}
        self._settings = settings
        self._on_news = on_news
        self._room = asyncio.Event()
        self._shares = client.environment.fetch_shares
        self._shares.join(self)
        self._loop = asyncio.get_running_loop()
        self._task = self._started()

    def add(self, cursors: Iterable[Cursor]) -> None:
        self._cursors.update(((cursor.topic_id, cursor.queue), cursor) for cursor in cursors)
        self.restart()

    def remove(self, cursor: Cursor) -> None:
        """Remove this cursor, so that its queue is no longer fetched. Do nothing if the fetcher does not have the
        cursor."""
        if self._cursors.get((cursor.topic_id, cursor.queue)) is cursor:
            del self._cursors[cursor.topic_id, cursor.queue]
            self.restart()

    def restart(self) -> None:
        """Cancel the fetch request under way, and fetch from the present `fetch_offset` of each cursor."""
        self._task.cancel()
        self._task = self._started()

    def made_room(self) -> None:
        """Wake the fetcher, which continues if its cursors have room for more messages. A reader calls `made_room`
        after it has taken messages."""
        self._room.set()

    async def close(self) -> None:
        self._shares.leave(self)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _started(self) -> asyncio.Task[None]:
        return spawn(self._run(), f"fetches from shard {self._shard}", self._has_defect)

    def _has_defect(self, defect: InternalError) -> None:
        """Pass the defect to the reader, which would otherwise wait for ever."""
        self.trouble = defect
        self._on_news()

    async def _run(self) -> None:
        """Send fetch requests until every cursor has an error or is paused. `restart` starts a new task."""
        failures, last_success = 0, self._loop.time()
        while cursors := self._in_turn():
            await self._wait_for_room()
            error = await self._fetch(cursors)
            if error is None:
                failures, last_success, self.trouble = 0, self._loop.time(), None
                continue
            if isinstance(error, ThrottledError):  # this does not count as a failure
                last_success = self._loop.time()
                await asyncio.sleep((error.throttle_ms or 0) / 1000)
                continue
            failures += 1
            if (self._loop.time() - last_success) * 1000 >= self._client.request_timeout_ms:
                self.trouble = error
                self._on_news()
            await asyncio.sleep(self._client.backoff.wait_ms(failures) / 1000)

    def _in_turn(self) -> list[Cursor]:
        """Return the cursors for the next fetch request. Each call moves the first cursor to the end of the list,
        because the first queues of a request may get all of its bytes.
        """
        for first in list(self._cursors)[:1]:
            self._cursors[first] = self._cursors.pop(first)
        return [cursor for cursor in self._cursors.values() if cursor.error is None and not cursor.paused]

    async def _wait_for_room(self) -> None:
        while sum(cursor.buffered_bytes for cursor in self._cursors.values()) >= _FETCHES_AHEAD * self._fetch_bytes:
            self._room.clear()
            await self._room.wait()

    @property
    def _fetch_bytes(self) -> int:
        return self._shares.fetch_bytes(self._settings.max_bytes)

    async def _fetch(self, cursors: Sequence[Cursor]) -> LedgerError | None:
        """Fetch once. If a repeated fetch may succeed after an error, return the error. Store any other error in
        the cursor of its queue."""
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
            return self._failed(cursors, address, failure(address, error))
        except LedgerError as error:  # the proof of who this client is has failed
            return self._failed(cursors, address, error)
        if asyncio.current_task() is not self._task:  # gRPC drops a cancellation that arrives together with the answer
            raise asyncio.CancelledError
        self._client.routes.heard_of(response.configuration_index)
        error_of_any = None
        for queue in response.queues:
            error_of_any = self._take(address, queue) or error_of_any
        # Readers wake up one turn of the event loop later, after the next fetch was sent. They may keep the loop busy.
        self._loop.call_soon(self._on_news)
        return error_of_any

    def _failed(self, cursors: Sequence[Cursor], address: str, error: LedgerError) -> LedgerError | None:
        """Return the error of a fetch that may succeed later. Store any other error in the cursors. An
        AuthenticationError may end: an administrator may have changed the password before its file."""
        if error.retriable or isinstance(error, AuthenticationError):
            return self._noted(address, error)
        for cursor in cursors:
            cursor.error = error
        self._loop.call_soon(self._on_news)
        return None

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
            max_bytes=self._fetch_bytes,
            accepts_cut_batches=True,
        )

    def _take(self, address: str, queue: broker_pb2.FetchedQueue) -> LedgerError | None:
        cursor = self._cursors[queue.topic_id, queue.queue]
        if cursor.error is not None:
            return None  # a damaged batch was found meanwhile, so these batches would follow a gap
        if queue.HasField("error"):
            error = self._client.routes.table.with_names(from_wire(queue.error))
            # An unknown topic or queue is retriable here: the replica may not know it yet. If the topic was deleted,
            # the consumer removes the cursor.
            # Also an AuthenticationError: the next fetch proves anew who this client is.
            if error.retriable or isinstance(error, (UnknownTopicError, UnknownQueueError, AuthenticationError)):
                return self._noted(address, error)
            if not self._skipped(cursor, error):
                cursor.error = error
            return None
        for batch in queue.batches:
            cursor.fetched(batch.base_offset, batch.term, batch.body, batch.append_time_ms)
        cursor.passed(max(queue.next_offset, cursor.fetch_offset))
        return None

    def _skipped(self, cursor: Cursor, error: LedgerError) -> bool:
        """Skip the messages that are no longer kept, and return True. Return False if `error` is not an
        OffsetTooLowError, or if the setting `skips_dropped` is off."""
        if not self._settings.skips_dropped or not isinstance(error, OffsetTooLowError) or error.first_offset is None:
            return False
        log.warning("%d messages were skipped: %s", error.first_offset - cursor.fetch_offset, error)
        cursor.skip_to(error.first_offset)
        return True

    def _noted(self, address: str, error: LedgerError) -> LedgerError:
        if self._settings.node is None:
            self._client.routes.note(self._shard, address, error)
        elif isinstance(error, UnknownTopicError):
            self._client.routes.refresh_soon()
        return error
