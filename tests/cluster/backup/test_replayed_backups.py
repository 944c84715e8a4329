"""Validates backups without restoring them: alone, and beside the nodes that they were made of."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.cli.backup.replaying import replayed_flaws
from ledger.backup.check import flaws_of
from ledger.backup.manifest import encode_manifest, manifest_name, piece_name
from ledger.backup.targets.key_file import make_key_file
from ledger.backup.targets.open_target import open_target
from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.report.report import NOT_JUDGED, VALID
from ledger.validation.sources.backup_access import KEY_FILE_VARIABLE
from ledger.validation.validate import validate
from ledgermq import AsyncAdmin
from store import EntryDraft, EntryKind
from store.log.entry import HEADER_SIZE, encode, parse
from tests.cluster.backup.backed_up import SHARDS, backup, directory_target, fill
from tests.cluster.fleet import SEGMENT_BYTES, MakeFleet
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real


async def test_a_backup_agrees_with_the_nodes(make_fleet: MakeFleet, tmp_path: Path) -> None:
    fleet = make_fleet(3, shards=SHARDS)
    await fleet.start()
    await fleet.leader()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_topic("orders", SHARDS)
        await fill(fleet, "orders", 600, size=20_000)
        await admin.trim_log(keep_bytes=SEGMENT_BYTES // 4)

        async def moved() -> bool:
            return (await fleet.status(1)).first_index > 1

        await eventually(moved, "the log start moves")
    target = directory_target(tmp_path)
    manifest = await backup(fleet, target)
    assert any(shard.snapshot for shard in manifest.shards)
    await fill(fleet, "orders", 60)
    await fleet.level()
    sources = [f"backup:{target.title}", *(f"http://{fleet.http(node)}" for node in fleet.nodes)]
    report = await asyncio.to_thread(lambda: validate(sources, PlainEngine()))
    assert (report.violations, report.not_judged, report.status) == ((), (), VALID)
    assert {len(shard.replicas) for shard in report.shards} == {4}


async def test_a_right_chain_with_a_wrong_entry_is_found(make_fleet: MakeFleet, tmp_path: Path) -> None:
    """Every checksum is right, and a batch has wrong offsets: only the replay can tell."""
    fleet = make_fleet(1)
    await fleet.start()
    await fleet.create_topic("orders")
    await fill(fleet, "orders", 10)
    target = directory_target(tmp_path)
    manifest = await backup(fleet, target)
    (shard,) = manifest.shards
    assert replayed_flaws(f"backup:{target.title}", None) == []
    piece = shard.pieces[-1]
    content = target.get(piece_name(0, piece))
    assert content is not None
    at, batch = 0, parse(content, 0)
    while batch.kind is not EntryKind.BATCH:
        at += batch.end - batch.position
        batch = parse(content, at)
    body = content[at + HEADER_SIZE : at + batch.size]
    draft = EntryDraft(EntryKind.BATCH, body, batch.topic_id, batch.queue, batch.base_offset + 7, batch.count)
    header, forged = encode(
        draft,
        index=piece.last_index + 1,
        term=piece.last_term,
        position=piece.end,
        commit=piece.last_index,
        append_time_ms=piece.last_ms,
        previous_chain=piece.chain,
    )
    longer = content + b"".join(forged)
    wrong = replace(
        piece,
        length=len(longer),
        last_index=header.index,
        chain=header.chain,
        sha256=hashlib.sha256(longer).hexdigest(),
    )
    target.put(piece_name(0, wrong), longer)
    other = replace(manifest, name="z", shards=(replace(shard, pieces=(*shard.pieces[:-1], wrong)),))
    target.put(manifest_name("z"), encode_manifest(other))
    assert list(flaws_of(target, other)) == []
    assert "offset" in replayed_flaws(f"backup:{target.title}", None)[0]
    assert replayed_flaws(f"backup:{target.title}#{manifest.name}", None) == []


async def test_an_encrypted_backup_and_what_cannot_be_read(
    make_fleet: MakeFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = make_fleet(1)
    await fleet.start()
    await fleet.create_topic("orders")
    key = tmp_path / "key"
    make_key_file(key)
    name = str(tmp_path / "backups")
    await backup(fleet, open_target(name, key))
    for source, why in ((f"backup:{name}", "are encrypted"), (f"backup:{tmp_path / 'none'}", "has no whole backup")):
        report = validate([source], PlainEngine())
        assert report.status == NOT_JUDGED
        assert why in report.not_judged[0]
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(key))
    assert validate([f"backup:{name}"], PlainEngine()).status == VALID
