"""Reads the delivery times of the batches of waiting messages in a run of entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledger.batch.header import COPIED, TIMED
from ledger.validation.spans.batches import Facts, hashes_end
from ledger.validation.spans.block import SpanBlock
from ledger.validation.spans.message_contents import message_contents
from store.log.entry import ALIGNMENT, HEADER_SIZE


@dataclass(frozen=True, slots=True)
class WaitingColumns:
    """Batches of waiting messages, in the order of the log."""

    # Of each batch: the identity of its first message, its number of messages, its topic id, its target queue, and the
    # position of its entry.
    first_identities: NDArray[np.int64]
    counts: NDArray[np.int64]
    topic_ids: NDArray[np.uint32]
    target_topic_ids: NDArray[np.uint32]
    target_queues: NDArray[np.uint32]
    positions: NDArray[np.uint64]
    # Of each message, in ms since 1970.
    times_ms: NDArray[np.int64]
    # Of each message, a hash.
    contents: NDArray[np.uint64]

    def of_topic(self, topic_id: int) -> WaitingColumns:
        """Return only the batches that are in this topic."""
        own = self.topic_ids == topic_id
        if own.all():
            return self
        of_own = np.repeat(own, self.counts)
        return WaitingColumns(
            self.first_identities[own],
            self.counts[own],
            self.topic_ids[own],
            self.target_topic_ids[own],
            self.target_queues[own],
            self.positions[own],
            self.times_ms[of_own],
            self.contents[of_own],
        )

    def batches(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield the first identity, the number of messages, the target topic id, the target queue and the position of
        each batch."""
        yield from zip(
            self.first_identities.tolist(),
            self.counts.tolist(),
            self.target_topic_ids.tolist(),
            self.target_queues.tolist(),
            self.positions.tolist(),
            strict=True,
        )


def is_waiting(facts: Facts) -> NDArray[np.bool_]:
    """Return, for each batch, whether its messages wait. Copies of waiting messages are no waiting messages."""
    return np.asarray((facts["columns"] & (TIMED | COPIED)) == TIMED)


def waiting_columns(block: SpanBlock, facts: Facts) -> WaitingColumns:
    """Return the columns of these batches of waiting messages. A batch that is too short for its columns is left
    out."""
    counts = facts["count"].astype(np.int64)
    begin = HEADER_SIZE + hashes_end(block, facts)
    fits = begin + ALIGNMENT * (1 + counts) <= facts["size"]
    facts, counts, begin = facts[fits], counts[fits], begin[fits]
    words = (facts["at"] + begin) // ALIGNMENT
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    targets = block.words[words]
    return WaitingColumns(
        facts["base_offset"].astype(np.int64),
        counts,
        facts["topic_id"].copy(),
        (targets & np.uint64(0xFFFFFFFF)).astype(np.uint32),
        (targets >> np.uint64(32)).astype(np.uint32),
        facts["position"].astype(np.uint64),
        block.words[np.repeat(words + 1, counts) + within].astype(np.int64),
        np.concatenate([np.empty(0, np.uint64), *(message_contents(block, fact) for fact in facts)]),
    )
