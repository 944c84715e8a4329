"""Backs up real clusters, restores the backups into new clusters, and compares everything that clients can see."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ledger.backup.check import flaws_of
from ledger.backup.manifest import piece_name
from ledgermq import AsyncAdmin
from tests.cluster.backup.backed_up import (
    SHARDS,
    backup,
    consume_some,
    contents,
    directory_target,
    fill,
    restore,
)
from tests.cluster.fleet import Fleet, MakeFleet

pytestmark = pytest.mark.real


async def filled(make_fleet: MakeFleet) -> Fleet:
    """Return a running cluster with messages, keys, a consumer group, users and rules."""
    fleet = make_fleet(3, shards=SHARDS, cluster="old")
    await fleet.start()
    await fleet.leader()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_topic("orders", 2 * SHARDS)
        await admin.create_topic("bills", 1)
        await admin.add_user("anna", "a long password")
        await admin.grant("anna", "publish", "topic:orders")
    await fill(fleet, "orders", 3_000)
    await fill(fleet, "bills", 200)
    await consume_some(fleet, "orders", "billing", 1_000)
    return fleet


async def test_a_restored_cluster_has_everything(make_fleet: MakeFleet, tmp_path: Path) -> None:
    old = await filled(make_fleet)
    target = directory_target(tmp_path)
    before = await contents(old)
    manifest = await backup(old, target)
    assert list(flaws_of(target, manifest)) == []
    await old.stop()
    new = make_fleet(3, cluster="new")
    restored = await restore(target, manifest, new)
    assert {shard.shard: shard.last_index for shard in restored} == {
        shard.shard: shard.tail.index for shard in manifest.shards
    }
    await new.start()
    await new.leader()
    assert await contents(new) == before
    async with AsyncAdmin(new.bootstrap) as admin:
        (found, *_) = await admin.query_messages("orders", "key-7")
        assert found.key == b"key-7"
    await fill(new, "orders", 500, first=3_000)  # and it works on
    after = await contents(new)
    assert len(after.messages["orders"]) == 3_500
    await new.stop()
    await new.start()
    await new.leader()
    assert await contents(new) == after


async def test_a_restored_cluster_can_have_another_number_of_nodes(make_fleet: MakeFleet, tmp_path: Path) -> None:
    old = await filled(make_fleet)
    target = directory_target(tmp_path)
    before = await contents(old)
    manifest = await backup(old, target)
    await old.stop()
    alone = make_fleet(1, cluster="alone")
    await restore(target, manifest, alone)
    await alone.start()
    await alone.leader()
    assert await contents(alone) == before
    await alone.stop()
    many = make_fleet(5, cluster="many")
    await restore(target, manifest, many)
    await many.start()
    await many.leader()
    assert await contents(many) == before


async def test_a_second_backup_copies_only_what_is_new(make_fleet: MakeFleet, tmp_path: Path) -> None:
    fleet = await filled(make_fleet)
    target = directory_target(tmp_path)
    first = await backup(fleet, target)
    before = {stored.name: stored.size for stored in target.list("shards/")}
    assert first.copied == sum(before.values()) > 600_000
    again = await backup(fleet, target)
    assert again.copied < 20_000  # the entries of the holds, and what the cluster appends by itself
    await fill(fleet, "bills", 100, first=200)
    third = await backup(fleet, target)
    after = {stored.name: stored.size for stored in target.list("shards/")}
    assert before.items() <= after.items()  # nothing was copied again
    assert sum(after.values()) == first.copied + again.copied + third.copied
    assert 20_000 < third.copied < 60_000
    for shard in third.shards:
        ends = [shard.start.index, *(piece.last_index for piece in shard.pieces)]
        assert [piece.first_index for piece in shard.pieces] == [end + 1 for end in ends[:-1]]
    assert list(flaws_of(target, third)) == []


async def test_damage_is_found(make_fleet: MakeFleet, tmp_path: Path) -> None:
    fleet = await filled(make_fleet)
    target = directory_target(tmp_path)
    manifest = await backup(fleet, target)
    shard = manifest.shards[1]
    name = piece_name(shard.shard, shard.pieces[-1])
    path = Path(target.title) / name
    whole = path.read_bytes()
    path.write_bytes(whole[:1000] + bytes([whole[1000] ^ 4]) + whole[1001:])
    assert [name in flaw for flaw in flaws_of(target, manifest)] == [True]
    path.write_bytes(whole[:-8])
    assert [name in flaw for flaw in flaws_of(target, manifest)] == [True]
    path.unlink()
    assert list(flaws_of(target, manifest)) == [f"{name} is missing"]
    await asyncio.sleep(0)
