"""Checks the ends of a replica's indexes: missing entries, surplus entries, and the links between entries of the key
index.

Span readers compare the indexes with the entries of the log. This check runs after all spans were read, because it
needs the end of the log, the end of each queue, and the list of deleted topics. After a kill, indexes may lag behind
the log, and the next start completes them. Indexes must never have an entry for a message that the log does not have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ledger.validation.judging.violation import Violation, ViolationKind
from ledger.validation.naming import topic_name
from ledger.validation.replay.timed_index_check import WaitingAt, check_timed_index
from ledger.validation.sources.replica import LogReplica
from ledger.validation.spans.key_entries import WrongKeys
from ledger.validation.spans.key_files import KeyIndexFile, key_files_in, link_flaws, unreadable_in
from ledger.validation.spans.unit_check import AbsentUnits, first_of_each
from ledger.words import counted
from store.disk.numbered import is_number
from store.index.consume_queue import UNIT_BYTES, UNITS_PER_FILE


@dataclass(frozen=True, slots=True)
class IndexEnds:
    """The facts about a replica's log that the check of its indexes needs. The check compares the last entries of
    the replica's indexes with the facts about its log."""

    replica: LogReplica
    # Next offsets by topic id and queue.
    ends: Mapping[tuple[int, int], int]
    # Deleted topics: their queues may still have files.
    deleted: frozenset[int]
    # Whether every queue that may have units is in `ends`.
    knows_queues: bool
    # Whether no entry of the log is missing. Then keys after the end of the log belong to no batch.
    is_continuous: bool
    log_end: int
    committed: int
    absent_units: Sequence[AbsentUnits]
    absent_keys: Sequence[WrongKeys]
    # The names of topics, by id.
    names: Mapping[int, str]
    # The waiting messages at the checkpoint, if they are known.
    waiting: WaitingAt | None = None


@dataclass(frozen=True, slots=True)
class IndexEndsFound:
    violations: tuple[Violation, ...] = ()
    # Gaps that a kill leaves and the next start repairs. They are not violations.
    left: tuple[Violation, ...] = ()
    # Why something could not be judged.
    unread: tuple[str, ...] = ()


def check_index_ends(known: IndexEnds) -> IndexEndsFound:
    """Return the faults at the end of each index: missing entries and surplus entries.

    A running replica is not checked, because its indexes change."""
    if known.replica.indexes is None or known.replica.is_running:
        return IndexEndsFound()
    check = _Check(known)
    timed = check_timed_index(known.replica, known.waiting)
    check.left += timed.left
    try:
        violations = (*check.units(), *check.keys(), *timed.violations)
    except OSError as error:
        what = f"{known.replica.source}, shard {known.replica.shard}: {error.filename} cannot be read: {error.strerror}"
        return IndexEndsFound(unread=(what,))
    return IndexEndsFound(violations, tuple(check.left))


def notes_of(left: Sequence[Violation]) -> Iterator[tuple[int, str]]:
    """Yield the shard and a sentence for each kind of gap that a kill of the node has left in the indexes."""
    for shard, source in sorted({(each.shard, each.source) for each in left}):
        mine = Counter(each.kind for each in left if (each.shard, each.source) == (shard, source))
        queues, files = mine[ViolationKind.UNIT_MISSING], mine[ViolationKind.DAMAGED_FILE]
        timed = mine[ViolationKind.UNIT_WRONG]
        said = (
            (queues, f"the units of {counted(queues, 'queue')} lag behind the log"),
            (mine[ViolationKind.KEY_MISSING], "the key index lags behind the log"),
            (timed, "the files of the timed index differ from the checkpoint"),
            (files, f"{counted(files, 'file')} of units {'ends' if files == 1 else 'end'} within a unit"),
        )
        yield from ((shard, f"{source}: {what}, as after a kill") for count, what in said if count)


