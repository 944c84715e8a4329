"""Defines the parameters of `CommitLog.open`: the settings of a log, the facts about the previous run of the node,
and callbacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from store.directory.clean_mark import CleanMark
from store.log.crash_end import BeforeCut
from store.log.grid import Grid
from store.log.recovery import KnownEntries, OnEntry, OnProgress
from store.log.tail import EMPTY, LogTail
from store.log.writing import DIRECTLY, Writing
from store.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The segment length of a log, and the way in which bytes are written to its files."""

    # Length of each segment file, a multiple of 8. A log keeps the segment length with which it began.
    segment_bytes: int
    # How appended bytes reach the files.
    writing: Writing = DIRECTLY
    grid: Grid = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", Grid(self.segment_bytes))  # refuses a wrong length


@dataclass(frozen=True, slots=True)
class PreviousRun:
    """The facts that a start knows about the previous run before it opens the log."""

    # The snapshot at which the log begins (`SnapshotFile.snapshot`); None if it begins at entry 1.
    snapshot: Snapshot | None = None
    # A reset to this snapshot was begun and not finished: all segments are void and are removed.
    is_resetting: bool = False
    # The mark of the last stop, if it was orderly. Without the mark, no byte counts as durable before `sync`.
    clean: CleanMark | None = None
    # The machine, or a process that staged its writes, ended without an orderly stop. Then a flaw may end the log.
    has_crashed: bool = False
    # The entries for which a checkpoint vouches. Recovery reads only the last part of them.
    known: KnownEntries | None = None
    # False if not even that part is to be read, because the log is known to be damaged and will be repaired while open.
    reads_again: bool = True

    def __post_init__(self) -> None:
        assert self.clean is None or not self.has_crashed, "an orderly stop is no crash"

    @property
    def start_tail(self) -> LogTail:
        """The tail that the first entry of the log follows."""
        return self.snapshot.tail if self.snapshot is not None else EMPTY


@dataclass(frozen=True, slots=True)
class LogCallbacks:
    """Functions that the log calls while `CommitLog.open` runs, or when a sync has failed."""

    # Called, in any thread, after a sync has failed. The next start must then treat the stop as a crash.
    on_loss: Callable[[], None] = lambda: None
    # Called with the end of the log after a crash, before any byte is changed.
    before_cut: BeforeCut | None = None
    # Called with header and body of each entry that recovery reads. The body's view may be kept.
    on_entry: OnEntry | None = None
    # Called now and then during recovery, with the bytes read so far and the bytes to read in all.
    on_progress: OnProgress | None = None


NO_PREVIOUS_RUN = PreviousRun()
NO_CALLBACKS = LogCallbacks()
