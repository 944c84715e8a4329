"""Checks that offsets of queues and sequences of producers continue without a gap in a run of entries.

    queue 3-0    offsets 100..109, 110..119, 120..120          each batch continues the batch before
    producer 7   epoch 0: 40..49, 50..59; epoch 1: 0..0        sequences continue, or begin at 0 in a new epoch

The batches are sorted by queue, or by producer and queue. In the sorted order, each batch must continue the batch
before it. The replay checks the first batch of each queue and producer, because only the replay knows the previous
batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ledger.state import ProducerLimits
from ledger.validation.judging.violation import ViolationKind
from ledger.validation.naming import Sentence, TopicText
from ledger.validation.spans.batches import Facts

# The producer id of batches that brokers append themselves. Their sequences are offsets and are not checked.
BROKER = 0
_EXPIRY_MS = ProducerLimits().expiry_ms
Order = npt.NDArray[np.int64]
_ODD = tuple(np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))


@dataclass(frozen=True, slots=True)
class Misfit:
    """A batch whose offset does not continue its queue, or whose sequence does not continue its producer's
    sequence."""

    kind: ViolationKind
    # The number of the fact.
    fact: int
    reason: Sentence


@dataclass(frozen=True, slots=True)
class Continuity:
    # The numbers of facts, sorted by queue, and within a queue in the order of the log.
    by_queue: Order
    # The numbers of facts, sorted by producer and queue.
    by_producer: Order
    # The first fact of each queue.
    queue_heads: Order
    producer_heads: Order
    # Along `by_producer`: whether another producer or queue begins.
    producer_starts: npt.NDArray[np.bool_]
    queue_starts: npt.NDArray[np.bool_]
    misfits: tuple[Misfit, ...]


def continuity_of(facts: Facts) -> Continuity:
    queues = (facts["topic_id"].astype(np.uint64) << np.uint64(32)) | facts["queue"]
    by_queue, queue_starts = _grouped(queues)
    producers = (facts["producer_id"] * _ODD[0]) ^ (queues * _ODD[1])
    producers = (producers ^ (producers >> np.uint64(29))) * _ODD[2]
    by_producer, producer_starts = _grouped(producers)
    misfits = [*_offset_misfits(facts, by_queue, queue_starts), *_sequence_misfits(facts, by_producer, producer_starts)]
    return Continuity(
        by_queue,
        by_producer,
        by_queue[queue_starts],
        by_producer[producer_starts],
        producer_starts,
        queue_starts,
        tuple(misfits),
    )


def _grouped(keys: npt.NDArray[np.uint64]) -> tuple[Order, npt.NDArray[np.bool_]]:
    """Return an order that groups equal keys and is stable within a group, and the indexes at which the groups
    begin."""
    if len(keys) and (keys == keys[0]).all():
        order = np.arange(len(keys))
    else:
        order = np.argsort(keys, kind="stable")
    there = keys[order]
    starts = np.ones(len(keys), np.bool_)
    np.not_equal(there[1:], there[:-1], out=starts[1:])
    return order, starts


def _offset_misfits(facts: Facts, order: Order, starts: npt.NDArray[np.bool_]) -> list[Misfit]:
    begins = facts["base_offset"][order]
    due = begins[:-1] + facts["count"][order][:-1]
    wrong = np.flatnonzero(~starts[1:] & (begins[1:] != due))
    return [offset_misfit(facts, int(order[at + 1]), int(due[at])) for at in wrong.tolist()]


def offset_misfit(facts: Facts, number: int, due: int) -> Misfit:
    fact = facts[number]
    begins = f"its messages begin at offset {fact['base_offset']}, but the next offset of queue {fact['queue']} of "
    reason = TopicText((begins, int(fact["topic_id"]), f" is {due}"))
    return Misfit(ViolationKind.OFFSET_HOLE, number, reason)


def _sequence_misfits(facts: Facts, order: Order, starts: npt.NDArray[np.bool_]) -> list[Misfit]:
    sequences, epochs = facts["first_sequence"][order], facts["epoch"][order]
    due = sequences[:-1] + facts["count"][order][:-1]
    fits = (epochs[1:] == epochs[:-1]) & (sequences[1:] == due)
    fits |= (epochs[1:] > epochs[:-1]) & (sequences[1:] == 0)
    fits |= starts[1:] | (facts["producer_id"][order][1:] == BROKER)
    misfits = []
    for at in np.flatnonzero(~fits).tolist():
        before, number = facts[order[at]], int(order[at + 1])
        found = sequence_misfit(
            facts, number, int(due[at]), int(before["epoch"]), int(before["append_time_ms"]), may_be_forgotten=False
        )
        misfits += [found] if found is not None else []
    return misfits


def sequence_misfit(
    facts: Facts, number: int, due: int, epoch: int, used_ms: int, *, may_be_forgotten: bool
) -> Misfit | None:
    """Return a Misfit if the batch does not continue the sequence of its producer, which is known in its queue, and
    otherwise None.

    `due` is the next sequence of the producer in `epoch`, and `used_ms` the time of its last batch. A producer that
    wrote nothing for a day may begin again at sequence 0.
    """
    fact = facts[number]
    first, said = int(fact["first_sequence"]), int(fact["epoch"])
    forgotten = may_be_forgotten or int(fact["append_time_ms"]) - used_ms >= _EXPIRY_MS
    if (said == epoch and first == due) or (said > epoch and first == 0) or (forgotten and first == 0):
        return None
    who = f"producer {int(fact['producer_id']):016x}"
    if said < epoch:
        reason = f"{who} wrote in epoch {said} after epoch {epoch} had begun"
        return Misfit(ViolationKind.EPOCH_FENCED, number, reason)
    expected = due if said == epoch else 0
    kind = ViolationKind.SEQUENCE_GAP if first > expected else ViolationKind.SEQUENCE_REPEATED
    word = "skips to" if first > expected else "repeats"
    return Misfit(kind, number, f"{who} {word} sequence {first} in epoch {said}, but {expected} is next")


def unknown_producer_misfit(facts: Facts, number: int) -> Misfit | None:
    """Return a Misfit if the producer of the batch is not known in its queue and the batch's sequence does not
    begin at 0, and otherwise None."""
    fact = facts[number]
    if fact["first_sequence"] == 0 or fact["producer_id"] == BROKER:
        return None
    who = f"producer {int(fact['producer_id']):016x}"
    reason = f"{who} begins with sequence {fact['first_sequence']}, but 0 is next"
    return Misfit(ViolationKind.SEQUENCE_GAP, number, reason)
