"""Targets, their locks, and the limit of the rate."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ledger.backup.errors import BackupError, TargetBusyError
from ledger.backup.rate import RateLimit
from ledger.backup.targets.directory_target import DirectoryTarget
from ledger.backup.targets.lock_object import LOCK, LockObject
from ledger.backup.targets.open_target import open_target
from tests.ledger.backup.memory_target import MemoryTarget


def test_a_directory_stores_objects(tmp_path: Path) -> None:
    target = DirectoryTarget(tmp_path / "a" / "b")
    assert target.list() == []
    assert target.get("x/y") is None
    target.delete("x/y")
    target.put("x/y", b"one")
    target.put("x/y", b"other")
    target.put("z", b"")
    (tmp_path / "a" / "b" / "x" / "half.new").write_bytes(b"of a killed process")
    with target.lock():
        assert target.list() == [("x/y", 5), ("z", 0)]
    assert target.list("x/") == [("x/y", 5)]
    assert (target.get("x/y"), target.get("z")) == (b"other", b"")
    target.delete("x/y")
    assert target.list() == [("z", 0)]
    assert (tmp_path / "a" / "b").stat().st_mode & 0o077 == 0


def test_a_disk_that_fails_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(BackupError, match=r"file/x: Not a directory|File exists"):
        DirectoryTarget(tmp_path / "file").put("x", b"")


def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    first, second = DirectoryTarget(tmp_path), DirectoryTarget(tmp_path)
    with first.lock(), pytest.raises(TargetBusyError, match="wait until it has ended"), second.lock():
        pass
    with second.lock():
        pass


@pytest.mark.parametrize("name", ["http://host/", "s3://", "s3://a b/c", "s3:///x", "", " "])
def test_what_is_no_target_is_refused(name: str) -> None:
    with pytest.raises(BackupError, match=r"is no target|names no bucket|is empty"):
        open_target(name)


def test_an_object_is_a_lock() -> None:
    store = MemoryTarget()
    first, second = (LockObject(store, write_s=0.01, watch_s=0.5, monotonic_s=lambda: 0.0) for _ in range(2))
    with first.held():
        first.check()
        with pytest.raises(TargetBusyError, match="wait until it has ended"), second.held():
            pass
    assert store.objects == {}
    with second.held():
        second.check()


def test_the_lock_of_a_killed_owner_is_taken_over() -> None:
    store = MemoryTarget()
    store.put(LOCK, b"of a killed process")
    lock = LockObject(store, write_s=0.01, watch_s=0.05, monotonic_s=lambda: 0.0)
    with lock.held():
        lock.check()
        assert store.objects[LOCK] != b"of a killed process"
    assert store.objects == {}


def test_an_owner_that_lost_its_lock_writes_nothing_more() -> None:
    class Watched(MemoryTarget):
        looked = threading.Event()

        def get(self, name: str) -> bytes | None:
            found = super().get(name)
            if found == b"of another process":
                self.looked.set()
            return found

    store = Watched()
    lock = LockObject(store, write_s=0.01)
    with lock.held():
        store.put(LOCK, b"of another process")
        assert store.looked.wait(10)
    with pytest.raises(TargetBusyError, match="another process has taken the lock of memory"):
        lock.check()
    assert store.objects == {LOCK: b"of another process"}


def test_an_owner_that_was_suspended_has_lost_its_lock_before_it_looks() -> None:
    store, now_s = MemoryTarget(), [0.0]
    lock = LockObject(store, write_s=60, watch_s=15, monotonic_s=lambda: now_s[0])
    with lock.held():
        now_s[0] = 14.9
        lock.check()
        now_s[0] = 15.0
        with pytest.raises(TargetBusyError, match="could not write the lock of memory for 15 s"):
            lock.check()
    assert list(store.objects) == [LOCK], "it may be the object of another process"


def test_an_owner_that_was_suspended_does_not_replace_the_object_of_the_next_owner() -> None:
    """The suspension is between the look at the object and its write."""
    now_s = [0.0]

    class Suspending(MemoryTarget):
        def get(self, name: str) -> bytes | None:
            found = super().get(name)
            if found is not None:
                now_s[0] = 20.0
                self.put(LOCK, b"of another process")
            return found

    store = Suspending()
    lock = LockObject(store, write_s=0.01, watch_s=15, monotonic_s=lambda: now_s[0])
    with lock.held():
        for thread in threading.enumerate():
            if thread.name == "backup-lock":
                thread.join(10)
    assert store.objects == {LOCK: b"of another process"}


def test_the_rate_is_kept() -> None:
    now, slept = 100.0, []

    def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    limit = RateLimit(1_000, lambda: now, sleep)
    for _ in range(50):
        limit.take(100)
    assert now == pytest.approx(105)
    now += 60  # a pause gives no right to a burst
    for _ in range(50):
        limit.take(100)
    assert 169.8 < now < 170.1
    RateLimit(0, lambda: now, sleep).take(1 << 40)
