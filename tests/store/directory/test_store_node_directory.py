"""The data directory: its owner is checked, only one process holds it, and a clean mark vouches for one start only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from store import (
    CleanMark,
    DamagedError,
    DirectoryInUseError,
    Disk,
    DiskFailedError,
    MemoryDisk,
    NodeDirectory,
    PosixDisk,
    WrongDirectoryError,
)
from tests.store.sample_log import each_kill

MARK = CleanMark(last_index=12, end=4096, chain=77)


@pytest.fixture(params=["posix", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, Path]:
    return (PosixDisk() if request.param == "posix" else MemoryDisk()), tmp_path / "node-1"


def opened(place: tuple[Disk, Path], cluster: str = "dev", node: int = 1) -> NodeDirectory:
    return NodeDirectory.open(*place, cluster=cluster, node=node)


def write(place: tuple[Disk, Path], content: bytes) -> None:
    disk, path = place
    disk.make_directory(path)
    disk.create(path / "identity.json", 0).write(0, content)


def test_the_first_who_opens_it_owns_it(place: tuple[Disk, Path]) -> None:
    opened(place).close()
    opened(place).close()
    disk, path = place
    assert set(disk.list(path)) == {"identity.json", "lock", "reserve"}


@pytest.mark.parametrize(("cluster", "node"), [("dev", 2), ("other", 1)])
def test_another_node_or_cluster_is_refused_by_both_names(place: tuple[Disk, Path], cluster: str, node: int) -> None:
    opened(place).close()
    with pytest.raises(WrongDirectoryError) as caught:
        opened(place, cluster, node)
    assert "node 1 of cluster 'dev'" in str(caught.value)
    assert f"node {node} of cluster '{cluster}'" in str(caught.value)
    opened(place).close()


def test_a_newer_layout_is_refused(place: tuple[Disk, Path]) -> None:
    write(place, b'{"format": 3, "cluster": "dev", "node": 1}')
    with pytest.raises(WrongDirectoryError, match="format 3"):
        opened(place)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1}', b"\xff\xfe"])
def test_an_unreadable_identity_is_damage(place: tuple[Disk, Path], content: bytes) -> None:
    write(place, content)
    with pytest.raises(DamagedError, match="does not say whose directory"):
        opened(place)


def test_data_without_an_identity_is_not_adopted(place: tuple[Disk, Path]) -> None:
    directory = opened(place)
    directory.shard_directory(0)
    directory.close()
    disk, path = place
    disk.unlink(path / "identity.json")
    with pytest.raises(DamagedError, match="missing"):
        opened(place)


def test_parts_lie_under_their_shard(place: tuple[Disk, Path]) -> None:
    directory = opened(place)
    disk, path = place
    assert directory.path == path
    assert directory.shard_directory(0) == path / "shard-0"
    assert disk.exists(path / "shard-0")
    assert directory.log_directory(2) == path / "shard-2" / "log"
    assert directory.queues_directory(2) == path / "shard-2" / "queues"
    assert directory.keys_directory(2) == path / "shard-2" / "keys"
    assert directory.vote_path(2) == path / "shard-2" / "vote"


@pytest.mark.parametrize("name", ["log/00000000000000000000", "snapshot", "boot", "clean"])
def test_a_missing_vote_file_beside_other_files_is_damage(place: tuple[Disk, Path], name: str) -> None:
    directory = opened(place)
    disk, _ = place
    path = directory.shard_directory(2) / name
    disk.make_directory(path.parent)
    disk.make_directory(directory.log_directory(2))
    directory.votes(2, new_incarnation=bytes(16)).close()
    disk.create(path, 8).close()
    directory.votes(2, new_incarnation=bytes(16)).close()
    disk.unlink(directory.vote_path(2))
    with pytest.raises(DamagedError, match=r"the vote file is missing.*add the node to its cluster again"):
        directory.votes(2, new_incarnation=bytes(16))
    assert not disk.exists(directory.vote_path(2))


def test_a_second_opening_is_refused_until_the_first_is_closed(place: tuple[Disk, Path]) -> None:
    first = opened(place)
    with pytest.raises(DirectoryInUseError, match="node-1 is locked by"):
        opened(place)
    first.close()
    opened(place).close()


def test_a_refused_opening_keeps_no_lock(place: tuple[Disk, Path]) -> None:
    opened(place).close()
    with pytest.raises(WrongDirectoryError):
        opened(place, node=9)
    opened(place).close()


@pytest.mark.real
def test_a_second_process_is_refused_even_before_it_looks_whose_directory_it_is(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from store import NodeDirectory, PosixDisk\n"
        "held = NodeDirectory.open(PosixDisk(), Path(sys.argv[1]), cluster='dev', node=1)\n"
        "print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "n")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(DirectoryInUseError, match=f"process {holder.pid}"):
            opened((PosixDisk(), tmp_path / "n"), node=2)
        holder.kill()
        holder.wait()
    opened((PosixDisk(), tmp_path / "n")).close()


def test_a_first_opening_killed_at_any_byte_leaves_a_directory_that_opens() -> None:
    place = Path("/data/node-1")
    for _, survivor in each_kill(MemoryDisk(), lambda disk: opened((disk, place))):
        opened((survivor, place)).close()


class TestCleanMark:
    def test_stays_until_it_is_removed_so_that_what_it_refuses_is_refused_every_time(
        self, place: tuple[Disk, Path]
    ) -> None:
        directory = opened(place)
        assert directory.marks(0).clean_mark() is None
        directory.marks(0).write_clean_mark(MARK)
        directory.close()
        directory = opened(place)
        assert directory.marks(1).clean_mark() is None
        assert directory.marks(0).clean_mark() == MARK
        assert directory.marks(0).clean_mark() == MARK
        directory.marks(0).remove_clean_mark()
        assert directory.marks(0).clean_mark() is None
        directory.marks(0).remove_clean_mark()

    def test_the_last_one_written_counts(self, place: tuple[Disk, Path]) -> None:
        directory = opened(place)
        directory.marks(0).write_clean_mark(CleanMark(1, 2, 3))
        directory.marks(0).write_clean_mark(MARK)
        assert directory.marks(0).clean_mark() == MARK

    def test_that_cannot_be_removed_durably_is_an_error(self) -> None:
        disk = MemoryDisk()
        directory = opened((disk, Path("/data/n")))
        directory.marks(0).write_clean_mark(MARK)
        disk.fail("sync_directory", DiskFailedError(Path("/data/n"), "Input/output error"))
        with pytest.raises(DiskFailedError):
            directory.marks(0).remove_clean_mark()

    def test_killed_at_any_byte_is_whole_or_absent(self) -> None:
        path = Path("/data/n")
        before = MemoryDisk()
        opened((before, path)).shard_directory(0)
        before = before.after_kill()
        for _, survivor in each_kill(before, lambda disk: opened((disk, path)).marks(0).write_clean_mark(MARK)):
            assert opened((survivor, path)).marks(0).clean_mark() is None

    @pytest.mark.parametrize("content", [b"", b"{}", b"null", b'{"last_index": "x", "end": 1, "chain": 1}'])
    def test_that_cannot_be_read_is_damage(self, place: tuple[Disk, Path], content: bytes) -> None:
        directory = opened(place)
        disk, _ = place
        disk.create(directory.shard_directory(0) / "clean", 0).write(0, content)
        with pytest.raises(DamagedError, match="no clean mark"):
            directory.marks(0).clean_mark()
