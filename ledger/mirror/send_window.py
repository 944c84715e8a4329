"""Sends the copied batches of one queue in order, several at a time.

    confirmed | in flight: sent, no answer yet, at most MOST_BATCHES and `most_bytes` | not sent

The first failure ends the window: it sends nothing more, and results that come later do not count. Then the caller
waits until no batch is in flight, asks the target what it has, and begins a new window there. A window begins with one
batch in flight and doubles with each answer, so that a queue in trouble gets one batch at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ledger.client.connection.cluster_client import ClusterClient, no_leader
from ledger.client.producer.produce_stream import AttemptResult
from ledger.client.producer.produce_streams import ProduceStreams
from ledger.client.producer.producer_batch import Acknowledged
from ledger.errors import LedgerError, UnavailableError

MOST_BATCHES = 256


@dataclass(frozen=True, slots=True)
class SentCopy:
    """A copied batch on its way: its bytes, the offset of its first message at the source, and how many messages it
    has. `append_time_ms` is when the source appended it, in ms since 1970."""

    encoded: bytes
    source: int
    count: int
    append_time_ms: int
    trace: str = ""


# The number of the target queue's shard stands for the sequencer.
CopyAttempt = AttemptResult[int, SentCopy]
CopyStreams = ProduceStreams[int, SentCopy]


class SendWindow:
    """Batches of one queue that are on their way to the target."""

    def __init__(
        self,
        client: ClusterClient,
        streams: CopyStreams,
        shard: int,
        on_copied: Callable[[SentCopy, Acknowledged], None],
        most_bytes: Callable[[], int],
    ) -> None:
        """`on_copied` is called for each batch that is committed, in order. `most_bytes` returns how many bytes may be
        in flight; one batch may always be."""
        # The first failure, and the batch that failed.
        self.failure: LedgerError | None = None
        self.failed: SentCopy | None = None
        self._client = client
        self._streams = streams
        self._shard = shard
        self._on_copied = on_copied
        self._most_bytes = most_bytes
        self._batches = 0
        self._bytes = 0
        self._most_batches = 1
        self._changed = asyncio.Event()

    async def send(self, batch: SentCopy) -> None:
        """Wait for room, and send the batch. Raises the failure of the window."""
        while self.failure is None and self._is_full(len(batch.encoded)):
            await self._change()
        self.raise_failure()
        self._batches += 1
        self._bytes += len(batch.encoded)
        try:
            address = self._client.routes.table.leader_address(self._shard)
            if address is None:
                self._client.routes.refresh_soon()
                raise no_leader(self._shard)
            self._streams.to(address, self._shard).submit(self, self._shard, [batch])
        except LedgerError as error:  # or a file of the security settings cannot be read
            self._take(AttemptResult(self._shard, batch, error, sent=False))
            raise

    def raise_failure(self) -> None:
        """Raise the failure of the window, if there is one."""
        if self.failure is not None:
            raise self.failure

    async def drain(self) -> None:
        """Wait until no batch is in flight."""
        while self._batches:
            await self._change()

    def withdraw(self) -> None:
        """Give up the batches in flight. They may reach the target or not."""
        for _, stream in self._streams.all():
            stream.withdraw(self, UnavailableError("The mirror left the stream."))

    def attempts_ended(self, address: str, results: Sequence[CopyAttempt]) -> None:
        """Take the answers of the node at `address`. A stream calls it."""
        for one in results:
            if isinstance(one.answer, LedgerError):
                self._client.routes.note(self._shard, address, one.answer)
            self._take(one)
        self._changed.set()

    def _take(self, one: CopyAttempt) -> None:
        self._batches -= 1
        self._bytes -= len(one.batch.encoded)
        if self.failure is not None:
            return
        if isinstance(one.answer, LedgerError):
            self.failure, self.failed = one.answer, one.batch
            return
        self._most_batches = min(self._most_batches * 2, MOST_BATCHES)
        self._on_copied(one.batch, one.answer)

    def _is_full(self, size: int) -> bool:
        return self._batches >= self._most_batches or (self._batches > 0 and self._bytes + size > self._most_bytes())

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
