"""The boot record: a kill is distinguished from a crash of the machine, and a crash leaves a durable suspect mark."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from store import (
    CommitLog,
    CrashEnd,
    DamagedError,
    DiskFailedError,
    LogCallbacks,
    LogSettings,
    MemoryDisk,
    NodeDirectory,
    NoSpaceError,
    PreviousRun,
    Suspect,
    read_boot_id,
)
from store.directory.boot import KERNEL_BOOT_ID
from store.disk.memory_disk import Killed
from tests.store.power_disk import PowerDisk
from tests.store.sample_log import SEGMENT, append, each_kill

PATH = Path("/data/n")
DOUBT = Suspect("power loss", since_ms=1000, last_index=7)


def opened(disk: MemoryDisk) -> NodeDirectory:
    return NodeDirectory.open(disk, PATH, cluster="dev", node=1)


def start(directory: NodeDirectory, disk: MemoryDisk, boot_id: str, now_ms: int = 1000) -> CommitLog:
    """Start as a node does in `async` mode."""
    crashed = directory.marks(0).crashed(boot_id)

    def mark(end: CrashEnd) -> None:
        directory.marks(0).mark_suspect(Suspect(end.reason or "power loss", now_ms, end.last_index))

    log = CommitLog.open(
        disk,
        directory.log_directory(0),
        LogSettings(segment_bytes=SEGMENT),
        PreviousRun(clean=directory.marks(0).clean_mark(), has_crashed=crashed),
        LogCallbacks(before_cut=mark),
    )
    log.sync()
    directory.marks(0).record_boot(boot_id, "async")
    directory.marks(0).remove_clean_mark()
    return log


@pytest.fixture
def disk() -> MemoryDisk:
    """Return the disk of a node that was killed after it had written in the machine's run "a"."""
    disk = MemoryDisk()
    append(start(opened(disk), disk, "a"), 10, 20)
    return disk.after_kill()


def test_a_new_directory_has_not_crashed_and_one_killed_before_it_wrote_has_not_either() -> None:
    disk = MemoryDisk()
    assert not opened(disk).marks(0).crashed("a")
    opened(disk := disk.after_kill()).log_directory(0)
    disk.make_directory(PATH / "shard-0" / "log")
    assert not opened(disk.after_kill()).marks(0).crashed("b")


@pytest.mark.parametrize(("boot_id", "crashed"), [("a", False), ("b", True), ("", True)])
def test_the_same_run_of_the_machine_is_a_kill_another_or_an_unknown_one_a_crash(
    disk: MemoryDisk, boot_id: str, crashed: bool
) -> None:
    assert opened(disk).marks(0).crashed(boot_id) is crashed
    assert not opened(disk.after_kill()).marks(1).crashed(boot_id), "of another shard there is nothing"


def test_after_an_orderly_stop_no_run_is_a_crash(disk: MemoryDisk) -> None:
    directory = opened(disk)
    log = start(directory, disk, "a")
    log.sync()
    directory.marks(0).write_clean_mark(log.clean_mark())
    for boot_id in ("a", "b", ""):
        assert not opened(disk.after_kill()).marks(0).crashed(boot_id)


def test_data_of_which_nobody_says_when_it_was_written_is_mistrusted(disk: MemoryDisk) -> None:
    disk.unlink(PATH / "shard-0" / "boot")
    assert opened(disk).marks(0).crashed("a")


def test_two_runs_of_which_the_system_says_nothing_are_not_the_same(disk: MemoryDisk) -> None:
    start(opened(disk), disk, "")
    assert opened(disk.after_kill()).marks(0).crashed("")


def test_a_start_that_is_over_makes_the_next_kill_a_kill(disk: MemoryDisk) -> None:
    start(opened(disk), disk, "b")
    assert not opened(disk.after_kill()).marks(0).crashed("b")


def test_a_start_killed_at_any_byte_leaves_the_crash_or_the_mark(disk: MemoryDisk) -> None:
    for _, survivor in each_kill(disk, lambda disk: start(opened(disk), disk, "b")):
        directory = opened(survivor)
        assert directory.marks(0).crashed("b") or directory.marks(0).suspect() is not None
        start(directory, survivor, "b", now_ms=2000)
        assert directory.marks(0).suspect() in [Suspect("power loss", since, 2) for since in (1000, 2000)]


