"""The power is cut: flushed entries are there, all entries there were written, a second start finds the same log."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from store import (
    CommitLog,
    CrashEnd,
    DamagedError,
    EntryDraft,
    EntryKind,
    LogCallbacks,
    LogSettings,
    PreviousRun,
    Vote,
    VoteFile,
)
from store.disk.memory_disk import Killed
from tests.store.power_disk import PowerDisk
from tests.store.sample_log import DIRECTORY, SEGMENT, append, content, draft, open_log

pytestmark = pytest.mark.long

FIRST = DIRECTORY / f"{0:020}"
SECOND = DIRECTORY / f"{SEGMENT:020}"
THIRD = DIRECTORY / f"{2 * SEGMENT:020}"

Entries = list[tuple[int, int, int, bytes]]


def after_crash(disk: PowerDisk, before_cut: Callable[[CrashEnd], None] | None = None) -> CommitLog:
    return CommitLog.open(
        disk,
        DIRECTORY,
        LogSettings(segment_bytes=SEGMENT),
        PreviousRun(has_crashed=True),
        LogCallbacks(before_cut=before_cut),
    )


class Workload:
    """A log that is appended to, cut and flushed at random, and the entries that it held since its last flush."""

    def __init__(self, disk: PowerDisk, log: CommitLog, chance: random.Random) -> None:
        self.disk = disk
        self.chance = chance
        self.log = log
        self.term = log.tail.term + 1
        # Entries that were flushed and not cut since.
        self.flushed: Entries = content(log)
        self.pictures: list[Entries] = [self.flushed]

    def step(self) -> None:
        doing = self.chance.choices([self.grow, self.cut, self.flush, self.log.prepare_next], [10, 1, 2, 1])[0]
        doing()

    def grow(self) -> None:
        sizes = [self.chance.choice([0, 9, 60, 200, 700, 944]) for _ in range(self.chance.randint(1, 4))]
        drafts = [draft(self.chance.randint(0, 999), size) for size in sizes]
        now_ms = self.log.tail.append_time_ms + 1
        # A write that the power cut interrupts may be there up to any of its entries, so its entries are noted before
        # the write.
        twin = open_log(self.disk.after_kill())
        twin.append(drafts, term=self.term, commit=self.log.last_index // 2, now_ms=now_ms)
        self.pictures.append(content(twin))
        self.log.append(drafts, term=self.term, commit=self.log.last_index // 2, now_ms=now_ms)

    def cut(self) -> None:
        keep = self.chance.randint(self.log.last_index // 2, self.log.last_index)
        self.term += 1
        self.flushed = self.flushed[:keep]
        self.log.truncate(keep)
        self.pictures.append(content(self.log))

    def flush(self) -> None:
        self.log.sync()
        self.flushed = content(self.log)
        self.pictures = [self.flushed]

    def check(self, found: Entries) -> None:
        assert found[: len(self.flushed)] == self.flushed, "what was flushed is there"
        assert any(found == picture[: len(found)] for picture in self.pictures), "what is there was written"


def live(disk: PowerDisk, log: CommitLog, chance: random.Random) -> Workload:
    """Run some steps, and cut the power, possibly in the middle of a step."""
    workload = Workload(disk, log, chance)
    try:
        for _ in range(chance.randint(0, 12)):
            workload.step()
        disk.kill_after(chance.randint(0, 1500))
        while chance.random() < 0.9:
            workload.step()
    except Killed:
        pass
    return workload


@pytest.mark.parametrize("seed", range(150))
def test_lives_between_power_losses(seed: int) -> None:
    chance = random.Random(seed)
    disk = PowerDisk()
    log = open_log(disk)
    for _ in range(4):
        workload = live(disk, log, chance)
        disk = disk.after_power_loss(chance)
        ends: list[CrashEnd] = []
        log = after_crash(disk, ends.append)
        found = content(log)
        workload.check(found)
        assert [(end.last_index, end.end, bool(end.reason)) for end in ends] == [
            (log.last_index, log.end, log.cut_by_crash)
        ]
        again = after_crash(disk.after_power_loss(chance))
        assert content(again) == found, "a second start finds the same"
        assert not again.cut_by_crash, "and nothing that is left to cut"


@pytest.mark.parametrize("seed", range(100))
def test_a_power_loss_in_the_middle_of_the_cut_does_no_harm(seed: int) -> None:
    chance = random.Random(seed)
    disk = PowerDisk()
    workload = live(disk, open_log(disk), chance)
    disk = disk.after_power_loss(chance)
    expected = content(after_crash(disk.copied()))
    for _ in range(6):
        disk.kill_after(chance.randint(0, 600))
        try:
            after_crash(disk)
        except Killed:
            disk = disk.after_power_loss(chance)
    disk = disk.after_power_loss(chance)
    found = content(after_crash(disk))
    assert found == expected
    workload.check(found)


def test_what_was_cut_does_not_come_back_by_being_erased_in_part() -> None:
    """The torn body should have been zeros. If the body were erased before the header, the entry would be whole
    again."""
    before = PowerDisk()
    append(open_log(before), 45)
    open_log(before).append([EntryDraft(EntryKind.BATCH, bytes(600))], term=1, commit=0, now_ms=2000)
    before.flip(FIRST, 500)
    for seed in range(60):
        disk = before.copied()
        disk.kill_after(100 + 10 * seed)
        with pytest.raises(Killed):
            after_crash(disk)
        assert after_crash(disk.after_power_loss(random.Random(seed))).last_index == 1


class TestWhatEndsTheLog:
    """One segment of entries that were never flushed: any flaw in them ends the log."""

    @pytest.fixture
    def disk(self) -> PowerDisk:
        disk = PowerDisk()
        append(open_log(disk), *[45] * 7)  # 128 bytes each
        return disk.copied()

    @pytest.mark.parametrize("at", [0, 8, 30, 100, 127])
    def test_a_torn_entry(self, disk: PowerDisk, at: int) -> None:
        disk.flip(FIRST, 3 * 128 + at)
        with pytest.raises(DamagedError):
            open_log(disk.copied())
        heard: list[tuple[CrashEnd, bool]] = []

        def hear(end: CrashEnd) -> None:
            heard.append((end, any(disk.content(FIRST)[end.end :])))

        log = after_crash(disk, hear)
        ((end, was_there),) = heard
        assert was_there, "told before anything is changed"
        assert (end.last_index, end.end) == (3, 3 * 128)
        assert "position 384" in end.reason or at == 4
        assert log.cut_by_crash
        assert not any(disk.content(FIRST)[3 * 128 :])
        append(log, 10)
        assert content(open_log(disk)) == content(log)

    def test_a_blank_one_before_others(self, disk: PowerDisk) -> None:
        disk.open(FIRST).write(2 * 128, bytes(128))
        log = after_crash(disk)
        assert (log.last_index, log.cut_by_crash) == (2, True)
        assert len(content(open_log(disk))) == 2

    def test_an_end_with_but_blank_behind_it_is_no_cut(self, disk: PowerDisk) -> None:
        disk.open(FIRST).write(5 * 128, bytes(2 * 128))
        ends: list[CrashEnd] = []
        assert not after_crash(disk, ends.append).cut_by_crash
        assert ends == [CrashEnd(last_index=5, end=5 * 128, reason="")]

    def test_one_of_an_unknown_version_is_refused(self, disk: PowerDisk) -> None:
        """A program that is older than the log must not cut the log."""
        for byte in (4, 5, 6, 7):
            own = disk.copied()
            own.flip(FIRST, 3 * 128 + byte, bit=6)
            with pytest.raises(DamagedError, match="not known to this program"):
                after_crash(own)

    def test_a_log_of_which_nothing_is_left(self) -> None:
        disk = PowerDisk()
        append(open_log(disk), 45)
        disk.sync_directory(DIRECTORY)
        disk.flip(FIRST, 3)
        log = after_crash(disk)
        assert (log.last_index, log.cut_by_crash) == (0, True)
        append(log, 7)
        assert content(open_log(disk)) == content(log)


class TestWhatIsDamageStill:
    """If a third segment exists, the first segment was flushed, so a power loss cannot change it."""

    @pytest.fixture
    def disk(self) -> PowerDisk:
        disk = PowerDisk()
        append(open_log(disk), 400, 400, 900, 900)
        return disk.copied()

    def refused(self, disk: PowerDisk) -> None:
        before = {name: disk.content(DIRECTORY / name) for name in disk.list(DIRECTORY)}
        with pytest.raises(DamagedError):
            after_crash(disk, lambda _: pytest.fail("nothing is to be cut"))
        assert {name: disk.content(DIRECTORY / name) for name in disk.list(DIRECTORY)} == before

    @pytest.mark.parametrize("at", [1, 100, 490, 700])
    def test_a_flaw_in_it(self, disk: PowerDisk, at: int) -> None:
        disk.flip(FIRST, at)
        self.refused(disk)

    @pytest.mark.parametrize("base", [0, SEGMENT])
    def test_a_missing_name_between_two(self, disk: PowerDisk, base: int) -> None:
        disk.unlink(DIRECTORY / f"{base:020}")
        self.refused(disk)

    def test_a_wrong_length_of_it(self, disk: PowerDisk) -> None:
        for path in (FIRST, SECOND):
            own = disk.copied()
            del own._files[path][-8:]
            self.refused(own)

    def test_the_two_after_it_may_be_torn(self, disk: PowerDisk) -> None:
        for path in (SECOND, THIRD):
            own = disk.copied()
            own.flip(path, 100)
            assert after_crash(own).last_index == (2 if path == SECOND else 3)


@pytest.mark.parametrize("length", [0, 300, SEGMENT - 1])
def test_a_last_segment_that_never_had_its_length_is_made_anew(length: int) -> None:
    disk = PowerDisk()
    log = open_log(disk)
    append(log, 900)
    log.prepare_next()
    before = content(log)
    del disk._files[SECOND][length:]
    log = after_crash(disk)
    assert content(log) == before
    append(log, 900, 900)
    assert content(open_log(disk)) == content(log)


@pytest.mark.parametrize("seed", range(200))
def test_the_vote_that_was_saved_or_the_one_being_saved_is_there(seed: int) -> None:
    chance = random.Random(seed)
    path = Path("/data/vote")
    disk = PowerDisk()
    disk.make_directory(path.parent)
    disk.sync_directory(path.parent)
    saved = [Vote(0, 0, bytes(16))]
    for _ in range(5):
        disk.kill_after(chance.randint(0, 400))
        try:
            file = VoteFile.open(disk, path, new_incarnation=bytes(16))
            assert file.vote in saved
            saved = [file.vote]
            while True:
                vote = Vote(file.vote.term + 1, chance.randint(0, 3), bytes(16))
                saved.append(vote)
                file.save(vote)
                saved = [vote]
        except Killed:
            disk = disk.after_power_loss(chance) if chance.random() < 0.5 else disk.alive_again()
