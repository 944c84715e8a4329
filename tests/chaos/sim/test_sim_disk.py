"""The simulated disk: the contract of `store.disk.disk`, content after kills and power cuts, injected faults."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from chaos.sim.engine.disk import SimDisk
from chaos.sim.engine.disk_content import PAGE, SECTOR, Crash
from store import DirectoryInUseError, DiskFailedError, NoSpaceError
from store.disk.disk import read_file, replace_file
from store.disk.memory_disk import Killed

A = Path("/root/a")
ROOT = Path("/root")


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk(Random(1))
    disk.make_directory(ROOT)
    disk.sync_directory(Path("/"))
    return disk


def crash(keeps: float, unit: int = PAGE, *, ordered_names: bool = True, seed: int = 1) -> Crash:
    return Crash(Random(seed), unit, keeps, ordered_names)


# The contract, as tests/store/disk/test_store_disk.py has it for the others.


def test_created_file_is_all_zeros_and_has_its_size(disk: SimDisk) -> None:
    file = disk.create(A, 5000)
    assert file.size == 5000
    assert file.read(0, 6000) == bytes(5000)


def test_create_refuses_an_existing_name_and_keeps_the_file(disk: SimDisk) -> None:
    disk.create(A, 0).write(0, b"kept")
    with pytest.raises(DiskFailedError, match="exists"):
        disk.create(A, 10)
    assert read_file(disk, A) == b"kept"


def test_writes_are_read_back_by_any_handle(disk: SimDisk) -> None:
    file = disk.create(A, 16)
    file.write(3, memoryview(b"hello"))
    assert disk.open(A).read(0, 16) == b"\0\0\0hello" + bytes(8)


def test_read_is_short_only_at_the_end(disk: SimDisk) -> None:
    file = disk.create(A, 0)
    file.write(0, b"0123456789")
    assert file.read(2, 3) == b"234"
    assert file.read(8, 100) == b"89"
    assert file.read(10, 1) == file.read(99, 1) == b""


def test_write_grows_a_file_and_a_hole_reads_as_zeros(disk: SimDisk) -> None:
    file = disk.create(A, 0)
    file.write(4, b"x")
    assert file.size == disk.open(A).size == 5
    assert file.read(0, 5) == b"\0\0\0\0x"


def test_view_is_read_only_shows_later_writes_and_outlives_close(disk: SimDisk) -> None:
    file = disk.create(A, 64)
    view = file.view()
    file.write(10, b"later")
    assert view.readonly
    assert len(view) == 64
    file.close()
    assert bytes(view[10:15]) == b"later"
    assert len(disk.create(ROOT / "empty", 0).view()) == 0


def test_a_viewed_file_does_not_grow(disk: SimDisk) -> None:
    file = disk.create(A, 8)
    file.view()
    with pytest.raises(AssertionError):
        file.write(8, b"x")


def test_names_are_listed_sorted_with_directories(disk: SimDisk) -> None:
    disk.make_directory(ROOT / "d" / "deep" / "deeper")
    disk.make_directory(ROOT / "d" / "deep")
    disk.create(ROOT / "d" / "b", 1)
    disk.create(ROOT / "d" / "a", 1)
    assert list(disk.list(ROOT / "d")) == ["a", "b", "deep"]
    assert disk.exists(ROOT / "d" / "deep" / "deeper")
    assert not disk.exists(ROOT / "d" / "c")
    assert disk.files() == [ROOT / "d" / "a", ROOT / "d" / "b"]


def test_rename_replaces_and_unlink_removes(disk: SimDisk) -> None:
    disk.create(ROOT / "old", 0).write(0, b"old")
    disk.create(ROOT / "new", 0).write(0, b"new")
    disk.rename(ROOT / "new", ROOT / "old")
    assert list(disk.list(ROOT)) == ["old"]
    assert read_file(disk, ROOT / "old") == b"new"
    disk.unlink(ROOT / "old")
    assert not disk.exists(ROOT / "old")


def test_unlinked_file_stays_readable_for_who_has_it_open(disk: SimDisk) -> None:
    file = disk.create(A, 0)
    file.write(0, b"still")
    disk.unlink(A)
    disk.create(A, 5)
    assert file.read(0, 5) == b"still"


@pytest.mark.parametrize("operation", ["open", "list", "unlink", "sync_directory", "rename", "create"])
def test_what_is_missing_is_a_typed_error_with_its_cause(disk: SimDisk, operation: str) -> None:
    missing = ROOT / "no" / "such"
    calls: dict[str, Callable[[], object]] = {
        "open": lambda: disk.open(missing),
        "list": lambda: disk.list(missing),
        "unlink": lambda: disk.unlink(missing),
        "sync_directory": lambda: disk.sync_directory(missing),
        "rename": lambda: disk.rename(missing, ROOT / "x"),
        "create": lambda: disk.create(missing, 1),
    }
    with pytest.raises(DiskFailedError, match=r"/no") as caught:
        calls[operation]()
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_lock_is_held_once_and_again_after_release_or_death(disk: SimDisk) -> None:
    lock = disk.lock(ROOT / "lock")
    with pytest.raises(DirectoryInUseError):
        disk.lock(ROOT / "lock")
    lock.release()
    lock.release()
    disk.lock(ROOT / "lock")
    disk.kill().lock(ROOT / "lock").release()


def test_replace_file_makes_and_replaces_also_over_a_leftover(disk: SimDisk) -> None:
    replace_file(disk, A, b"a long first content")
    disk.create(ROOT / "a.new", 0).write(0, b"left behind by a kill, and longer than what comes")
    replace_file(disk, A, b"second")
    assert read_file(disk, A) == b"second"
    assert list(disk.list(ROOT)) == ["a"]


# A kill.


def test_a_kill_keeps_everything_and_ends_the_old_process(disk: SimDisk) -> None:
    file = disk.create(A, 100)
    view = file.view()
    file.write(0, b"written")
    following = disk.kill()
    for operation in (lambda: file.read(0, 1), lambda: file.write(0, b"x"), lambda: disk.exists(A), file.sync):
        with pytest.raises(Killed):
            operation()
    following.open(A).write(0, b"W")
    assert following.content(A)[:7] == b"Written"
    assert bytes(view[:7]) == b"written"  # the dead process's mapping is nobody's any more


def test_a_kill_in_a_write_leaves_its_beginning_and_tells(disk: SimDisk) -> None:
    file = disk.create(A, 100)
    found: list[bytes] = []
    disk.on_death = lambda: found.append(disk.kill().content(A).rstrip(b"\0"))
    disk.die_in_write(2)
    file.write(0, b"first")
    with pytest.raises(Killed):
        file.write(5, b"second")
    (content,) = found
    assert b"firstsecond".startswith(content)
    assert len(content) >= 5
    assert disk.kill().content(A).rstrip(b"\0") == content


def test_a_kill_never_tears_an_aligned_word() -> None:
    for seed in range(20):
        disk = SimDisk(Random(seed))
        file = disk.create(Path("/a"), 16)
        disk.die_in_write(1)
        with pytest.raises(Killed):
            file.write(8, b"complete")
        assert disk.kill().content(Path("/a")) == bytes(16)


# A power cut.


def test_a_power_cut_keeps_what_was_synced(disk: SimDisk) -> None:
    file = disk.create(A, 3 * PAGE)
    file.write(PAGE, b"synced")
    file.sync()
    disk.sync_directory(ROOT)
    file.write(PAGE, b"later!")
    following = disk.power_cut(crash(0))
    assert following.content(A)[PAGE : PAGE + 6] == b"synced"
    assert disk.dead


def test_what_was_not_synced_may_be_there(disk: SimDisk) -> None:
    file = disk.create(A, PAGE)
    file.write(0, b"not synced")
    assert disk.power_cut(crash(1)).content(A)[:10] == b"not synced"


@pytest.mark.parametrize("unit", [SECTOR, PAGE])
def test_writes_are_torn_at_units_and_in_any_order(disk: SimDisk, unit: int) -> None:
    file = disk.create(A, 8 * PAGE)
    file.sync()
    disk.sync_directory(ROOT)
    file.write(0, b"\1" * (8 * PAGE))
    content = disk.power_cut(crash(0.5, unit)).content(A)
    pieces = [content[at : at + unit] for at in range(0, len(content), unit)]
    assert set(pieces) == {bytes(unit), b"\1" * unit}
    assert sorted(pieces, reverse=True) != pieces  # a later one may be there while an earlier one is not


def test_a_name_without_its_directory_synced_vanishes_with_its_bytes(disk: SimDisk) -> None:
    disk.create(A, 10).sync()
    assert not disk.power_cut(crash(0)).exists(A)


def test_a_rename_without_its_directory_synced_may_vanish(disk: SimDisk) -> None:
    replace_file(disk, A, b"old")
    fresh = disk.create(ROOT / "new", 0)
    fresh.write(0, b"new")
    fresh.sync()
    disk.rename(ROOT / "new", A)
    assert disk.kill().power_cut(crash(0)).content(A) == b"old"


def test_an_unlink_without_its_directory_synced_may_come_to_nothing(disk: SimDisk) -> None:
    replace_file(disk, A, b"there")
    disk.unlink(A)
    assert disk.power_cut(crash(0)).content(A) == b"there"


def test_names_change_in_their_order_or_in_any(disk: SimDisk) -> None:
    def survivors(*, ordered: bool) -> set[tuple[str, ...]]:
        found = set()
        for seed in range(40):
            disk = SimDisk(Random(seed))
            for name in "abc":
                disk.create(Path("/") / name, 0)
            found.add(tuple(disk.power_cut(crash(0.5, ordered_names=ordered, seed=seed)).list(Path("/"))))
        return found

    assert survivors(ordered=True) == {(), ("a",), ("a", "b"), ("a", "b", "c")}
    assert ("c",) in survivors(ordered=False)


def test_allocated_space_of_a_file_whose_length_was_not_synced_is_zeros_or_missing(disk: SimDisk) -> None:
    disk.create(A, 100)
    disk.sync_directory(ROOT)
    assert disk.power_cut(crash(0)).content(A) == b""
    disk = SimDisk(Random(1))
    disk.create(Path("/a"), 100)
    assert disk.power_cut(crash(1)).content(Path("/a")) == bytes(100)


def test_sectors_reach_the_platter_by_themselves(disk: SimDisk) -> None:
    disk.writes_back = 1.0
    file = disk.create(A, PAGE)
    file.sync()
    disk.sync_directory(ROOT)
    file.write(0, b"first")
    file.write(0, b"other")
    disk.writes_back = 0.0
    file.write(0, b"third")
    assert disk.power_cut(crash(0)).content(A)[:5] == b"other"


# Faults.


def test_a_failed_sync_drops_the_data_and_a_second_one_succeeds(disk: SimDisk) -> None:
    file = disk.create(A, 10)
    file.sync()
    disk.sync_directory(ROOT)
    file.write(0, b"lost")
    disk.fail("sync")
    with pytest.raises(DiskFailedError) as caught:
        file.sync()
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.EIO
    file.sync()
    assert file.read(0, 4) == b"lost"  # the page cache still shows it
    assert disk.faults["sync EIO"] == 1
    assert disk.power_cut(crash(1)).content(A) == bytes(10)


def test_what_a_failed_sync_dropped_may_have_left_the_page_cache() -> None:
    found = set()
    for seed in range(20):
        disk = SimDisk(Random(seed))
        file = disk.create(Path("/a"), 10)
        file.write(0, b"lost")
        disk.fail("sync")
        with pytest.raises(DiskFailedError):
            file.sync()
        found.add(disk.kill().content(Path("/a"))[:4])
    assert found == {b"lost", bytes(4)}


def test_a_full_disk_refuses_growth_and_takes_it_again(disk: SimDisk) -> None:
    disk.room = 100
    file = disk.create(A, 90)
    file.write(80, b"0123456789")
    with pytest.raises(NoSpaceError):
        file.write(95, b"0123456789")
    with pytest.raises(NoSpaceError):
        disk.create(ROOT / "b", 11)
    assert not disk.exists(ROOT / "b")
    disk.unlink(A)
    disk.create(ROOT / "b", 100)


def test_reads_fail_as_often_as_they_were_told(disk: SimDisk) -> None:
    file = disk.create(A, 10)
    disk.fail("read", times=2)
    for _ in range(2):
        with pytest.raises(DiskFailedError):
            file.read(0, 1)
    assert file.read(0, 1) == b"\0"


def test_a_flipped_bit_and_an_old_copy_outlive_a_power_cut(disk: SimDisk) -> None:
    replace_file(disk, A, b"first")
    old = disk.content(A)
    replace_file(disk, A, b"second")
    disk.flip(A, 0)
    assert disk.power_cut(crash(0)).content(A) == b"recond"
    disk = disk.kill()
    disk.put_back(A, old)
    assert disk.power_cut(crash(0)).content(A) == b"first"
