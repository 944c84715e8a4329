"""What the room watch concludes from the use of the disk, the last segment, and failed writes."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.node.replica.retention import RetentionWatch, bounds_of
from cluster.node.replica.room_watch import RoomWatch
from cluster.node.settings import NodeSettings
from raft.core import Configuration
from store import DiskUsage, NoSpaceError, OutOfFilesError, StoreError

SEGMENT_BYTES = 64 << 20
FULL = NoSpaceError(Path("/data/shard-0/log/0"))


@dataclass
class Replica:
    """The members of a replica that a room watch uses, and of its log and its driver."""

    node: int = 3
    shard: int = 0
    no_room: str = ""
    next_is_prepared: bool = False
    left_in_segment: int = SEGMENT_BYTES
    failure: StoreError | None = None
    # How often the watch let the driver try to write.
    tries: int = 0
    # Whether a write that is tried again succeeds.
    works: bool = True
    # As a leader: what is committed and what waits, and the followers that take no writes.
    commit: int = 10
    uncommitted_bytes: int = 0
    refusing: tuple[int, ...] = ()

    @property
    def configuration(self) -> Configuration:
        return Configuration((1, 2, 3), (4,))

    @property
    def progress(self) -> dict[int, SimpleNamespace]:
        return {node: SimpleNamespace(refuses_writes=node in self.refusing) for node in (1, 2, 4)}

    @property
    def log(self) -> Replica:
        return self

    @property
    def driver(self) -> Replica:
        return self

    def try_writing(self) -> None:
        self.tries += 1
        self.failure = None if self.works else self.failure

    @property
    def raft(self) -> Replica:
        return self

    def room_changed(self, no_room: str, *, elsewhere: str = "") -> None:
        self.no_room = no_room or elsewhere

    def disk_full(self, failure: StoreError) -> str:
        return f"the disk of node 3 is full: {failure}"


class Watched:
    """A room watch of a disk whose use the test sets."""

    def __init__(self) -> None:
        self.replica = Replica()
        self.usage = DiskUsage(100 << 30, 50 << 30)
        settings = NodeSettings(node=3, cluster="test", data=Path("/data"), peers={3: "127.0.0.1:1"})
        disk: Any = SimpleNamespace(usage=lambda _: self.usage)
        replica: Any = self.replica
        self.watch = RoomWatch(
            replica, settings, bounds_of(settings), SEGMENT_BYTES, disk, Path("/data/log"), lambda _: None
        )

    def look(self) -> str:
        self.watch.look()
        return self.replica.no_room


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_the_ratio(watched: Watched) -> None:
    assert watched.look() == ""
    watched.usage = DiskUsage(100 << 30, 10 << 30)
    assert watched.look().startswith("the disk of node 3 is 90% full (/data/log), and writes are refused from 90%")
    watched.usage = DiskUsage(100 << 30, 11 << 30)
    assert watched.look() == ""


def test_no_room_for_the_next_segment_counts_when_the_last_one_is_nearly_full(watched: Watched) -> None:
    watched.usage = DiskUsage(SEGMENT_BYTES * 9, SEGMENT_BYTES - 1)
    assert watched.look() == ""
    watched.replica.left_in_segment = SEGMENT_BYTES // 4 - 1
    assert "has no room for the next segment of the log (67 MB, /data/log)" in watched.look()
    watched.replica.next_is_prepared = True
    assert watched.look() == ""


def test_after_a_failed_write_the_first_look_with_room_tries_again(watched: Watched) -> None:
    watched.replica.failure, watched.replica.left_in_segment = FULL, 0
    watched.usage = DiskUsage(SEGMENT_BYTES * 20, SEGMENT_BYTES // 2)
    watched.look()
    assert watched.replica.tries == 0
    watched.usage = DiskUsage(SEGMENT_BYTES * 20, SEGMENT_BYTES * 3)
    assert watched.look() == ""
    assert watched.replica.tries == 1


def test_another_disk_that_is_full_is_left_to_the_driver(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    """The disk of the indexes is full, and that of the log has room."""
    caplog.set_level(logging.INFO)
    watched.replica.failure = FULL
    for _ in range(10):
        assert watched.look().startswith("the disk of node 3 is full: ")
    assert watched.replica.tries == 0
    assert len(caplog.records) == 1
    watched.replica.failure = None
    assert watched.look() == ""


def test_another_failure_says_nothing_about_room(watched: Watched) -> None:
    watched.replica.failure = OutOfFilesError(Path("/data"))
    assert watched.look() == ""


def test_a_leader_refuses_while_a_majority_stores_nothing(watched: Watched) -> None:
    replica = watched.replica
    replica.refusing, replica.uncommitted_bytes = (1, 2), 100
    assert watched.look() == "", "they may store what waits"
    assert watched.look().startswith(
        "the disks of nodes 1, 2 are full or have failed, so no majority stores new entries"
    )
    replica.commit = 11
    assert watched.look() == "", "they do"
    assert watched.look() != ""
    replica.refusing = (2,)
    assert watched.look() == ""
    replica.refusing = (2, 4)
    assert watched.look() == "", "a learner does not count"
    replica.refusing, replica.uncommitted_bytes = (1, 2), 0
    assert [watched.look(), watched.look()] == ["", ""], "nothing waits"


def test_retention_that_asks_for_the_use_of_the_disk_is_no_second_look(watched: Watched) -> None:
    """Retention asks at nearly the same time as the room watch looks, and in this time no entry can be committed."""
    replica = watched.replica
    replica.refusing, replica.uncommitted_bytes = (1, 2), 100
    assert watched.look() == ""
    watched.usage = DiskUsage(100 << 30, 20 << 30)
    assert watched.watch.use().ratio == 0.8
    assert replica.no_room == ""
    replica.commit = 11
    assert watched.look() == "", "the leader commits"


async def test_a_retention_watch_does_not_look_for_the_room_watch(watched: Watched) -> None:
    replica: Any = watched.replica
    replica.refusing, replica.uncommitted_bytes, replica.knows_the_end = (1, 2), 100, False
    clocks: Any = SimpleNamespace(monotonic_ms=lambda: 0.0, now_ms=lambda: 0)
    settings = NodeSettings(node=3, cluster="test", data=Path("/data"), peers={3: "127.0.0.1:1"})
    assert watched.look() == ""
    await RetentionWatch(replica, settings, watched.watch, clocks).look()
    assert replica.no_room == ""
