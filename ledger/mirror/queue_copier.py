"""Copies one queue, and continues after any failure.

A copier has one way to begin, at its start and after every failure: it asks the target which message it has last, and
continues behind it. So a kill of the mirror or of a node at any moment needs nothing else. The numbers of the batches
(numbering.py) make the target refuse what it has already, and what would leave a gap.

    what the target answers            what the copier does
    a gap                              begins again: the node may lead no longer, and not know it
    a second gap at the same message   begins a new run: the target has forgotten the producer
    a repetition, a fence              begins again: an earlier attempt arrived late, another mirror copies too, or the
                                       target has removed the copies, and says which message is next
    the message ids are known          begins again, and sends this batch without its message ids
    a message is too large, ...        ends: the operator must decide
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

from ledger.client.admin.offsets import list_offsets
from ledger.client.connection.backoff import Backoff
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.consumer.cursor import QueueBatch
from ledger.client.producer.producer_batch import Acknowledged
from ledger.errors import (
    AuthenticationError,
    DuplicateForgottenError,
    InternalError,
    InvalidArgumentError,
    LedgerError,
    OffsetTooLowError,
    ProducerFencedError,
    RepeatedMessagesError,
    SequenceGapError,
    ThrottledError,
    UnknownTopicError,
    UnsupportedBatchError,
)
from ledger.mirror.cluster_access import ClusterAccess
from ledger.mirror.copied_batch import copied_batch, end_of_copy, has_message_ids
from ledger.mirror.copied_end import TargetQueue
from ledger.mirror.copy_tally import CopyTally, SkippedRange
from ledger.mirror.mirror_errors import MirrorRefusedError
from ledger.mirror.mirror_progress import MirrorProgress
from ledger.mirror.offset_map import OffsetMap
from ledger.mirror.send_window import CopyStreams, SendWindow, SentCopy

# How long a read waits for messages before the copier looks after its window, in ms.
_POLL_MS = 1_000
# After these, the target says what it has.
_ASK_AGAIN = (SequenceGapError, DuplicateForgottenError, ProducerFencedError, OffsetTooLowError, AuthenticationError)
# The message ids of a batch may be the reason of these.
_ABOUT_IDS = (RepeatedMessagesError, InvalidArgumentError, UnsupportedBatchError)


class Place(NamedTuple):
    """Where a copier begins: at the offset `next` of the source, in the run that begins at `run`."""

    run: int
    next: int


@dataclass(frozen=True, slots=True)
class CopierParts:
    """What all copiers of a mirror share."""

    source: ClusterAccess
    streams: CopyStreams
    tally: CopyTally
    # Whether to go on if the source no longer has the next messages.
    skips_lost: bool
    # Waits until this many bytes may be sent.
    pace: Callable[[int], Awaitable[None]]
    # Returns how many bytes of one queue may be in flight.
    window_bytes: Callable[[], int]
    # What is copied, and where the present runs began, at the source. What is copied, at the target.
    progress: MirrorProgress
    runs: MirrorProgress
    copies: MirrorProgress
    backoff: Backoff


class QueueCopier:
    """Copies the queue of the topic `source` that `target` names."""

    def __init__(
        self, source: RoutedTopic, target: TargetQueue, start: int, run: int, parts: CopierParts, *, goes_back: bool
    ) -> None:
        """`start` and `run` are the offsets that the source stores for this mirror. With `goes_back`, a queue of the
        target that never had a message gets all messages of the source; without it, those from `start` on."""
        # The offset of the source before which everything is in the target; None until the target was asked.
        self.copied: int | None = None
        self.offsets = OffsetMap()
        self.source = source
        self.target = target
        self._start = start
        # Where the present run began, as the source stores it. No batch of a later run was sent.
        self._run = run
        self._parts = parts
        self._goes_back = goes_back
        self._place_name = (source.name, target.queue)
        # The messages that are sent without their message ids, and whether this has not been tried yet.
        self._without_ids = range(0)
        self._tries_without_ids = False
        # The message before which the target saw a gap, and how often it did.
        self._gap_at, self._gaps = -1, 0
        # Where to continue if the target has removed all copies, and still knows the producer.
        self._known: Place | None = None

    async def run(self) -> None:
        """Copy until the task is cancelled. Raises MirrorRefusedError, or the LedgerError that ends the mirror."""
        failures = 0
        while True:
            before = self.copied
            try:
                await self._copy(await self._place())
            except LedgerError as error:
                if not (error.retriable or isinstance(error, _ASK_AGAIN) or self._tries_without_ids):
                    raise
                self._tries_without_ids = False
                failures = 1 if self.copied != before else failures + 1
                self._parts.tally.note_trouble(f"queue {self.target.queue} of {self.source.name}: {error}")
                throttled_ms = error.throttle_ms or 0 if isinstance(error, ThrottledError) else 0
                await asyncio.sleep(max(throttled_ms, self._parts.backoff.wait_ms(failures)) / 1000)

    # -- where to begin

    async def _place(self) -> Place:
        """Ask both clusters where to continue. Raises MirrorRefusedError or LedgerError."""
        parts, queue = self._parts, self.target.queue
        found = await self.target.last_copy()
        there = (await list_offsets(parts.source.client, self.source, [queue]))[queue]
        if found is not None:
            run, offset = found.range.run, found.range.end
            if self._run == offset:
                run = offset  # a run was to begin here
            count = found.range.end - found.range.first
            self.offsets.add(found.range.first, count, found.target)
            parts.copies.copied(self.target.topic.topic_id, queue, found.target + count)
        elif self._known is not None:
            run, offset = self._known
        elif self.copied is None and self._goes_back and await self.target.still_has_its_first_message():
            run = offset = there.first_offset
        else:  # the target, which has no copy any more, says what is next if it still knows the run
            run, offset = self._run, max(self._start, self._run, self.copied or 0)
        if offset > there.end_offset:
            raise MirrorRefusedError(
                f"Queue {queue} of topic {self.source.name!r} at the source ends at offset {there.end_offset}, and the "
                f"target has its messages up to {offset}: the source has lost messages. Delete the topic at the target "
                "to copy it anew, or give the mirror another --name and --prefix."
            )
        if offset < there.first_offset:
            is_unsure = found is None and self._known is None and there.first_offset < there.end_offset
            if is_unsure and self._gap_at != there.first_offset:
                return Place(run, there.first_offset)  # the target answers whether it misses what is before
            self._skip(offset, there.first_offset)
            run = offset = there.first_offset
        if self._gap_at == offset and self._gaps > 1:
            run = offset  # the target has forgotten the producer
        await self._begin_run(run)
        self.copied = offset
        parts.progress.copied(self.source.topic_id, queue, offset)
        return Place(run, offset)

    async def _begin_run(self, run: int) -> None:
        """Store where a new run begins, before its first batch is sent. Raises MirrorRefusedError or LedgerError."""
        if run > self._run:
            self._parts.runs.copied(self.source.topic_id, self.target.queue, run)
            await self._parts.runs.store()
            self._run = run

    def _skip(self, offset: int, first: int) -> None:
        lost = SkippedRange(self.source.name, self.target.queue, offset, first)
        if not self._parts.skips_lost:
            raise MirrorRefusedError(
                f"The source no longer has {first - offset:,} messages of queue {lost.queue} of topic {lost.topic!r} "
                f"(offsets {offset} to {first - 1}) that are not copied: retention was faster than the mirror. Give "
                "--on-dropped skip to go on without them, and keep messages longer at the source."
            )
        self._parts.tally.skipped.add(lost)

    # -- copying

    async def _copy(self, place: Place) -> None:
        window = SendWindow(self.target.client, self._parts.streams, self._shard, self._note, self._parts.window_bytes)
        reader = self._parts.source.consumer(self.source.name, self.target.queue, place.next)
        try:
            async with reader:
                offset = place.next
                while True:
                    for batch in await reader.getbatches(_POLL_MS):
                        copy = self._copy_of(batch, place.run, offset)
                        if copy is not None:
                            await self._parts.pace(len(copy.encoded))
                            await window.send(copy)
                            offset = copy.source + copy.count
                    window.raise_failure()
        except asyncio.CancelledError:
            window.withdraw()
            raise
        except LedgerError as error:
            await window.drain()
            self._note_failure(window, place.run)
            # A read fails too if the target refused a batch meanwhile: its answer says more.
            raise window.failure or error from None

    @property
    def _shard(self) -> int:
        return self.target.topic.shards[self.target.queue]

    def _copy_of(self, batch: QueueBatch, run: int, offset: int) -> SentCopy | None:
        """Return the copy of a batch, from the offset `offset` of the source on. Return None if the batch has no such
        message."""
        header, data = batch.batch.header, batch.batch.data
        if header.topic_id != self.source.topic_id:
            raise UnknownTopicError(f"Topic {self.source.name!r} at the source was deleted and created again.")
        first, end = batch.base_offset, batch.base_offset + header.count
        if end <= offset:
            return None
        if first > offset:
            raise InternalError(
                f"The source answered with offset {first} of queue {batch.queue} of topic {self.source.name!r}, and "
                f"{offset} is next: the mirror would leave out messages."
            )
        queue, topic_id = self.target.queue, self.target.topic.topic_id
        with_ids = offset not in self._without_ids
        copy = copied_batch(
            data, self.target.numbering.number(run, offset), topic_id=topic_id, queue=queue, with_ids=with_ids
        )
        if first < offset:
            copy = end_of_copy(copy, offset - first)
        return SentCopy(copy, offset, end - offset, batch.append_time_ms)

    def _note(self, copy: SentCopy, answer: Acknowledged) -> None:
        """Note that the target has a batch."""
        tally = self._parts.tally
        self.offsets.add(copy.source, copy.count, answer.base_offset)
        tally.messages[self.source.name] += copy.count
        tally.sent_bytes += len(copy.encoded)
        tally.newest_ms[self._place_name] = copy.append_time_ms
        self._parts.copies.copied(self.target.topic.topic_id, self.target.queue, answer.base_offset + copy.count)
        self.copied = copy.source + copy.count
        self._known = None  # the target has more now
        self._parts.progress.copied(self.source.topic_id, self.target.queue, self.copied)

    def _note_failure(self, window: SendWindow, run: int) -> None:
        """Remember why the target refused the first unfinished batch."""
        failed, failure = window.failed, window.failure
        if failed is None:
            return
        if isinstance(failure, SequenceGapError):
            self._gaps = self._gaps + 1 if self._gap_at == failed.source else 1
            self._gap_at = failed.source
        if isinstance(failure, DuplicateForgottenError) and failure.next_sequence:
            self._known = Place(run, run + failure.next_sequence)
        if isinstance(failure, _ABOUT_IDS) and has_message_ids(failed.encoded):
            self._without_ids = range(failed.source, failed.source + failed.count)
            self._tries_without_ids = True
