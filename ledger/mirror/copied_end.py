"""Finds the last copied message in a queue of the target, and the copy of a message. The batches of the target say
which messages of the source they have (numbering.py)."""

from __future__ import annotations

from dataclasses import dataclass

from ledger.batch.header import BatchHeader
from ledger.client.admin.offsets import list_offsets
from ledger.client.admin.queries import fetch_batch
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.route_table import RoutedTopic
from ledger.errors import OffsetTooLowError
from ledger.mirror.mirror_errors import MirrorRefusedError
from ledger.mirror.numbering import CopiedRange, CopyNumbering

# Batches of other producers that a mirror passes over to find its own last one.
MOST_OTHERS = 20_000


@dataclass(frozen=True, slots=True)
class FoundCopy:
    """A copied batch in the target: its offsets at the source, and the offset of its first message at the target."""

    range: CopiedRange
    target: int


@dataclass(frozen=True, slots=True)
class TargetQueue:
    """One queue of the target, and the numbering of the copies in it."""

    client: ClusterClient
    topic: RoutedTopic
    queue: int
    numbering: CopyNumbering

    async def last_copy(self) -> FoundCopy | None:
        """Return the last copied batch. Return None if the queue has none any more, or never had one
        (`was_never_written`).

        Raises MirrorRefusedError if too many batches of other producers are behind it."""
        offsets = (await list_offsets(self.client, self.topic, [self.queue]))[self.queue]
        return await self._copy_before(offsets.first_offset, offsets.end_offset)

    async def still_has_its_first_message(self) -> bool:
        """Return True if retention has removed no message of the queue yet."""
        return (await list_offsets(self.client, self.topic, [self.queue]))[self.queue].first_offset == 0

    async def target_of(self, source: int, guess: int) -> int | None:
        """Return the offset at the target at which a reader continues who has all messages of the source before
        `source`. The message `source` or a later one must be copied. `guess` may be any offset; a good one saves
        requests. Return None if it is not found because another producer wrote here.
        """
        offsets = (await list_offsets(self.client, self.topic, [self.queue]))[self.queue]
        low, high = offsets.first_offset, offsets.end_offset  # the answer is in [low, high]
        probe = min(max(guess, low), high - 1)
        while low < high:
            try:
                found = await self._copy_at(probe)
            except OffsetTooLowError as error:  # retention has removed it meanwhile
                low = max(low, error.first_offset or 0, probe + 1)
                probe = (low + high) // 2
                continue
            if found is None:
                return None
            if found.range.first <= source < found.range.end:
                return max(found.target + source - found.range.first, offsets.first_offset)
            if found.range.first > source:
                high = found.target
            else:
                low = found.target + found.range.end - found.range.first
            probe = (low + high) // 2
        return low

    async def _copy_before(self, first: int, end: int) -> FoundCopy | None:
        for _ in range(MOST_OTHERS):
            if end <= first:
                return None
            try:
                batch = await fetch_batch(self.client, self.topic, self.queue, end - 1)
            except OffsetTooLowError:  # retention has removed it meanwhile
                return None
            copied = self.numbering.copied(BatchHeader.parse(batch.body))
            if copied is not None:
                return FoundCopy(copied, batch.base_offset)
            end = batch.base_offset
        raise MirrorRefusedError(
            f"Queue {self.queue} of topic {self.topic.name!r} at the target has more than {MOST_OTHERS:,} batches of "
            "other producers behind the last copied message, so the mirror does not find its place: copy to another "
            "topic (--prefix)."
        )

    async def _copy_at(self, offset: int) -> FoundCopy | None:
        batch = await fetch_batch(self.client, self.topic, self.queue, offset)
        copied = self.numbering.copied(BatchHeader.parse(batch.body))
        return None if copied is None else FoundCopy(copied, batch.base_offset)
