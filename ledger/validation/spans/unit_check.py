"""Compares the ConsumeQueue units of a span's messages with the units that follow from the log.

    entry 57: topic 3, queue 1, offsets 100 .. 119, at 4,096, 800 bytes
    <queues>/3-1/00000000000000000000, units 100 .. 119     position 4,096, size 800, tag hash as in the batch

Within a span, the offsets of a queue are consecutive, and so are the queue's units in the ConsumeQueue file. This
module computes all units that the ConsumeQueue file must have and compares them as bytes. Only if the bytes of the
file differ from the computed bytes, this module compares single units.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ledger.validation.sources.access import read_part
from ledger.validation.spans.batches import Facts, tag_hashes
from ledger.validation.spans.block import SpanBlock
from ledger.validation.spans.continuity import Continuity
from store.disk.numbered import name_of
from store.index.consume_queue import UNIT, UNIT_BYTES, UNITS_PER_FILE


@dataclass(frozen=True, slots=True)
class WrongUnits:
    """A run of ConsumeQueue units that differ from the log."""

    topic_id: int
    queue: int
    offset: int
    # The index of the entry that contains the message of the first wrong unit.
    index: int
    path: str
    position: int
    end: int
    # The index of the entry that contains the message of the last wrong unit.
    last_index: int


@dataclass(frozen=True, slots=True)
class AbsentUnits:
    """ConsumeQueue units that are missing in the file, from `offset` up to the last message of the span in the
    queue."""

    topic_id: int
    queue: int
    offset: int
    index: int
    path: str


def first_of_each(absent: Iterable[AbsentUnits]) -> list[AbsentUnits]:
    """Return the first missing ConsumeQueue unit of each queue."""
    first: dict[tuple[int, int], AbsentUnits] = {}
    for each in sorted(absent, key=lambda each: each.offset):
        first.setdefault((each.topic_id, each.queue), each)
    return list(first.values())


class UnitCheck:
    """Compares the ConsumeQueue units of one replica with the log, one block after another."""

    def __init__(self, indexes: str) -> None:
        self._directory = Path(indexes) / "queues"
        # How many units were there and right.
        self.right = 0
        self.wrong: list[WrongUnits] = []
        self.absent: list[AbsentUnits] = []

    def compare(self, block: SpanBlock, facts: Facts, continuity: Continuity) -> None:
        if not len(facts):
            return
        tags = tag_hashes(block, facts)
        first = np.cumsum(facts["count"].astype(np.int64)) - facts["count"]
        for mine in np.split(continuity.by_queue, np.flatnonzero(continuity.queue_starts)[1:]):
            for dense in _dense(facts, mine):
                self._compare_queue(facts[dense], _tags_of(tags.values, first, facts, dense))

    def _compare_queue(self, facts: Facts, tags: npt.NDArray[np.uint64]) -> None:
        """Compare the units of batches of one queue. The offsets of the batches are consecutive."""
        counts = facts["count"].astype(np.int64)
        due = np.empty(int(counts.sum()), UNIT)
        due["position"] = np.repeat(facts["position"], counts)
        due["size"] = np.repeat(facts["size"], counts)
        due["tag_hash"] = tags.view(np.int64)
        indexes = np.repeat(facts["index"], counts)
        offset = int(facts["base_offset"][0])
        done = 0
        while done < len(due):
            at = (offset + done) % UNITS_PER_FILE
            count = min(len(due) - done, UNITS_PER_FILE - at)
            piece = slice(done, done + count)
            self._compare_file(facts[0], offset + done, at, due[piece], indexes[piece])
            done += count

    def _compare_file(self, one: np.void, offset: int, at: int, due: npt.NDArray[np.void], indexes: np.ndarray) -> None:
        topic, queue = int(one["topic_id"]), int(one["queue"])
        path = self._directory / f"{topic}-{queue}" / name_of(offset - at)
        data = _read(path, at * UNIT_BYTES, len(due) * UNIT_BYTES)
        there = np.frombuffer(data, UNIT, len(data) // UNIT_BYTES)
        if len(there) < len(due):
            missing = len(there)
            self.absent.append(AbsentUnits(topic, queue, offset + missing, int(indexes[missing]), str(path)))
        if there.tobytes() == due[: len(there)].tobytes():
            self.right += len(there)
            return
        differs = there != due[: len(there)]
        self.right += int((~differs).sum())
        places = np.flatnonzero(differs)
        for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
            first, last = int(run[0]), int(run[-1])
            position, end = (at + first) * UNIT_BYTES, (at + last + 1) * UNIT_BYTES
            entries = int(indexes[first]), int(indexes[last])
            self.wrong.append(
                WrongUnits(topic, queue, offset + first, entries[0], str(path), position, end, entries[1])
            )


def _dense(facts: Facts, mine: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    begins = facts["base_offset"][mine]
    breaks = np.flatnonzero(begins[1:] != begins[:-1] + facts["count"][mine][:-1]) + 1
    return np.split(mine, breaks)


def _tags_of(
    tags: npt.NDArray[np.uint64], first: npt.NDArray[np.int64], facts: Facts, chosen: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    """Return the tag hashes of the messages of these batches, in the order of the messages."""
    if len(chosen) == len(facts):
        return tags
    counts = facts["count"][chosen].astype(np.int64)
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    found: npt.NDArray[np.uint64] = tags[np.repeat(first[chosen], counts) + within]
    return found


def _read(path: Path, offset: int, count: int) -> bytes:
    try:
        return read_part(path, offset, count)
    except FileNotFoundError:
        return b""
