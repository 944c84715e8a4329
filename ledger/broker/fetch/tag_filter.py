"""Filters by tag: finds the entries that have wanted messages, and cuts batches that have other messages too.

To find entries, the broker reads units of the ConsumeQueue. To cut a batch, it decodes the batch and encodes the wanted
messages again, which costs time of the event loop. So a batch is sent whole if a cut would save little. A batch whose
bytes are damaged is sent whole too: a cut would give the damaged bytes a right checksum, and the consumer could not
notice the damage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledger.batch import Batch, BatchHeader, cut, tag_hashes
from ledger.batch.check import check_header
from ledger.errors import LedgerError
from store.index.consume_queue import Units

# A batch is cut if that saves this many bytes, and this part of the bytes of its messages.
MIN_SAVED_BYTES = 1024
MIN_SAVED_SHARE = 0.25
# If a fetch wants more tags, its batches are sent whole: every batch would have to be searched for all of them.
MAX_CUT_TAGS = 256
# Tags that a fetch can want of one queue.
MAX_FETCH_TAGS = 4096
# Steps of a turn of the event loop (each about 10 us) that a cut takes, and bytes, before and after decompression, that
# take one more.
_CUT_STEPS = 10
_STEP_BYTES = 8 << 10


@dataclass(frozen=True, slots=True)
class WantedPart:
    """The messages of a stored batch that a fetch wants."""

    body: bytes | memoryview
    # Places of the messages in the batch, in ascending order.
    places: NDArray[np.int64]
    # What a cut costs, in steps of a turn.
    steps: int

    def cut(self) -> bytes | None:
        """Return the cut batch. Return None if it would save little, if the batch is damaged, or if its codec is not
        installed on this node."""
        try:
            batch = Batch(self.body)
            offsets = batch.offsets
            wanted = int((offsets[self.places + 1] - offsets[self.places]).sum())
            if wanted > (1 - MIN_SAVED_SHARE) * int(offsets[-1]):
                return None
            part = cut(batch, self.places)
        except LedgerError:
            return None
        return part if len(part) + MIN_SAVED_BYTES <= len(self.body) else None


@dataclass(frozen=True, slots=True)
class TagFilter:
    """The tags of one fetch."""

    hashes: NDArray[np.int64]
    # Whether batches can be cut.
    cuts: bool

    @classmethod
    def of(cls, hashes: Sequence[int], *, accepts_cuts: bool) -> TagFilter:
        """Return the filter of a fetch that wants tags with these hashes. `accepts_cuts` is what the client says."""
        return cls(np.fromiter(hashes, np.int64), accepts_cuts and len(hashes) <= MAX_CUT_TAGS)

    def entries(self, window: Units) -> list[int]:
        """Find the entries of a window that have messages with one of the tags. For each entry found, return the
        position in the window of the entry's first message with such a tag."""
        wanted = np.flatnonzero(np.isin(window["tag_hash"], self.hashes))
        positions = window["position"][wanted]
        first = np.flatnonzero(np.diff(positions, prepend=-1))
        places: list[int] = wanted[first].tolist()
        return places

    def part_of(self, body: bytes | memoryview, first_place: int) -> WantedPart | None:
        """Return the wanted messages of a batch from `first_place` on. Return None if the batch must be sent whole:
        because batches are not cut for this fetch, all messages are wanted, or the header is damaged."""
        if not self.cuts or len(body) <= MIN_SAVED_BYTES:
            return None
        try:
            header = BatchHeader.parse(body)
            check_header(header, len(body))
        except LedgerError:
            return None
        if (hashes := tag_hashes(body, header)) is None:
            return None
        wanted = np.flatnonzero(np.isin(hashes[first_place:], self.hashes)) + first_place
        if not 0 < len(wanted) < header.count:
            return None
        return WantedPart(body, wanted, _CUT_STEPS + (len(body) + header.plain_size) // _STEP_BYTES)
