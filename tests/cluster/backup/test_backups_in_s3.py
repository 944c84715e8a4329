"""Backups in a real store with the interface of S3 (MinIO)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from ledger.backup.catalogue import prune
from ledger.backup.check import flaws_of
from ledger.backup.errors import BackupError, DamagedBackupError, TargetBusyError
from ledger.backup.manifest import piece_name
from ledger.backup.targets.key_file import make_key_file
from ledger.backup.targets.lock_object import LOCK, LockObject
from ledger.backup.targets.open_target import open_target
from ledger.backup.targets.s3_target import S3Target
from ledgermq import AsyncAdmin
from tests.cluster.backup.backed_up import SHARDS, backup, contents, fill, restore
from tests.cluster.backup.minio import BUCKET, PASSWORD, USER, minio_program, ready, running_minio
from tests.cluster.fleet import MakeFleet

pytestmark = pytest.mark.real


@pytest_asyncio.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """A running store, which the client finds by its variables. Yields the URL of a target."""
    with running_minio(tmp_path / "minio", minio_program()) as url:
        await ready(url)
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", USER)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", PASSWORD)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        yield f"s3://{BUCKET}/of/orders"


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "encrypted"])
async def test_a_cluster_comes_back_from_a_bucket(
    make_fleet: MakeFleet, tmp_path: Path, store: str, encrypted: bool
) -> None:
    key = tmp_path / "key" if encrypted else None
    if key is not None:
        make_key_file(key)
    target = open_target(store, key)
    old = make_fleet(3, shards=SHARDS, cluster="old")
    await old.start()
    await old.leader()
    async with AsyncAdmin(old.bootstrap) as admin:
        await admin.create_topic("orders", 2 * SHARDS)
    await fill(old, "orders", 1_000)
    first = await backup(old, target)
    await fill(old, "orders", 100, first=1_000)
    before = await contents(old)
    second = await backup(old, target)
    assert second.copied < first.copied / 2
    assert list(flaws_of(target, second)) == []
    assert prune(target, 1)[0] == [first.name]
    assert list(flaws_of(target, second)) == []
    await old.stop()
    new = make_fleet(3, cluster="new")
    await restore(open_target(store, key), second, new)
    await new.start()
    await new.leader()
    assert await contents(new) == before
    plain = open_target(store) if not encrypted else S3Target(BUCKET, "of/orders")
    stored = b"".join(plain.get(each.name) or b"" for each in plain.list("shards/"))
    assert (b"key-17" in stored) is not encrypted
    name = piece_name(0, second.shards[0].pieces[0])
    plain.put(name, b"other bytes")
    assert [name in flaw for flaw in flaws_of(target, second)] == [True]
    plain.delete(name)
    assert list(flaws_of(target, second)) == [f"{name} is missing"]
    with pytest.raises(DamagedBackupError, match="is missing"):
        await restore(target, second, make_fleet(1, cluster="none"))


async def test_the_lock_of_a_bucket(store: str) -> None:
    target = S3Target(BUCKET, "of/orders")
    with target.lock():
        lock = LockObject(S3Target(BUCKET, "of/orders"), write_s=1, watch_s=10)
        with pytest.raises(TargetBusyError, match="wait until it has ended"), lock.held():
            pass
        with pytest.raises(TargetBusyError, match="has just locked"):
            S3Target(BUCKET, "of/orders").put_new(LOCK, b"at the same time")
        assert target.list() == []  # the lock is no object of backups
        target.put("a", b"1")
    assert S3Target(BUCKET, "of/orders").get(LOCK) is None


async def test_more_objects_than_one_answer_lists(store: str) -> None:
    target = open_target(store)
    for number in range(1_001):
        target.put(f"shards/0/log/{number:04}", b"")
    assert len(target.list("shards/")) == 1_001
    assert len(target.list("shards/0/log/00")) == 100


async def test_what_the_store_refuses_is_told(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BackupError, match=r"s3://no-bucket/x/key-check: .*NoSuchBucket.* AWS_ENDPOINT_URL_S3"):
        open_target("s3://no-bucket/x").put("a", b"")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(BackupError, match="SignatureDoesNotMatch"):
        open_target(store).put("a", b"")