def test_after_a_failed_sync_what_the_page_cache_shows_is_written_again_before_it_counts() -> None:
    """The kernel calls pages clean that it failed to write, so the next fsync reports nothing about them."""
    disk = PowerDisk()
    directory = opened(disk)
    log = start(directory, disk, "a")
    append(log, 400, 300)
    log.sync()
    append(log, 200, 700)
    disk.fail("sync", DiskFailedError(PATH, "Input/output error"), times=1)
    with pytest.raises(DiskFailedError):
        log.sync()
    directory.marks(0).distrust_page_cache()
    directory = opened(disk.alive_again())
    assert directory.marks(0).crashed("a")
    assert start(directory, disk, "a").last_index == 4
    assert directory.marks(0).suspect() is not None
    for seed in range(20):
        lost = disk.after_power_loss(random.Random(seed))
        assert start(opened(lost), lost, "b").last_index == 4


def test_the_page_cache_can_be_distrusted_on_a_full_disk() -> None:
    disk = PowerDisk()
    directory = opened(disk)
    append(start(directory, disk, "a"), 400)
    disk.fail("create", NoSpaceError(PATH))
    disk.fail("write", NoSpaceError(PATH))
    directory.marks(0).distrust_page_cache()
    assert opened(disk.alive_again()).marks(0).crashed("a")


class TestSuspectMark:
    def test_stays_until_it_is_cleared(self, disk: MemoryDisk) -> None:
        assert opened(disk).marks(0).suspect() is None
        directory = opened(disk := disk.after_kill())
        assert directory.marks(0).mark_suspect(DOUBT) == DOUBT
        directory = opened(disk := disk.after_kill())
        assert (directory.marks(0).suspect(), directory.marks(1).suspect()) == (DOUBT, None)
        directory.marks(0).clear_suspect()
        directory.marks(0).clear_suspect()
        assert opened(disk.after_kill()).marks(0).suspect() is None

    def test_dates_from_the_first_loss_and_the_shorter_log(self, disk: MemoryDisk) -> None:
        directory = opened(disk)
        directory.marks(0).mark_suspect(DOUBT)
        assert directory.marks(0).mark_suspect(Suspect("again", 2000, 9)) == DOUBT
        assert directory.marks(0).mark_suspect(Suspect("again", 3000, 4)) == Suspect("power loss", 1000, 4)
        assert directory.marks(0).suspect() == Suspect("power loss", 1000, 4)

    def test_killed_at_any_byte_is_whole_or_absent(self, disk: MemoryDisk) -> None:
        for _, survivor in each_kill(disk, lambda disk: opened(disk).marks(0).mark_suspect(DOUBT)):
            assert opened(survivor).marks(0).suspect() is None

    @pytest.mark.parametrize("name", ["suspect", "boot"])
    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"{}",
            b"null",
            b'{"reason": 1, "since_ms": 1, "last_index": 1}',
            b'{"boot_id": "a", "flush": 1}',
            b"\xff",
        ],
    )
    def test_or_a_record_that_cannot_be_read_is_damage(self, disk: MemoryDisk, name: str, content: bytes) -> None:
        directory = opened(disk)
        if disk.exists(path := directory.shard_directory(0) / name):
            disk.unlink(path)
        disk.create(path, 0).write(0, content)
        with pytest.raises(DamagedError, match=r"no (suspect mark|boot record)"):
            directory.marks(0).suspect() if name == "suspect" else directory.marks(0).crashed("a")


@pytest.mark.parametrize("seed", range(200))
def test_whoever_lost_what_it_acknowledged_knows_it(seed: int) -> None:
    """The node is killed and loses power at random moments, also during its starts."""
    chance = random.Random(seed)
    disk = PowerDisk()
    acknowledged = run = 0
    for _ in range(8):
        disk.kill_after(chance.randint(0, 3000))
        try:
            directory = opened(disk)
            log = start(directory, disk, str(run))
            assert log.last_index >= acknowledged or directory.marks(0).suspect() is not None
            acknowledged = log.last_index
            directory.marks(0).clear_suspect()
            while True:
                append(log, chance.randint(0, 400))
                acknowledged = log.last_index  # in `async` mode
        except Killed:
            if chance.random() < 0.5:
                run += 1
                disk = disk.after_power_loss(chance)
            else:
                disk = disk.alive_again()


def test_the_kernel_says_which_run_it_is(tmp_path: Path) -> None:
    assert len(read_boot_id()) == (36 if KERNEL_BOOT_ID.exists() else 0)
    (tmp_path / "id").write_text("one\n")
    assert read_boot_id(tmp_path / "id") == "one"
    assert read_boot_id(tmp_path / "missing") == ""
