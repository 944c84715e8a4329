"""Ends backups at every write to the target, and continues them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from ledger.backup.catalogue import backups_in, chosen_manifest
from ledger.backup.check import flaws_of
from ledger.backup.create import BackupSettings
from ledger.backup.errors import BackupError, TargetBusyError
from ledger.backup.progress import Progress
from ledger.backup.targets.directory_target import DirectoryTarget
from ledger.backup.targets.target import StoredObject
from ledgermq import AsyncAdmin
from tests.cluster.backup.backed_up import SHARDS, Row, backup, contents, directory_target, fill, messages_of, restore
from tests.cluster.cli.command import start
from tests.cluster.fleet import Fleet, MakeFleet
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real


class EndingTarget:
    """A target whose process ends at the `last`-th `put`, from 1, before or after the object is stored."""

    def __init__(self, inner: DirectoryTarget, last: int, *, stores: bool) -> None:
        self._inner = inner
        self._left = last
        self._stores = stores

    @property
    def title(self) -> str:
        return self._inner.title

    def put(self, name: str, content: bytes) -> None:
        self._left -= 1
        if self._left or self._stores:
            self._inner.put(name, content)
        if not self._left:
            raise KeyboardInterrupt

    def get(self, name: str) -> bytes | None:
        return self._inner.get(name)

    def list(self, prefix: str = "") -> list[StoredObject]:
        return self._inner.list(prefix)

    def delete(self, name: str) -> None:
        self._inner.delete(name)

    @contextmanager
    def lock(self) -> Iterator[None]:
        with self._inner.lock():
            yield


async def small(make_fleet: MakeFleet) -> Fleet:
    fleet = make_fleet(1, shards=SHARDS, cluster="old")
    await fleet.start()
    await fleet.leader()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_topic("orders", SHARDS)
    await fill(fleet, "orders", 300)
    return fleet


@pytest.mark.parametrize("stores", [False, True], ids=["before", "after"])
async def test_a_backup_that_ends_at_any_write_is_no_backup_and_can_be_continued(
    make_fleet: MakeFleet, tmp_path: Path, stores: bool
) -> None:
    fleet = await small(make_fleet)
    target = directory_target(tmp_path)
    whole = await backup(fleet, target)
    before = await contents(fleet)
    ended = 0
    for number in range(1, 100):
        await fill(fleet, "orders", 30, first=300 + 30 * number)
        known = backups_in(target)
        try:
            await backup(fleet, EndingTarget(target, number, stores=stores))
        except KeyboardInterrupt:
            ended += 1
            if len(backups_in(target)) > len(known):
                assert stores  # the manifest itself was stored: the backup is whole
                break
            assert list(flaws_of(target, whole)) == []
        else:
            break
    assert ended >= SHARDS + 1
    last = await backup(fleet, target)
    assert list(flaws_of(target, last)) == []
    before = await contents(fleet)
    await fleet.stop()
    new = make_fleet(1, cluster="new")
    await restore(target, last, new)
    await new.start()
    await new.leader()
    assert await contents(new) == before


async def test_a_killed_backup_under_load_continues_where_it_was(make_fleet: MakeFleet, tmp_path: Path) -> None:
    fleet = make_fleet(3, shards=SHARDS, cluster="old")
    await fleet.start()
    await fleet.leader()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_topic("orders", 2 * SHARDS)
    await fill(fleet, "orders", 2_000, size=8_000)
    path = tmp_path / "backups"
    target = DirectoryTarget(path)
    load = asyncio.create_task(_load(fleet))
    command = ["backup", "create", str(path), "--bootstrap", fleet.bootstrap[0], "--max-rate", "4M"]
    process = start(*command)

    async def half() -> bool:
        assert process.poll() is None
        return Progress(target, "old").load() and len(target.list("shards/")) >= 3

    await eventually(half, "a part is copied")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert backups_in(target) == []
    copied = {stored.name: stored.size for stored in target.list("shards/")}
    with pytest.raises(BackupError, match="has no whole backup"):
        chosen_manifest(target, None)
    progress = Progress(target, "old")
    assert progress.load()
    known = sum(shard.bytes for shard in progress.shards.values())
    assert 1_000_000 < known <= sum(copied.values())
    manifest = await backup(fleet, target)
    load.cancel()
    await asyncio.gather(load, return_exceptions=True)
    assert manifest.copied == manifest.bytes - known
    assert list(flaws_of(target, manifest)) == []
    sent = by_queue(await messages_of(fleet, "orders"))
    await fleet.stop()
    new = make_fleet(3, cluster="new")
    await restore(target, manifest, new)
    await new.start()
    await new.leader()
    found = by_queue(await messages_of(new, "orders"))
    assert sum(map(len, found.values())) >= 2_000
    for queue, rows in found.items():  # what was acknowledged before the backup, and a part of what came meanwhile
        assert rows == sent[queue][: len(rows)]


def by_queue(rows: list[Row]) -> dict[int, list[Row]]:
    queues: dict[int, list[Row]] = {}
    for row in rows:
        queues.setdefault(row[0], []).append(row)
    return queues


async def _load(fleet: Fleet) -> None:
    first = 2_000
    while True:
        await fill(fleet, "orders", 100, first=first, size=1_000)
        first += 100


async def test_one_backup_at_a_time(make_fleet: MakeFleet, tmp_path: Path) -> None:
    fleet = await small(make_fleet)
    target = directory_target(tmp_path)
    lock: AbstractContextManager[None] = DirectoryTarget(tmp_path / "backups").lock()
    with lock, pytest.raises(TargetBusyError, match="wait until it has ended"):
        await backup(fleet, target)
    await backup(fleet, target, BackupSettings(max_rate=0))


async def test_backups_of_another_cluster_do_not_mix(make_fleet: MakeFleet, tmp_path: Path) -> None:
    fleet = await small(make_fleet)
    target = directory_target(tmp_path)
    await backup(fleet, target)
    await fleet.stop()
    for name, why in (("other", "has backups of cluster 'old', not of 'other'"), ("old", "backups of another cluster")):
        other = make_fleet(1, shards=SHARDS, cluster=name)
        await other.start()
        await other.leader()
        with pytest.raises(BackupError, match=why):
            await backup(other, target)
        await other.stop()
    assert len(backups_in(target)) == 1
