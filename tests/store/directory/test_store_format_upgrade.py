"""The upgrade of a data directory from format 1 to format 2: it is killed at every step, and refuses ambiguous
directories.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from store import DirectoryUpgradeError, MemoryDisk, NodeDirectory, WrongDirectoryError
from store.disk.disk import read_file
from tests.store.sample_log import each_kill

DATA = Path("/node-1")
INDEXES = Path("/indexes-1")


def directory_of_format_1(*, indexes: bool = False) -> MemoryDisk:
    """Make two shards, each with a snapshot at its log start. A reset of shard 1 is in progress."""
    disk = MemoryDisk()
    for shard in (0, 1):
        disk.make_directory(DATA / f"group-{shard}" / "log")
        disk.make_directory(DATA / f"group-{shard}" / "bases")
        put(disk, DATA / f"group-{shard}" / "log" / f"{0:020}", b"segment")
        put(disk, DATA / f"group-{shard}" / "base", b"base")
        put(disk, DATA / f"group-{shard}" / "bases" / f"{7:020}", b"candidate")
    put(disk, DATA / "group-1" / "base.next", b"next")
    put(disk, DATA / "identity.json", json.dumps({"format": 1, "cluster": "dev", "node": 1}).encode())
    if indexes:
        disk.make_directory(INDEXES / "group-0" / "queues")
        put(disk, INDEXES / "indexes.json", json.dumps({"format": 1, "cluster": "dev", "node": 1}).encode())
    return disk


def put(disk: MemoryDisk, path: Path, content: bytes) -> None:
    disk.create(path, 0).write(0, content)


def start(disk: MemoryDisk, *, indexes: bool = False) -> NodeDirectory:
    return NodeDirectory.open(disk, DATA, cluster="dev", node=1, indexes=INDEXES if indexes else None)


def assert_upgraded(disk: MemoryDisk) -> None:
    names = {name for name in disk.list(DATA) if name not in ("lock", "reserve")}
    assert names == {"identity.json", "shard-0", "shard-1"}
    assert set(disk.list(DATA / "shard-0")) == {"log", "snapshot", "snapshots"}
    assert set(disk.list(DATA / "shard-1")) == {"log", "snapshot", "snapshot.next", "snapshots"}
    assert disk.content(DATA / "shard-1" / "snapshot.next") == b"next"
    assert disk.content(DATA / "shard-0" / "snapshots" / f"{7:020}") == b"candidate"
    assert disk.content(DATA / "shard-0" / "log" / f"{0:020}") == b"segment"
    assert json.loads(read_file(disk, DATA / "identity.json"))["format"] == 2


def test_names_change_and_bytes_stay() -> None:
    disk = directory_of_format_1()
    directory = start(disk)
    assert directory.shards() == [0, 1]
    assert_upgraded(disk)


def test_a_kill_at_every_step_is_completed_by_the_next_start() -> None:
    kills = 0
    for _, killed in each_kill(directory_of_format_1(), start):
        kills += 1
        assert start(killed).shards() == [0, 1]
        assert_upgraded(killed)
    assert kills > 10


def test_the_directory_of_the_indexes_is_upgraded_too() -> None:
    disk = directory_of_format_1(indexes=True)
    start(disk, indexes=True)
    assert disk.exists(INDEXES / "shard-0" / "queues")
    assert not disk.exists(INDEXES / "group-0")
    assert json.loads(read_file(disk, INDEXES / "indexes.json"))["format"] == 2


def test_another_nodes_directory_is_refused_before_anything_is_renamed() -> None:
    disk = directory_of_format_1()
    with pytest.raises(WrongDirectoryError):
        NodeDirectory.open(disk, DATA, cluster="dev", node=2)
    assert disk.exists(DATA / "group-0")


def test_an_old_name_beside_a_new_one_is_refused_and_nothing_is_overwritten() -> None:
    disk = directory_of_format_1()
    disk.make_directory(DATA / "shard-1")
    with pytest.raises(
        DirectoryUpgradeError,
        match=r"both /node-1/group-1 .* and /node-1/shard-1 .* exist.*move the other directory away",
    ):
        start(disk)
    assert disk.content(DATA / "group-1" / "base") == b"base"


def test_an_old_shard_in_a_directory_of_format_2_is_refused() -> None:
    """The old directory may hold data. A node that ignored it would believe that it never had this data."""
    disk = directory_of_format_1()
    start(disk).close()
    disk.make_directory(DATA / "group-3")
    with pytest.raises(DirectoryUpgradeError, match="group-3 of format 1"):
        start(disk)
