"""The CommitLog compared with a plain list, over random sequences of appends, copies, cuts, flushes, moves of the log
start, resets, stops and kills.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from store import CleanMark, CommitLog, EntryDraft, LogSettings, MemoryDisk, PreviousRun, Snapshot
from tests.store.sample_log import DIRECTORY, SEGMENT, content, draft, open_log

SIZES = st.lists(st.integers(0, SEGMENT - 80), min_size=1, max_size=6)


class LogAgainstList(RuleBasedStateMachine):
    disk: MemoryDisk
    log: CommitLog

    @initialize()
    def start(self) -> None:
        self.disk = MemoryDisk()
        self.log = open_log(self.disk)
        # (term, body) of each entry.
        self.model: list[tuple[int, bytes]] = []
        self.made = 0
        # Index and term of the entry before the first entry.
        self.snapshot: Snapshot | None = None
        self.base_term = 0

    @property
    def first(self) -> int:
        return 1 if self.snapshot is None else self.snapshot.index + 1

    def _open(self, disk: MemoryDisk, clean: CleanMark | None = None) -> CommitLog:
        return CommitLog.open(
            disk, DIRECTORY, LogSettings(segment_bytes=SEGMENT), PreviousRun(snapshot=self.snapshot, clean=clean)
        )

    def _drafts(self, sizes: list[int]) -> list[EntryDraft]:
        self.made += len(sizes)
        return [draft(self.made * 7 + i, size) for i, size in enumerate(sizes)]

    def _term(self, increase: int) -> int:
        return (self.model[-1][0] if self.model else max(1, self.base_term)) + increase

    @rule(sizes=SIZES, increase=st.integers(0, 2))
    def append(self, sizes: list[int], increase: int) -> None:
        drafts, term = self._drafts(sizes), self._term(increase)
        self.log.append(drafts, term=term, commit=self.log.last_index // 2, now_ms=self.made)
        self.model += [(term, made.body) for made in drafts]

    @rule(sizes=SIZES, increase=st.integers(0, 2), back=st.integers(0, 3), max_bytes=st.integers(1, 2 * SEGMENT))
    def copy_from_leader(self, sizes: list[int], increase: int, back: int, max_bytes: int) -> None:
        """A leader with the same log appends entries, and ranges that begin up to `back` entries early bring them to
        this log."""
        leader = self._open(self.disk.after_kill())
        drafts, term = self._drafts(sizes), self._term(increase)
        leader.append(drafts, term=term, commit=self.log.last_index, now_ms=self.made)
        while self.log.last_index < leader.last_index:
            prev = max(self.first - 1, self.log.last_index - back)
            data = leader.reading.read_range(prev + 1, leader.reading.reach(prev + 1, max_bytes))
            headers = self.log.examine(data, prev)
            if headers[-1].index <= self.log.last_index:
                back = 0  # the range brought nothing new
            else:
                self.log.write(data, headers, self.log.last_index + 1)
        self.model += [(term, made.body) for made in drafts]
        assert (self.log.end, self.log.tail.chain) == (leader.end, leader.tail.chain)

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        keep = round(len(self.model) * share)
        self.log.truncate(self.first - 1 + keep)
        del self.model[keep:]

    @rule(share=st.floats(0, 1), removes=st.booleans())
    def move_the_start(self, share: float, removes: bool) -> None:
        dropped = round(len(self.model) * share)
        self.snapshot = self.log.snapshot_at(self.first - 1 + dropped, configuration=b"", state=b"")
        self.log.drop_before(self.snapshot)
        if removes:
            self.log.segments.remove_dropped()
        del self.model[:dropped]
        self.base_term = self.snapshot.term

    @rule(sizes=SIZES, ahead=st.integers(0, 5))
    def reset_behind_another_leader(self, sizes: list[int], ahead: int) -> None:
        leader = open_log(MemoryDisk())
        term = self._term(1)
        leader.append(self._drafts([*sizes] * (ahead + 1)), term=term, commit=0, now_ms=self.made)
        if leader.last_index >= self.first:
            self.snapshot = leader.snapshot_at(leader.last_index, configuration=b"", state=b"")
            self.log.reset(self.snapshot)
            self.model.clear()
            self.base_term = term

    @rule()
    def prepare_next(self) -> None:
        self.log.prepare_next()
        assert self.log.next_is_prepared

    @rule()
    def sync(self) -> None:
        term = self.model[-1][0] if self.model else self.base_term
        assert self.log.sync() == (self.first - 1 + len(self.model), term)

    @rule()
    def stop_in_order(self) -> None:
        mark = self.log.clean_mark()
        self.log.close()
        self.log = self._open(self.disk, clean=mark)

    @rule()
    def kill(self) -> None:
        self.disk = self.disk.after_kill()
        self.log = self._open(self.disk)

    @invariant()
    def log_is_the_list(self) -> None:
        assert [(term, body) for _, term, _, body in content(self.log)] == self.model
        assert (self.log.first_index, self.log.last_index) == (self.first, self.first - 1 + len(self.model))
        assert self.log.term(self.first - 1) == self.base_term

    @invariant()
    def reach_is_maximal(self) -> None:
        for first in range(self.first, self.log.last_index + 1):
            last = self.log.reading.reach(first, 500)
            size = len(self.log.reading.read_range(first, last))
            assert last == first or size <= 500
            if (
                last < self.log.last_index
                and self.log.reading.position(last + 1) // SEGMENT == self.log.reading.position(first) // SEGMENT
            ):
                assert len(self.log.reading.read_range(first, last + 1)) > 500


TestLogAgainstList = LogAgainstList.TestCase
TestLogAgainstList.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
