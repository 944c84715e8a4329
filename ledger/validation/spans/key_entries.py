"""Compares the entries of the key index with the entries that follow from the batches of a span.

    entry 57: topic 3, keys and look-up keys a, b, at 4,096, 800 bytes
    <keys>/00000000000000000000         entries 9, 10: hashes of a and b, 4,096, 800, time

Index entries are in the order of the log, so the index entries of a span are neighbours. This module computes all
index entries of a span and compares them as a whole. If the computed entries differ from the entries in the key file,
the module leaves out the equal entries at the beginning and at the end, and reports the entries in between.
`key_files.py` checks how the entries of a file are linked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ledger.validation.judging.violation import ViolationKind
from ledger.validation.spans.batches import Facts, key_hashes, look_up_hashes
from ledger.validation.spans.block import SpanBlock
from ledger.validation.spans.key_files import KeyEntries, KeyIndexFile, key_files_in
from store.index.key_index import topic_spread

DUE = np.dtype([("hash", "<u8"), ("position", "<u8"), ("size", "<u4"), ("append_time_ms", "<i8")])
Due = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class WrongKeys:
    """Entries of the key index that differ from the log."""

    kind: ViolationKind
    # The index of the first log entry whose keys are wrong or missing.
    index: int | None
    path: str
    # The byte position in the file.
    position: int
    log_position: int
    # The byte position after the last wrong entry in the file; None if entries are only missing.
    end: int | None = None


class KeyEntryCheck:
    """Compares the key index of one replica with the entries of the replica's log."""

    def __init__(self, indexes: str) -> None:
        self._directory = Path(indexes) / "keys"
        self._files: list[KeyIndexFile] | None = None
        self.right = 0
        self.wrong: list[WrongKeys] = []
        # Missing entries at the end of the index: the index may lag behind its log.
        self.absent: list[WrongKeys] = []

    def compare(self, block: SpanBlock, facts: Facts, begin: int, end: int) -> None:
        """Compare the index entries of all batches in the range [begin, end) of log positions."""
        due = due_of(block, facts)
        try:
            self._compare(facts, due, begin, end)
        except FileNotFoundError:  # retention has removed a file that was there before
            self._files = None
            self._compare(facts, due, begin, end)

    def _compare(self, facts: Facts, due: Due, begin: int, end: int) -> None:
        if self._files is None:
            self._files = key_files_in(self._directory)
        if not self._files and not len(due):
            return
        if self._agrees(due, [file.between(begin, end) for file in self._files]):
            self.right += len(due)
            return
        # A wrong position may have misled the binary search, so now read all index entries.
        there = [file.between(begin, end, thoroughly=True) for file in self._files]
        if self._agrees(due, there):
            self.right += len(due)
        else:
            self._tell(facts, due, there)

    @staticmethod
    def _agrees(due: Due, there: list[KeyEntries]) -> bool:
        found = _joined(there)
        return len(found) == len(due) and found.tobytes() == due.tobytes()

    def _tell(self, facts: Facts, due: Due, there: list[KeyEntries]) -> None:
        found = _joined(there)
        alike = min(len(found), len(due))
        differs = np.flatnonzero(found[:alike] != due[:alike])
        first = int(differs[0]) if len(differs) else alike
        rest = alike - first
        behind = np.flatnonzero(found[len(found) - rest :][::-1] != due[len(due) - rest :][::-1])
        same_behind = int(behind[0]) if len(behind) else rest
        missing, extra = due[first : len(due) - same_behind], found[first : len(found) - same_behind]
        self.right += first + same_behind
        index = _index_at(facts, int(missing["position"][0])) if len(missing) else None
        at = int(missing["position"][0]) if len(missing) else int(extra["position"][0])
        kind = ViolationKind.KEY_WRONG if len(missing) and len(extra) else ViolationKind.KEY_MISSING
        if not len(missing):
            kind = ViolationKind.KEY_SURPLUS
        if len(extra):
            self.wrong += _in_files(there, kind, index, at, first, first + len(extra))
            return
        path, position = self._place(there, first, at)
        wrong = WrongKeys(kind, index, path, position, at)
        goes_on = same_behind > 0 or any(file.reaches(at) for file in self._files or ())
        (self.wrong if goes_on else self.absent).append(wrong)

    def _place(self, there: list[KeyEntries], number: int, log_position: int) -> tuple[str, int]:
        """Return the file and the byte position of the entry with this number. The function also works for an entry
        that does not exist."""
        for each in there:
            if number < len(each.entries):
                return str(each.file.path), each.file.place(each.first + number)
            number -= len(each.entries)
        fitting = [each for each in there if len(each.entries) or int(each.file.path.name) <= log_position]
        if not fitting:
            return str(self._directory), 0
        last = fitting[-1]
        return str(last.file.path), last.file.place(last.first + len(last.entries))


def due_of(block: SpanBlock, facts: Facts) -> Due:
    """Return the index entries that the key index must have for the given batches, in the order of the index."""
    keys, more = key_hashes(block, facts), look_up_hashes(block, facts)
    of, values = np.concatenate((keys.of, more.of)), np.concatenate((keys.values, more.values))
    there = values != 0
    of, values = of[there], values[there]
    if not len(of):
        return np.empty(0, DUE)
    values = values ^ topic_spread(facts["topic_id"][of])
    if len(of) > 1:
        order = np.lexsort((values, of))
        of, values = of[order], values[order]
        new = np.append(True, (of[1:] != of[:-1]) | (values[1:] != values[:-1]))
        of, values = of[new], values[new]
    due = np.empty(len(of), DUE)
    due["hash"] = values
    for name in ("position", "size", "append_time_ms"):
        due[name] = facts[name][of]
    return due


def _joined(there: list[KeyEntries]) -> Due:
    parts = []
    for each in there:
        part = np.empty(len(each.entries), DUE)
        for name in ("hash", "position", "size"):
            part[name] = each.entries[name]
        part["append_time_ms"] = each.entries["time"].astype(np.int64) + each.file.begin_ms
        parts.append(part)
    return np.concatenate(parts) if parts else np.empty(0, DUE)


def _in_files(
    there: list[KeyEntries], kind: ViolationKind, index: int | None, at: int, first: int, end: int
) -> Iterator[WrongKeys]:
    """Return the wrong entries with the numbers first .. end - 1, as one `WrongKeys` for each file."""
    begin = 0
    for each in there:
        low, high = max(first - begin, 0), min(end - begin, len(each.entries))
        if low < high:
            file = each.file
            yield WrongKeys(
                kind, index, str(file.path), file.place(each.first + low), at, file.place(each.first + high)
            )
        begin += len(each.entries)


def _index_at(facts: Facts, position: int) -> int:
    return int(facts["index"][np.flatnonzero(facts["position"] == position)[0]])
