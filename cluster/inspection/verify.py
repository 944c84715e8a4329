"""Everything that can be wrong with a log and the files around it, told one by one.

    small files ─> entries (and, as they come by, units and bases) ─> the clean mark ─> what units lack or have too much

One idea: one pass over the log's bytes feeds all comparisons, so a check costs what reading costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cluster.inspection.checkpoint_check import CheckpointCheck
from cluster.inspection.files_check import SnapshotsCheck, check_marks, check_votes
from cluster.inspection.key_check import KeyCheck
from cluster.inspection.queue_check import QueueCheck
from ledger.validation.sources.place import LogPlace
from store import CleanMark, Flaw, FlawKind, Found, LogReader

OnProgress = Callable[[int], None]
"""Takes the bytes that are behind, of `LogPlace.total_bytes`."""
_PROGRESS_ENTRIES = 512


class Check(Protocol):
    """Something beside the log that must agree with it."""

    def take(self, found: Found) -> Iterator[Flaw]:
        """The next entry: what does not agree with it?"""


@dataclass(slots=True)
class Verified:
    """What a pass has found, besides flaws; complete once all flaws have been told."""

    entries: int = 0
    first_index: int | None = None
    last_index: int | None = None
    last_term: int | None = None
    end: int | None = None
    chain: int | None = None
    known_commit: int = 0
    """The largest commit that the entries mention: surely committed."""
    queues: int = 0
    units: int = 0
    keys: int = 0
    """Entries of the key index."""
    kinds: set[FlawKind] = field(default_factory=set)
    """Of the flaws that were told."""


def verify(place: LogPlace, verified: Verified, on_progress: OnProgress = lambda _: None) -> Iterator[Flaw]:
    """Tells each flaw as it is found, and fills `verified`. Raises `StoreError` where a file cannot be read at all."""
    for flaw in _flaws(place, verified, on_progress):
        verified.kinds.add(flaw.kind)
        yield flaw


def _flaws(place: LogPlace, verified: Verified, on_progress: OnProgress) -> Iterator[Flaw]:
    yield from place.flaws
    queues = QueueCheck(place.indexes / "queues") if place.indexes is not None and not place.void else None
    keys = KeyCheck(place.indexes / "keys", _start(place)) if place.indexes is not None and not place.void else None
    snapshots = SnapshotsCheck(place.shard) if place.shard is not None else None
    checkpoint = CheckpointCheck(place.shard) if place.shard is not None and not place.void else None
    if place.shard is not None:
        yield from check_votes(place.shard)
        yield from check_marks(place.shard)
    if snapshots is not None:
        yield from snapshots.begin()
    if checkpoint is not None:
        yield from checkpoint.begin()
    if keys is not None:
        yield from keys.begin()
    reader = place.reader()
    takers = [check for check in (queues, keys, snapshots, checkpoint) if check is not None]
    yield from _entries(reader, verified, takers, on_progress, place)
    _describe_end(reader, verified)
    if checkpoint is not None:
        yield from checkpoint.finish(verified.last_index, changing=place.holder is not None)
    if place.clean is not None and not place.void:
        yield from _compare_end(place, place.clean, reader)
    if queues is not None:
        yield from queues.finish(
            known_commit=verified.known_commit,
            begins_later=place.snapshot is not None or place.start is None,
            orderly=place.clean is not None,
            changing=place.holder is not None,
        )
        verified.queues, verified.units = queues.queues, queues.units
    if keys is not None:
        yield from keys.finish(
            known_commit=verified.known_commit,
            orderly=place.clean is not None,
            changing=place.holder is not None,
        )
        verified.keys = keys.entries


def _start(place: LogPlace) -> int | None:
    return place.start.end if place.start is not None else None


def _entries(
    reader: LogReader, verified: Verified, checks: Sequence[Check], on_progress: OnProgress, place: LogPlace
) -> Iterator[Flaw]:
    begin = place.segments[0].base if place.segments else 0
    for each in reader:
        if isinstance(each, Flaw):
            for check in checks:
                if isinstance(check, (QueueCheck, KeyCheck)) and each.kind is not FlawKind.TORN:
                    check.interrupted()
            yield each
            continue
        _count(each, verified)
        for check in checks:
            yield from check.take(each)
        if verified.entries % _PROGRESS_ENTRIES == 0:
            on_progress(reader.position - begin)
    on_progress(place.total_bytes)


def _count(found: Found, verified: Verified) -> None:
    if verified.first_index is None:
        verified.first_index = found.header.index
    verified.entries += 1


def _describe_end(reader: LogReader, verified: Verified) -> None:
    verified.known_commit = reader.known_commit
    tail = reader.tail
    if tail is not None:
        verified.last_index, verified.last_term = tail.index, tail.term
        verified.end, verified.chain = tail.end, tail.chain


def _compare_end(place: LogPlace, clean: CleanMark, reader: LogReader) -> Iterator[Flaw]:
    tail = reader.tail
    if tail is None or (tail.index, tail.end, tail.chain) == (clean.last_index, clean.end, clean.chain):
        return
    stopped = f"when the node was stopped in order, its log ended with entry {clean.last_index} at {clean.end}"
    found = f"now with entry {tail.index} at {tail.end}"
    if (tail.index, tail.end) == (clean.last_index, clean.end):
        found = "its last entry is another one now"
    first = min(tail.end, clean.end)
    holding = [segment.path for segment in place.segments if segment.base <= first < segment.base + place.segment_bytes]
    path = holding[0] if holding else place.path / "clean"
    yield Flaw(FlawKind.DAMAGE, path, first, min(tail.index, clean.last_index) + 1, f"{stopped}, {found}")
