"""Restores clusters as they were at an earlier time, and after retention has moved the log starts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ledger.backup.check import flaws_of
from ledger.backup.errors import BackupError
from ledgermq import AsyncAdmin
from tests.cluster.backup.backed_up import SHARDS, backup, contents, directory_target, fill, messages_of, restore
from tests.cluster.fleet import SEGMENT_BYTES, MakeFleet
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real


async def newest_ms(bootstrap: list[str]) -> int:
    """Return an append time that the clocks of all leaders have reached: that of the newest message of a new topic."""
    async with AsyncAdmin(bootstrap) as admin:
        holds = [await admin.hold_log("now", ttl_ms=1_000, shard=shard) for shard in await admin.shards()]
        await asyncio.sleep(0.01)  # the next entries have later times
        return max(hold.expires_ms - 1_000 for hold in holds)


async def test_a_deleted_topic_comes_back(make_fleet: MakeFleet, tmp_path: Path) -> None:
    old = make_fleet(3, shards=SHARDS, cluster="old")
    await old.start()
    await old.leader()
    async with AsyncAdmin(old.bootstrap) as admin:
        await admin.create_topic("orders", 2 * SHARDS)
        await admin.add_user("anna", "a long password")
        await fill(old, "orders", 1_000)
        before = await contents(old)
        moment = await newest_ms(old.bootstrap)
        await fill(old, "orders", 300, first=1_000)
        await admin.remove_user("anna")
        await admin.delete_topic("orders")
        await admin.create_topic("later", SHARDS)
    await fill(old, "later", 100)
    target = directory_target(tmp_path)
    manifest = await backup(old, target)
    await old.stop()
    new = make_fleet(3, cluster="new")
    restored = await restore(target, manifest, new, until_ms=moment)
    assert all(shard.last_ms <= moment for shard in restored)
    await new.start()
    await new.leader()
    assert await contents(new) == before
    async with AsyncAdmin(new.bootstrap) as admin:
        await admin.create_topic("another", SHARDS)  # topic ids go on
    await fill(new, "another", 60)
    assert len(await messages_of(new, "another")) == 60
    await new.stop()
    with pytest.raises(BackupError, match="ends before this time"):
        await restore(target, manifest, make_fleet(1, cluster="late"), until_ms=manifest.taken_ms + 60_000)
    with pytest.raises(BackupError, match="began after this time"):
        await restore(target, manifest, make_fleet(1, cluster="early"), until_ms=1)


async def test_a_log_that_begins_after_a_snapshot(make_fleet: MakeFleet, tmp_path: Path) -> None:
    """A trim moves the log starts. The next backup takes the snapshot, leaves the earlier pieces out, and copies
    nothing twice."""
    old = make_fleet(3, cluster="old")
    await old.start()
    await old.leader()
    target = directory_target(tmp_path)
    async with AsyncAdmin(old.bootstrap) as admin:
        await admin.create_topic("orders", 3)
        await admin.add_user("anna", "a long password")
        await fill(old, "orders", 1_000, size=8_000)
        first = await backup(old, target)
        moment = await newest_ms(old.bootstrap)
        await admin.release_log("now")
        await fill(old, "orders", 300, first=1_000, size=8_000)
        await admin.trim_log(keep_bytes=2 * SEGMENT_BYTES)

        async def moved() -> bool:
            return all([(await old.status(node)).first_index > 1 for node in old.nodes])

        await eventually(moved, "the log starts of all nodes move")
        before = await contents(old)
        second = await backup(old, target)
    (shard,) = second.shards
    assert shard.snapshot is not None
    assert second.bytes < first.bytes
    assert second.copied < 300 * 8_300 + shard.snapshot.length
    assert list(flaws_of(target, second)) == []
    assert list(flaws_of(target, first)) == []  # its pieces are there still
    await old.stop()
    new = make_fleet(3, cluster="new")
    await restore(target, second, new)
    await new.start()
    await new.leader()
    assert await contents(new) == before
    await new.stop()
    with pytest.raises(BackupError, match="choose an earlier backup"):
        await restore(target, second, make_fleet(1, cluster="early"), until_ms=shard.start.append_time_ms - 1)
    again = make_fleet(1, cluster="again")
    await restore(target, first, again, until_ms=min(moment, first.taken_ms))
    await again.start()
    await again.leader()
    assert len(await messages_of(again, "orders")) == 1_000


async def test_a_backup_after_a_gap_begins_anew(make_fleet: MakeFleet, tmp_path: Path) -> None:
    """Retention has removed entries that no backup has copied."""
    old = make_fleet(1, cluster="old")
    await old.start()
    await old.leader()
    target = directory_target(tmp_path)
    async with AsyncAdmin(old.bootstrap) as admin:
        await admin.create_topic("orders", 1)
        first = await backup(old, target)
        await fill(old, "orders", 1_000, size=8_000)
        await admin.trim_log(keep_bytes=SEGMENT_BYTES)

        async def moved() -> bool:
            return (await old.status(1)).first_index > first.shards[0].tail.index + 1

        await eventually(moved, "the log start moves behind the backup")
    before = await contents(old)
    second = await backup(old, target)
    assert second.shards[0].pieces[0].first_index == second.shards[0].start.index + 1
    await old.stop()
    new = make_fleet(3, cluster="new")
    await restore(target, second, new)
    await new.start()
    await new.leader()
    assert await contents(new) == before


async def test_a_restore_refuses_what_would_mix_clusters(make_fleet: MakeFleet, tmp_path: Path) -> None:
    old = make_fleet(1, cluster="old")
    await old.start()
    await old.leader()
    target = directory_target(tmp_path)
    manifest = await backup(old, target)
    with pytest.raises(BackupError, match="choose another name"):
        await restore(target, manifest, make_fleet(1, cluster="old"))
    full = make_fleet(1, cluster="new")
    full.directory.mkdir()
    (full.directory / "a-file").touch()
    with pytest.raises(BackupError, match="is not empty"):
        await restore(target, manifest, full)
    with pytest.raises(BackupError, match="name 1 to 5"):
        await restore(target, manifest, make_fleet(6, cluster="large"))
