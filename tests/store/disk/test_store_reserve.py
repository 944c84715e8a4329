"""The reserve: small files can be replaced on a full disk, and the reserve is filled again when there is space."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from chaos.sim.engine.disk import SimDisk
from store import NoSpaceError
from store.disk.disk import read_file
from store.disk.reserve import FILE_BYTES, FILES, Reserve

HOME = Path("/node")
RESERVE = HOME / "reserve"


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk(Random(1), capacity=1 << 20)
    disk.make_directory(HOME)
    return disk


def test_a_full_disk_takes_small_files_in_its_place_and_then_refuses(disk: SimDisk) -> None:
    reserve = Reserve(disk, RESERVE)
    disk.room = 0
    for number in range(FILES):
        reserve.replace_file(HOME / f"mark-{number}", bytes(FILE_BYTES))
    with pytest.raises(NoSpaceError):
        reserve.replace_file(HOME / "one-too-many", bytes(FILE_BYTES))
    assert [name for name in disk.list(HOME) if "mark" in name] == [f"mark-{number}" for number in range(FILES)]
    assert disk.list(RESERVE) == []


def test_it_is_there_again_once_there_is_room(disk: SimDisk) -> None:
    reserve = Reserve(disk, RESERVE)
    disk.room = 0
    reserve.replace_file(HOME / "mark", b"1")
    assert len(disk.list(RESERVE)) == FILES - 1
    disk.room = 1 << 20
    reserve.replace_file(HOME / "mark", b"2")
    assert len(disk.list(RESERVE)) == FILES
    assert read_file(disk, HOME / "mark") == b"2"


def test_where_there_is_no_room_for_it_the_node_does_without(disk: SimDisk) -> None:
    disk.room = 3 * FILE_BYTES
    Reserve(disk, RESERVE)
    assert len(disk.list(RESERVE)) == 3
    disk.room = 1 << 20
    Reserve(disk, RESERVE)
    assert len(disk.list(RESERVE)) == FILES


def test_files_of_others_are_left_alone(disk: SimDisk) -> None:
    disk.make_directory(RESERVE)
    disk.create(RESERVE / "notes.txt", 5)
    reserve = Reserve(disk, RESERVE)
    disk.room = 0
    for number in range(FILES):
        reserve.replace_file(HOME / f"mark-{number}", bytes(FILE_BYTES))
    assert disk.list(RESERVE) == ["notes.txt"]
