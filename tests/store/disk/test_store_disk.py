"""The contract of `store.disk.disk`, tested on the real disk and on the memory disk, and tests of one of them alone."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from store import (
    DirectoryInUseError,
    Disk,
    DiskFailedError,
    DiskUsage,
    MemoryDisk,
    NoSpaceError,
    PosixDisk,
    PosixReadOnlyDisk,
)
from store.disk.disk import read_file, replace_file
from store.disk.memory_disk import Killed
from tests.cluster.mounts import NO_MOUNTS, Namespace, may_mount


@pytest.fixture(params=["posix", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, Path]:
    if request.param == "posix":
        return PosixDisk(), tmp_path
    disk = MemoryDisk()
    disk.make_directory(tmp_path)
    return disk, tmp_path


def test_created_file_is_all_zeros_and_has_its_size(place: tuple[Disk, Path]) -> None:
    disk, root = place
    file = disk.create(root / "a", 5000)
    assert file.size == 5000
    assert file.read(0, 6000) == bytes(5000)


def test_create_refuses_an_existing_name_and_keeps_the_file(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.create(root / "a", 0).write(0, b"kept")
    with pytest.raises(DiskFailedError, match="exists"):
        disk.create(root / "a", 10)
    assert read_file(disk, root / "a") == b"kept"


def test_writes_are_read_back_by_any_handle(place: tuple[Disk, Path]) -> None:
    disk, root = place
    file = disk.create(root / "a", 16)
    file.write(3, memoryview(b"hello"))
    assert disk.open(root / "a").read(0, 16) == b"\0\0\0hello" + bytes(8)


def test_pieces_are_written_one_behind_the_other(place: tuple[Disk, Path]) -> None:
    disk, root = place
    file = disk.create(root / "a", 12)
    file.write(2, b"one", b"", memoryview(b"-two-")[1:4], b"three")
    assert file.size == 13
    assert file.read(0, 16) == b"\0\0onetwothree"


def test_read_is_short_only_at_the_end(place: tuple[Disk, Path]) -> None:
    disk, root = place
    file = disk.create(root / "a", 0)
    file.write(0, b"0123456789")
    assert file.read(2, 3) == b"234"
    assert file.read(8, 100) == b"89"
    assert file.read(10, 1) == file.read(99, 1) == b""


def test_what_was_never_written_need_not_be_read(place: tuple[Disk, Path]) -> None:
    disk, root = place
    file = disk.create(root / "a", 1 << 20)
    assert list(file.written(0, 1 << 20)) == []
    file.write(600_000, b"here")
    (places,) = file.written(1, 1 << 20)
    assert 500_000 < places.start <= 600_000, "as pages have it"
    assert places.stop >= 600_004
    assert list(file.written(600_001, 600_003)) == [range(600_001, 600_003)]
    assert list(file.written(0, 500_000)) == []


def test_write_grows_a_file_and_a_hole_reads_as_zeros(place: tuple[Disk, Path]) -> None:
    disk, root = place
    file = disk.create(root / "a", 0)
    file.write(4, b"x")
    assert file.size == 5
    assert disk.open(root / "a").size == 5
    assert file.read(0, 5) == b"\0\0\0\0x"


def test_view_is_read_only_shows_later_writes_and_outlives_close(place: tuple[Disk, Path]) -> None:
    disk, root = place
    file = disk.create(root / "a", 64)
    view = file.view()
    file.write(10, b"later")
    assert view.readonly
    assert len(view) == 64
    file.close()
    assert bytes(view[10:15]) == b"later"
    assert len(disk.create(root / "empty", 0).view()) == 0


def test_a_viewed_file_does_not_grow(place: tuple[Disk, Path]) -> None:
    disk, root = place
    file = disk.create(root / "a", 8)
    file.view()
    with pytest.raises(AssertionError):
        file.write(8, b"x")


def test_names_are_listed_sorted_with_directories(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.make_directory(root / "d" / "deep" / "deeper")
    disk.make_directory(root / "d" / "deep")
    disk.create(root / "d" / "b", 1)
    disk.create(root / "d" / "a", 1)
    assert list(disk.list(root / "d")) == ["a", "b", "deep"]
    assert disk.exists(root / "d" / "deep" / "deeper")
    assert not disk.exists(root / "d" / "c")


def test_rename_replaces_and_unlink_removes(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.create(root / "old", 0).write(0, b"old")
    disk.create(root / "new", 0).write(0, b"new")
    disk.rename(root / "new", root / "old")
    disk.sync_directory(root)
    assert list(disk.list(root)) == ["old"]
    assert read_file(disk, root / "old") == b"new"
    disk.unlink(root / "old")
    assert not disk.exists(root / "old")


def test_a_directory_is_renamed_with_everything_in_it(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.make_directory(root / "old" / "inner")
    disk.create(root / "old" / "a", 0).write(0, b"a")
    disk.create(root / "old" / "inner" / "b", 0).write(0, b"b")
    disk.rename(root / "old", root / "new")
    disk.sync_directory(root)
    assert list(disk.list(root)) == ["new"]
    assert list(disk.list(root / "new")) == ["a", "inner"]
    assert read_file(disk, root / "new" / "inner" / "b") == b"b"


def test_unlinked_file_stays_readable_for_who_has_it_open(place: tuple[Disk, Path]) -> None:
    disk, root = place
    file = disk.create(root / "a", 0)
    file.write(0, b"still")
    disk.unlink(root / "a")
    disk.create(root / "a", 5)
    assert file.read(0, 5) == b"still"


@pytest.mark.parametrize("operation", ["open", "list", "unlink", "sync_directory", "rename", "create"])
def test_what_is_missing_is_a_typed_error_with_its_cause(place: tuple[Disk, Path], operation: str) -> None:
    disk, root = place
    missing = root / "no" / "such"
    calls: dict[str, Callable[[], object]] = {
        "open": lambda: disk.open(missing),
        "list": lambda: disk.list(missing),
        "unlink": lambda: disk.unlink(missing),
        "sync_directory": lambda: disk.sync_directory(missing),
        "rename": lambda: disk.rename(missing, root / "x"),
        "create": lambda: disk.create(missing, 1),
    }
    with pytest.raises(DiskFailedError, match=r"no/such") as caught:
        calls[operation]()
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_lock_is_held_once_and_again_after_release(place: tuple[Disk, Path]) -> None:
    disk, root = place
    lock = disk.lock(root / "lock")
    with pytest.raises(DirectoryInUseError):
        disk.lock(root / "lock")
    lock.release()
    lock.release()
    disk.lock(root / "lock").release()


def test_replace_file_makes_and_replaces_also_over_a_leftover(place: tuple[Disk, Path]) -> None:
    disk, root = place
    replace_file(disk, root / "a", b"a long first content")
    disk.create(root / "a.new", 0).write(0, b"left behind by a kill, and longer than what comes")
    replace_file(disk, root / "a", b"second")
    assert read_file(disk, root / "a") == b"second"
    assert list(disk.list(root)) == ["a"]


# Tests of the real disk alone.


@pytest.mark.real
def test_lock_of_another_process_names_it(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from store import PosixDisk\n"
        "lock = PosixDisk().lock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(DirectoryInUseError, match=f"process {holder.pid}"):
            PosixDisk().lock(tmp_path / "lock")
        holder.kill()
        holder.wait()
    PosixDisk().lock(tmp_path / "lock").release()


def test_a_full_device_is_disk_full_error() -> None:
    file = PosixDisk().open(Path("/dev/full"))
    with pytest.raises(NoSpaceError) as caught:
        file.write(0, b"x")
    file.close()
    assert caught.value.retriable
    assert "No space is left on the disk of /dev/full" in str(caught.value)


def test_create_that_cannot_allocate_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises((NoSpaceError, DiskFailedError)):
        PosixDisk().create(tmp_path / "huge", 1 << 62)
    assert PosixDisk().list(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, NoSpaceError),
        (errno.EDQUOT, NoSpaceError),
        (errno.EIO, DiskFailedError),
        (errno.EROFS, DiskFailedError),
        (errno.EACCES, DiskFailedError),
    ],
)
def test_operating_system_errors_are_translated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, expected: type[Exception]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    file = PosixDisk().create(tmp_path / "a", 8)
    monkeypatch.setattr(os, "fdatasync", refuse)
    monkeypatch.setattr(os, "pwritev", refuse)
    with pytest.raises(expected) as caught:
        file.sync()
    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(expected):
        file.write(0, b"x")


@pytest.mark.parametrize("disk", [PosixDisk(), PosixReadOnlyDisk()])
def test_a_file_that_cannot_be_looked_at_is_not_taken_for_a_missing_one(
    disk: PosixDisk | PosixReadOnlyDisk, tmp_path: Path
) -> None:
    """A node makes a missing file anew, for example its vote file."""
    (tmp_path / "file").touch()
    assert disk.exists(tmp_path / "file")
    assert not disk.exists(tmp_path / "file" / "below a file")
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path / "loop", tmp_path / ("long" * 100)):
        with pytest.raises(DiskFailedError):
            disk.exists(path)


def test_a_lock_that_the_system_refuses_is_a_typed_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(DiskFailedError, match="No locks available"):
        PosixDisk().lock(tmp_path / "lock")


def test_a_close_that_fails_is_a_typed_error_and_closes_the_file(tmp_path: Path) -> None:
    file = PosixDisk().create(tmp_path / "a", 8)
    os.close(file._descriptor)
    with pytest.raises(DiskFailedError, match="Bad file descriptor"):
        file.close()
    file.close()


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, wholes = os.pwrite, os.pwritev
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: whole(fd, data[:3], offset))
    monkeypatch.setattr(os, "pwritev", lambda fd, pieces, offset: wholes(fd, [b"".join(pieces)[:3]], offset))
    file = PosixDisk().create(tmp_path / "a", 0)
    file.write(2, b"te", memoryview(b"n byt"), b"es.")
    assert file.read(0, 20) == b"\0\0ten bytes."


def test_more_pieces_than_one_call_takes_are_written(tmp_path: Path) -> None:
    count = os.sysconf("SC_IOV_MAX") + 10
    file = PosixDisk().create(tmp_path / "a", 0)
    file.write(1, *(b"%08d" % number for number in range(count)))
    assert file.read(1, 8 * count + 1) == b"".join(b"%08d" % number for number in range(count))


# Tests of the memory disk alone.


def test_kill_leaves_exactly_the_bytes_written_before_it() -> None:
    disk = MemoryDisk()
    file = disk.create(Path("/a"), 0)
    disk.kill_after(7)
    file.write(0, b"01234")
    with pytest.raises(Killed):
        file.write(5, b"56789")
    with pytest.raises(Killed):
        file.read(0, 1)
    assert read_file(disk.after_kill(), Path("/a")) == b"0123456"


def test_an_aligned_word_is_written_whole_or_not_at_all() -> None:
    for written, expected in [(7, bytes(8)), (8, b"complete")]:
        disk = MemoryDisk()
        file = disk.create(Path("/a"), 8)
        disk.kill_after(written)
        try:
            file.write(0, b"complete")
        except Killed:
            assert written == 7
        assert disk.after_kill().content(Path("/a")) == expected


def test_kill_while_creating_leaves_a_short_file() -> None:
    disk = MemoryDisk()
    disk.kill_after(1)
    with pytest.raises(Killed):
        disk.create(Path("/a"), 100)
    assert disk.after_kill().open(Path("/a")).size == 0


def test_locks_do_not_outlive_the_process() -> None:
    disk = MemoryDisk()
    disk.lock(Path("/lock"))
    disk.after_kill().lock(Path("/lock"))


def test_usage_tells_how_full_the_disk_is(place: tuple[Disk, Path]) -> None:
    disk, root = place
    before = disk.usage(root)
    assert 0 < before.free <= before.total
    assert 0 <= before.ratio < 1
    disk.create(root / "a", 64 << 20)
    after = disk.usage(root)
    assert after.total == before.total
    # Other programs use the real disk at the same time.
    assert after.free <= before.free - (32 << 20)


@pytest.mark.real
def test_usage_is_as_df_tells(tmp_path: Path) -> None:
    usage = PosixDisk().usage(tmp_path)
    told = subprocess.run(["df", "--output=pcent", str(tmp_path)], capture_output=True, text=True, check=True).stdout
    percent = int(told.splitlines()[1].strip().rstrip("%"))
    assert abs(usage.ratio * 100 - percent) <= 1.5  # it rounds up


def test_a_disk_of_no_size_is_full() -> None:
    assert DiskUsage(0, 0).ratio == 1.0


_TO_THE_LAST_INODE = """
import sys
from pathlib import Path
from store import NoSpaceError, PosixDisk
try:
    for number in range(10):
        PosixDisk().create(Path(sys.argv[1], str(number)), 8).close()
except NoSpaceError as error:
    print(error)
"""


@pytest.mark.real
@pytest.mark.skipif(not may_mount(), reason=NO_MOUNTS)
@pytest.mark.parametrize(
    ("mount", "told"),
    [
        ("-o size=16m,nr_inodes=5", "No inode is left on the disk of {path}, although it has free space"),
        ("-o size=16k", "No space is left on the disk of {path}. Free space or enlarge the disk"),
    ],
    ids=["no inode", "no space"],
)
def test_a_disk_without_an_inode_is_not_called_full(tmp_path: Path, mount: str, told: str) -> None:
    """`df` shows free space, and an operator would look for another cause."""
    with Namespace(tmp_path, f'mount -t tmpfs {mount} tmpfs "$0"') as namespace:
        command = [*namespace.inside, sys.executable, "-c", _TO_THE_LAST_INODE, str(tmp_path)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.startswith(told.format(path=tmp_path / "4"))
