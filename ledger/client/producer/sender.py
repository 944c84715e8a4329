"""Drives the accumulator of a producer: passes the time and the answers to the accumulator, and sends the returned
batches to leaders.

After an event (a new piece, an answer, a new leader, a timer), the accumulator is polled once, in the next turn of the
event loop. This way, messages that are sent in the same turn share a batch, without waiting for a timer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from ledger.client.background import spawn
from ledger.client.connection.channels import Connections
from ledger.client.connection.cluster_client import no_leader
from ledger.client.connection.cluster_link import ClusterLink
from ledger.client.producer.accumulator import Accumulator, Dispatch
from ledger.client.producer.produce_stream import AttemptResult
from ledger.client.producer.produce_streams import ProduceStreams, SharedStreams
from ledger.client.producer.producer_batch import BatchResult, Piece, ProducerBatch
from ledger.client.producer.queue_sequencer import QueueSequencer
from ledger.client.producer.wait_warnings import WaitWarnings
from ledger.errors import (
    ClosedError,
    InternalError,
    LedgerError,
    SequenceGapError,
    ThrottledError,
    UnavailableError,
)

log = logging.getLogger("ledgermq.client.producer")

# How often the streams are checked.
_WATCH_SECONDS = 0.5

ProducerAttempt = AttemptResult[QueueSequencer, ProducerBatch]

# How many receipts get their results between two polls. Programs that got a result send their next messages, which are
# under way while the other receipts get theirs. So client and cluster work at the same time.
_RECEIPTS_AT_ONCE = 512


class Sender:
    """Sends the batches of one accumulator: small ones on streams that it shares with other producers of the link, and
    large ones on streams of its own."""

    def __init__(
        self,
        link: ClusterLink,
        accumulator: Accumulator,
        *,
        now_ms: Callable[[], int],
        release: Callable[[int], None],
        settling: Callable[[BatchResult], None] | None = None,
    ) -> None:
        """`now_ms` is the wall clock. `release` gives back bytes of a producer's buffer. `settling` is called with each
        result before its receipts get it."""
        self._routes = link.routes
        self._request_timeout_ms = link.key.request_timeout_ms
        self._accumulator = accumulator
        self._now_ms, self._release, self._settling = now_ms, release, settling
        self._loop = asyncio.get_running_loop()
        self._shared_streams = link.part(SharedStreams)
        self._shared_streams.join()
        self._bulk_connections = Connections(link.key.open)
        self._bulk_streams = ProduceStreams[QueueSequencer, ProducerBatch](self._bulk_connections, link.routes.heard_of)
        self._poll_due = False
        # Changes when batches may be closed, moved or ended, and when this sender closes.
        self.turn = 0
        # The time of the first event since the last poll.
        self._turn_at, self._turn_at_wall_ms = 0.0, 0
        self._timer: asyncio.TimerHandle | None = None
        # The time at which the timer fires. It is kept here because a timer of uvloop has no `when` if it fires within
        # half a millisecond.
        self._timer_at = 0.0
        # Results that some receipts have not got yet, in the order in which they get them.
        self._untold: deque[BatchResult] = deque()
        self._told = asyncio.Event()
        self._closing = False
        self._warnings = WaitWarnings()
        link.routes.on_leader_change.append(self._leaders_changed)
        # The watch over the streams has failed. Later messages are refused with this error.
        self._defect: InternalError | None = None
        self._watcher = spawn(self._watch(), "watch over the streams of a producer", self._failed)

    def is_available(self, sequencer: QueueSequencer) -> bool:
        """Return False if messages without a key should avoid the shard of this sequencer for now."""
        faults = self._accumulator.faults
        return faults.is_empty or faults.is_available(sequencer.shard, self._now())

    def add(self, sequencer: QueueSequencer, piece: Piece, close: bool) -> None:
        """Add a piece (messages that are sent together) to the sequencer of its queue. The caller must already have
        added the size of the piece to the used bytes of the buffer."""
        if self._closing:
            self._release(piece.size)
            piece.receipt.failed(ClosedError("The producer was closed before this message was sent."))
            return
        if self._defect is not None:
            self._release(piece.size)
            piece.receipt.failed(self._defect)
            return
        self.poll_soon()
        self._accumulator.add(sequencer, piece, self._turn_at, self._turn_at_wall_ms, close=close)

    def hasten(self) -> None:
        """Let all open batches be sent now, without waiting for more messages."""
        self._accumulator.hasten(self._now())
        self.poll_soon()

    async def flush(self) -> None:
        """Wait until every message that was added so far is acknowledged or has failed."""
        self.hasten()
        owed = self._accumulator.unresolved()
        while owed := [batch for batch in owed if batch.receipts]:
            await self._something_told()
        last = self._untold[-1] if self._untold else None
        while last is not None and not last.is_delivered:
            await self._something_told()

    async def _something_told(self) -> None:
        self._told.clear()
        await self._told.wait()

    async def close(self) -> None:
        """Close the streams, and end all batches with the results that are known now. New pieces are refused."""
        self.turn += 1
        self._closing = True  # no more polls, and therefore no new streams
        self._watcher.cancel()
        self._routes.on_leader_change.remove(self._leaders_changed)
        try:
            for _, stream in self._shared_streams.all():
                stream.withdraw(self, UnavailableError(f"This client left the stream to node {stream.address}."))
        finally:
            await self._shared_streams.leave()
            await self._bulk_streams.close()
            await self._bulk_connections.close()
        if self._timer is not None:
            self._timer.cancel()
        self._conclude(self._accumulator.abandon())
        while self._untold:
            self._tell()
        await asyncio.gather(self._watcher, return_exceptions=True)

    def _failed(self, defect: InternalError) -> None:
        self._defect = defect
        self.turn += 1

    # --- polling -----------------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return self._loop.time() * 1000

    def poll_soon(self) -> None:
        """Poll the accumulator in the next turn of the event loop, and send what can be sent."""
        if not self._poll_due and not self._closing:
            self._poll_due = True
            self._turn_at, self._turn_at_wall_ms = self._now(), self._now_ms()
            self._loop.call_soon(self._poll)

    def _poll(self) -> None:
        self._poll_due = False
        self.turn += 1
        if self._closing:
            return
        owed = self._accumulator.poll(self._now())
        self._conclude(owed.results)
        for dispatch in owed.dispatches:
            self._dispatch(dispatch)
        self._set_timer()
        self._tell()

    def _set_timer(self) -> None:
        """Set the timer for the accumulator's next poll. A timer that fires earlier is kept, because an additional
        poll does no harm."""
        wake = self._accumulator.next_wake()
        if wake is None:
            return
        if self._timer is not None:
            if self._timer_at <= wake / 1000:
                return
            self._timer.cancel()
        self._timer_at = wake / 1000
        self._timer = self._loop.call_at(self._timer_at, self._timer_fired)

    def _timer_fired(self) -> None:
        """Request a poll. A timer of uvloop can fire up to half a millisecond early, so the poll may have to set a
        new timer."""
        self._timer = None
        self.poll_soon()

    # --- receipts ----------------------------------------------------------------------------------------------------

    def _conclude(self, results: Iterable[BatchResult]) -> None:
        for one in results:
            if self._settling is not None:
                self._settling(one)
            self._untold.append(one)

    def _tell(self) -> None:
        """Pass results to at most 512 receipts, in the order of the results. The other receipts get their results
        after the next poll."""
        left = _RECEIPTS_AT_ONCE
        try:
            while self._untold and left > 0:
                one = self._untold[0]
                left -= one.deliver(left)
                if one.is_delivered:
                    self._untold.popleft()
                    self._release(one.released)
                    self._told.set()
        finally:  # the other receipts get their results even if one raises
            if self._untold:
                self.poll_soon()

    # --- sending and answers -----------------------------------------------------------------------------------------

    def _dispatch(self, dispatch: Dispatch) -> None:
        sequencer = dispatch.sequencer
        streams = self._bulk_streams if sequencer.in_bulk else self._shared_streams
        try:
            address = self._routes.table.leader_address(sequencer.shard)
            if address is None:
                self._routes.refresh_soon()
                raise no_leader(sequencer.shard)
            streams.to(address, sequencer.shard).submit(self, sequencer, dispatch.batches)
        except LedgerError as error:  # or a file of the security settings cannot be read
            self._accumulator.faults.failed(sequencer.shard, self._now())
            self._take_back([AttemptResult(sequencer, batch, error, sent=False) for batch in dispatch.batches])

    def attempts_ended(self, address: str, batches: Sequence[ProducerAttempt]) -> None:
        """Take the results of attempts at the node at `address`, in the order in which the batches were submitted."""
        self._note_latency(batches)
        for one in batches:
            if isinstance(one.answer, Exception) and not self._closing:  # a producer that stops says nothing of a node
                self._routes.note(one.sequencer.shard, address, one.answer)
        self._take_back(batches)

    def _note_latency(self, batches: Sequence[ProducerAttempt]) -> None:
        """Record the newest latency of each shard in the fault table. SequenceGapError and ThrottledError are left
        out, because they say nothing about the speed of the leader."""
        faults, now = self._accumulator.faults, self._now()
        follows = (SequenceGapError, ThrottledError)
        newest = {one.sequencer.shard: one for one in batches if not isinstance(one.answer, follows)}
        for shard, one in newest.items():
            if isinstance(one.answer, LedgerError) and one.answer.retriable:
                faults.failed(shard, now)
            else:
                faults.answered(shard, one.after_ms, now)

    def _take_back(self, batches: Sequence[ProducerAttempt]) -> None:
        now = self._now()
        self.turn += 1
        for one in batches:
            self._conclude(self._accumulator.answered(one.sequencer, one.batch, one.answer, now, sent=one.sent))
        self._tell()
        self.poll_soon()

    # --- leaders -----------------------------------------------------------------------------------------------------

    def _leaders_changed(self, shards: set[int]) -> None:
        for shard in shards:
            self._accumulator.faults.forget(shard)
        self._accumulator.hurry(self._now(), lambda sequencer: sequencer.shard in shards)
        self.poll_soon()

    async def _watch(self) -> None:
        """Check every 0.5 s for streams that wait long for an answer (`ProduceStreams.end_stalled`). Log which messages
        wait long for an acknowledgement."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            now = self._now()
            for shard, stream in (*self._shared_streams.all(), *self._bulk_streams.all()):
                self._accumulator.faults.waits(shard, stream.waited() * 1000, now)
            for streams in (self._shared_streams, self._bulk_streams):
                streams.end_stalled(self._routes, self._request_timeout_ms)
            for warning in self._warnings.look(self._accumulator.waits(now), now):
                log.warning("%s", warning)
