"""The files of a timed index are compared with the waiting messages that the log has at the checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ledger.state.timed_table import TimedCursor
from ledger.validation.judging.violation import ViolationKind
from ledger.validation.replay.timed_index_check import TimedIndexFound, WaitingAt, check_timed_index
from ledger.validation.replay.timed_record import TimedRecord
from store import Checkpoint, PosixDisk, Snapshot, TimedIndex

HOUR_MS, INDEX, MINUTE_MS = 3_600_000, 412, 60_000


class Files:
    """The indexes of a replica with five messages, of which the second was cancelled and the third was copied."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.index = TimedIndex(PosixDisk(), directory / "timed")
        self.put(range(5), [HOUR_MS + each * MINUTE_MS for each in range(5)], 1000)
        self.index.cancel(1, HOUR_MS + MINUTE_MS)
        self.index.replace(*self.units([2], [HOUR_MS + 2 * MINUTE_MS]), 5000, 100, *self.numbers(1))
        self.replica = SimpleNamespace(
            indexes=str(directory), checkpoint=str(directory / "checkpoint"), is_running=False, clean=object(), shard=3,
            source="node-1",
        )  # fmt: skip

    def put(self, identities: range, times: list[int], position: int) -> None:
        self.index.put(*self.units(list(identities), times), position, 100, *self.numbers(len(identities)))

    @staticmethod
    def units(identities: list[int], times: list[int]) -> tuple[Any, Any]:
        return np.array(identities, np.uint64), np.array(times, np.int64)

    @staticmethod
    def numbers(count: int) -> tuple[Any, Any]:
        return np.arange(count, dtype=np.uint32), np.ones(count, np.uint32)

    def save(self) -> None:
        marks = tuple(mark.inside("timed") for mark in self.index.write(self.index.draft()))
        snapshot = Snapshot(INDEX, 1, 0, 9000, 0, b"", b"")
        (self.directory / "checkpoint").write_bytes(Checkpoint(snapshot, 0, False, marks).encode())
        self.index.close()

    def found(self, known: WaitingAt | None) -> TimedIndexFound:
        return check_timed_index(cast("Any", self.replica), known)


def waiting(*messages: tuple[int, int, int], **changed: Any) -> WaitingAt:
    """What the log has: messages as (identity, delivery time in minutes after an hour, position)."""
    identities, minutes, positions = zip(*messages, strict=True)
    times = np.array([HOUR_MS + each * MINUTE_MS for each in minutes], np.int64)
    known = WaitingAt(
        INDEX, np.array(identities, np.uint64), times, np.array(positions, np.uint64), 0, (), (0, 0, 0)
    )  # fmt: skip
    return replace(known, **changed)


RIGHT = ((0, 0, 1000), (2, 2, 5000), (3, 3, 1000), (4, 4, 1000))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = Files(tmp_path)
    made.save()
    return made


def told(files: Files, known: WaitingAt) -> list[tuple[ViolationKind, str]]:
    return [(each.kind, each.reason) for each in files.found(known).violations]


def test_equal_files_are_right(files: Files) -> None:
    assert files.found(waiting(*RIGHT)) == TimedIndexFound()


def test_the_check_changes_no_file(files: Files) -> None:
    files.index.put(*files.units([9], [HOUR_MS]), 6000, 100, *files.numbers(1))  # after the checkpoint
    files.index.close()
    before = {path.name: path.read_bytes() for path in (files.directory / "timed").iterdir()}
    assert files.found(waiting(*RIGHT)) == TimedIndexFound()
    assert {path.name: path.read_bytes() for path in (files.directory / "timed").iterdir()} == before


def test_a_message_that_the_index_lacks(files: Files) -> None:
    expected = (
        "the timed index lacks a message that waits after entry 412: the waiting message 1, due at 1970-01-01T01:01"
    )
    ((kind, reason),) = told(files, waiting((0, 0, 1000), (1, 1, 1000), *RIGHT[1:]))
    assert (kind, reason[: len(expected)]) == (ViolationKind.UNIT_MISSING, expected)


def test_a_message_that_does_not_wait(files: Files) -> None:
    reason = "the timed index has a message that does not wait after entry 412: the waiting message 3"
    assert told(files, waiting(*RIGHT[:2], RIGHT[3])) == [(ViolationKind.UNIT_SURPLUS, reason)]


@pytest.mark.parametrize("changed", [(3, 9, 1000), (3, 3, 2000)])
def test_a_message_with_another_time_or_place(files: Files, changed: tuple[int, int, int]) -> None:
    ((kind, reason),) = told(files, waiting(*RIGHT[:2], changed, RIGHT[3]))
    assert kind is ViolationKind.UNIT_WRONG
    assert "another delivery time or entry after entry 412: the waiting message 3" in reason


def test_delivered_messages_and_messages_of_before_the_log_may_be_there(files: Files) -> None:
    """An open message is delivered, and its unit stays until the cursor settles it."""
    assert told(files, waiting(*RIGHT[:2], RIGHT[3], open=(3,))) == []
    assert told(files, waiting(*RIGHT[1:], known_from=1)) == []
    settled = (HOUR_MS + 3 * MINUTE_MS, 3, 5)
    assert told(files, waiting(RIGHT[3], cursor=settled)) == []


def test_many_differences_are_counted(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.put(range(100, 150), [HOUR_MS] * 50, 7000)
    files.save()
    found = told(files, waiting(*RIGHT))
    assert len(found) == 21
    assert found[-1][1] == "the timed index has a message that does not wait after entry 412: 30 more"


def test_a_file_that_differs_from_the_checkpoint(files: Files) -> None:
    (path,) = (files.directory / "timed").glob("60-*.units")
    data = path.read_bytes()
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    reason = "the files of the timed index differ from the checkpoint"
    assert told(files, waiting(*RIGHT)) == [(ViolationKind.UNIT_WRONG, reason)]
    files.replica.clean = None  # the node was killed, and its next start builds the index again
    found = files.found(waiting(*RIGHT))
    assert (found.violations, [each.reason for each in found.left]) == ((), [reason])


def test_what_cannot_be_compared(files: Files) -> None:
    assert files.found(None) == TimedIndexFound()
    wrong = waiting((7, 7, 7))
    assert files.found(replace(wrong, index=3)) == TimedIndexFound()
    files.replica.is_running = True
    assert files.found(wrong) == TimedIndexFound()


def test_an_index_that_was_never_used(tmp_path: Path) -> None:
    files = Files(tmp_path)
    snapshot = Snapshot(INDEX, 1, 0, 9000, 0, b"", b"")
    (tmp_path / "checkpoint").write_bytes(Checkpoint(snapshot, 0, False, ()).encode())
    assert [kind for kind, _ in told(files, waiting(RIGHT[0]))] == [ViolationKind.UNIT_MISSING]


def test_the_record_knows_the_places_of_copies() -> None:
    record = TimedRecord(100)
    assert record.copy([7, 9], [50, 52], (2, 0), [1, 3], 4000) is None
    assert record.copy([7], [50], (2, 0), [1], 6000) is None
    record.cancel(9, 52)
    identities, times, positions, known_from = record.waiting(TimedCursor())
    assert (identities.tolist(), times.tolist(), positions.tolist(), known_from) == ([7], [50], [6000], 100)