class _Check:
    def __init__(self, known: IndexEnds) -> None:
        self._known = known
        self._replica = known.replica
        assert known.replica.indexes is not None
        self._queues = Path(known.replica.indexes) / "queues"
        self._keys = Path(known.replica.indexes) / "keys"
        self.left: list[Violation] = []

    # -- units

    def units(self) -> Iterator[Violation]:
        ends = {name: _unit_files(self._queues / name) for name in _names(self._queues)}
        yield from self._absent(ends)
        for name, files in sorted(ends.items()):
            topic, _, queue = name.partition("-")
            # Other names are not those of queues. Not every digit that `isdigit` knows is one for `int`.
            is_queue = name.isascii() and topic.isdigit() and queue.isdigit()
            if is_queue and int(topic) not in self._known.deleted:
                yield from self._surplus((int(topic), int(queue)), files)

    def _absent(self, files: Mapping[str, Sequence[tuple[Path, int]]]) -> Iterator[Violation]:
        for absent in first_of_each(self._known.absent_units):
            if absent.topic_id in self._known.deleted or absent.index > self._known.committed:
                continue
            behind = files.get(f"{absent.topic_id}-{absent.queue}", ())
            goes_on = any(int(path.name) + units > absent.offset for path, units in behind)
            reason = f"the unit of offset {absent.offset} is missing, although entry {absent.index} is committed"
            missing = self._violation(
                ViolationKind.UNIT_MISSING, reason, absent.path, absent.offset % UNITS_PER_FILE * UNIT_BYTES,
                absent.index, absent.topic_id, absent.queue, absent.offset,
            )  # fmt: skip
            if self._replica.clean is None and not goes_on:
                self.left.append(missing)
            else:
                yield missing

    def _surplus(self, key: tuple[int, int], files: Sequence[tuple[Path, int]]) -> Iterator[Violation]:
        end = self._known.ends.get(key, 0 if self._known.knows_queues else None)
        if end is None:
            return
        for path, units in files:
            self._look_at_last_unit(path, units, key)
            base = int(path.name)
            first = max(0, end - base)
            if first < units:
                reason = f"the log has no messages for the units from offset {base + first} on"
                place = first * UNIT_BYTES
                yield self._violation(ViolationKind.UNIT_SURPLUS, reason, str(path), place, None, *key, base + first)

    def _look_at_last_unit(self, path: Path, units: int, key: tuple[int, int]) -> None:
        size = path.stat().st_size
        if size != units * UNIT_BYTES:
            reason = f"the file ends within a unit, at {size} bytes"
            self.left.append(
                self._violation(ViolationKind.DAMAGED_FILE, reason, str(path), units * UNIT_BYTES, None, *key)
            )

    # -- keys

    def keys(self) -> Iterator[Violation]:
        for path, reason in unreadable_in(self._keys):
            yield self._violation(ViolationKind.DAMAGED_FILE, reason, str(path), 0)
        files = key_files_in(self._keys)
        for number, file in enumerate(files):
            for flaw in link_flaws(file.path, file.pieces(), file.slots, is_last=number == len(files) - 1):
                yield self._violation(ViolationKind.KEY_LINK, flaw.reason, str(flaw.path), flaw.position)
            yield from self._surplus_keys(file)
        yield from self._absent_keys()

    def _surplus_keys(self, file: KeyIndexFile) -> Iterator[Violation]:
        there = file.between(self._known.log_end, (1 << 63) - 1)
        if len(there.entries) and self._known.is_continuous:
            reason = f"{len(there.entries)} entries belong to batches after the end of the log"
            yield self._violation(ViolationKind.KEY_SURPLUS, reason, str(file.path), file.place(there.first))

    def _absent_keys(self) -> Iterator[Violation]:
        missing = [each for each in self._known.absent_keys if (each.index or 0) <= self._known.committed]
        if not missing:
            return
        first = min(missing, key=lambda each: each.log_position)
        reason = f"the keys of entry {first.index} are missing, although the entry is committed"
        violation = self._violation(first.kind, reason, first.path, first.position, first.index)
        if self._replica.clean is None:
            self.left.append(violation)
        else:
            yield violation

    def _violation(
        self,
        kind: ViolationKind,
        reason: str,
        path: str,
        position: int,
        index: int | None = None,
        topic: int | None = None,
        queue: int | None = None,
        offset: int | None = None,
    ) -> Violation:
        return Violation(
            kind, self._replica.shard, self._replica.source, reason, index=index, position=position, path=path,
            topic=None if topic is None else topic_name(self._known.names, topic), queue=queue, offset=offset,
        )  # fmt: skip


def _names(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir()) if directory.is_dir() else []


def _unit_files(directory: Path) -> list[tuple[Path, int]]:
    """Return the unit files of a queue, with the number of whole units in each."""
    if not directory.is_dir():
        return []
    paths = sorted(path for path in directory.iterdir() if is_number(path.name))
    return [(path, path.stat().st_size // UNIT_BYTES) for path in paths]
