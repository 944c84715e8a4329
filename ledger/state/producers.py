"""Stores the sequences of the known producers, and forgets producers that have expired.

A producer expires by the append times of entries and not by a local clock, so every replica forgets the same producers
at the same index. The table is sorted by last use, so the producer that expires next is at its front.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ledger.state.keys_by_topic import KeysByTopic
from ledger.state.sequence import BatchRecord, Decision, Sequence, check_first


class ProducerQueue(NamedTuple):
    """A producer, and one queue to which the producer writes. A producer has one sequence for each queue."""

    producer_id: int
    topic_id: int
    queue: int


@dataclass(frozen=True, slots=True)
class ProducerLimits:
    """The limits after which a replica forgets producers. The values must be equal on all replicas and must never
    change, because the state depends on them."""

    expiry_ms: int = 24 * 60 * 60 * 1000
    # Sequences, that is pairs of producer and queue.
    most: int = 100_000


class Producers:
    """The sequences of all known producers, least recently used first."""

    def __init__(self, limits: ProducerLimits, sequences: Iterable[tuple[ProducerQueue, Sequence]] = ()) -> None:
        self._limits = limits
        # In the order of last_append_time_ms; len <= limits.most.
        self._sequences = OrderedDict(sequences)
        self._of_topic = KeysByTopic(self._sequences)

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[tuple[ProducerQueue, Sequence]]:
        return iter(self._sequences.items())

    def get(self, key: ProducerQueue) -> Sequence | None:
        """Return the sequence of a producer in a queue, or None if the producer is not known in this queue."""
        return self._sequences.get(key)

    def check(self, key: ProducerQueue, epoch: int, first_sequence: int, count: int) -> Decision:
        """Decide whether a batch continues its producer's sequence, repeats earlier sequence numbers, or leaves a
        gap. Changes nothing."""
        sequence = self._sequences.get(key)
        return check_first(first_sequence) if sequence is None else sequence.check(epoch, first_sequence, count)

    def add(self, key: ProducerQueue, epoch: int, record: BatchRecord) -> None:
        """Add a committed batch, and forget the producers that have expired at its append time."""
        sequence = self._sequences.get(key)
        if sequence is None:
            sequence = self._sequences[key] = Sequence(epoch)
            self._of_topic.add(key)
        sequence.add(epoch, record)
        self._sequences.move_to_end(key)
        self.expire(record.append_time_ms)

    def forget(self, key: ProducerQueue) -> None:
        """Remove the sequence of a producer in a queue, as if the producer had expired."""
        if self._sequences.pop(key, None) is not None:
            self._of_topic.remove(key)

    def forget_topic(self, topic_id: int) -> None:
        """Forget all producers in the queues of a deleted topic."""
        for key in self._of_topic.of(topic_id):
            self.forget(key)

    def expire(self, now_ms: int) -> None:
        """Forget producers that have written nothing for `expiry_ms`. If more sequences than the limit remain,
        forget the least recently used sequences."""
        while self._sequences:
            oldest = next(iter(self._sequences.values()))
            unused_ms = now_ms - oldest.last_append_time_ms
            if unused_ms < self._limits.expiry_ms and len(self._sequences) <= self._limits.most:
                return
            key, _ = self._sequences.popitem(last=False)
            self._of_topic.remove(key)
