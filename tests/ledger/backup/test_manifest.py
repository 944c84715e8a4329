"""Manifests are read again whole, or not at all."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ledger.backup.catalogue import (
    backups_in,
    chosen_manifest,
    last_whole_manifest,
    load_manifest,
    manifests_in,
    prune,
)
from ledger.backup.errors import BackupError, DamagedBackupError
from ledger.backup.manifest import (
    BackupPiece,
    Manifest,
    ShardBackup,
    StoredSnapshot,
    backup_of,
    decode_manifest,
    encode_manifest,
    manifest_name,
    piece_name,
    snapshot_name,
)
from ledger.backup.progress import Progress, furthest
from ledger.backup.targets.sealed_target import SealedTarget
from store import LogTail
from tests.ledger.backup.memory_target import MemoryTarget

PIECE = BackupPiece(4096, 512, 11, 20, 2, 3, 1_000, 2_000, 7, "ab" * 32)
LATER = BackupPiece(4608, 512, 21, 30, 3, 3, 2_000, 3_000, 9, "cd" * 32)
SHARD = ShardBackup(
    1, 1 << 20, (1, 2, 3), LogTail(10, 2, 4096, 5, 900), StoredSnapshot(10, 100, "ef" * 32), (PIECE, LATER)
)
MANIFEST = Manifest("20261126T210000.123Z", "orders", "0.1.0", 1, 2, 3, 1124, (ShardBackup(0, 1 << 20), SHARD))


def test_a_manifest_is_read_again() -> None:
    assert decode_manifest(encode_manifest(MANIFEST), "m") == MANIFEST
    assert (MANIFEST.bytes, MANIFEST.entries) == (1124, 20)
    assert MANIFEST.objects() == {piece_name(1, PIECE), piece_name(1, LATER), snapshot_name(1, SHARD.snapshot)}  # type: ignore[arg-type]


def test_a_changed_manifest_is_refused() -> None:
    content = encode_manifest(MANIFEST)
    for place in range(len(content) - 1):
        changed = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        try:
            assert decode_manifest(changed, "m") == MANIFEST  # white space
        except DamagedBackupError:
            continue
    for length in range(0, len(content) - 1, 7):
        with pytest.raises(DamagedBackupError, match="m is no whole manifest"):
            decode_manifest(content[:length], "m")


def test_a_manifest_of_a_later_program_is_told() -> None:
    fields = json.loads(encode_manifest(MANIFEST))
    fields["manifest"]["format"] = 2
    with pytest.raises(BackupError, match="format 2, and this program knows format 1") as told:
        decode_manifest(json.dumps(fields).encode(), "m")
    assert not isinstance(told.value, DamagedBackupError), "nobody should remove it as a damaged one"


def test_names_of_manifests() -> None:
    assert backup_of(manifest_name("x")) == "x"
    assert backup_of("manifests/x.txt") is None
    assert backup_of("shards/x.json") is None


def test_old_backups_and_unused_objects_are_removed() -> None:
    target = MemoryTarget()
    target.put(piece_name(1, PIECE), bytes(512))
    target.put(piece_name(1, LATER), bytes(512))
    target.put("shards/1/log/00000000000000000000-8", bytes(8))
    first = replace(MANIFEST, name="1", shards=(replace(SHARD, snapshot=None, pieces=(PIECE,)),))
    second = replace(MANIFEST, name="2", shards=(replace(SHARD, snapshot=None, start=PIECE.tail, pieces=(LATER,)),))
    for each in (first, second):
        target.put(manifest_name(each.name), encode_manifest(each))
    assert backups_in(target) == ["1", "2"]
    assert prune(target, 2) == ([], 8)
    assert prune(target, 1) == (["1"], 512)
    assert target.objects.keys() == {piece_name(1, LATER), manifest_name("2")}
    assert chosen_manifest(target, None) == second
    with pytest.raises(BackupError, match="has no backup 1: there are 2"):
        load_manifest(target, "1")


def test_a_damaged_manifest_keeps_the_objects_of_all_backups() -> None:
    """A prune must not remove the pieces of a backup whose manifest it cannot read."""
    target = MemoryTarget()
    target.put(piece_name(1, PIECE), bytes(512))
    target.put(manifest_name("1"), encode_manifest(replace(MANIFEST, name="1")))
    target.put(manifest_name("2"), b"half")
    with pytest.raises(DamagedBackupError, match=r"Nothing was removed.*remove memory/manifests/2\.json, then prune"):
        prune(target, 1)
    assert len(target.objects) == 3
    target.delete(manifest_name("2"))
    assert prune(target, 1) == ([], 0)


def test_a_damaged_manifest_of_an_old_backup_is_removed_with_it() -> None:
    target = MemoryTarget()
    target.put(manifest_name("1"), b"half")
    target.put(piece_name(1, PIECE), bytes(512))
    target.put(manifest_name("2"), encode_manifest(replace(MANIFEST, name="2", shards=())))
    assert prune(target, 1) == (["1"], 512)
    assert target.objects.keys() == {manifest_name("2")}


def test_damaged_manifests_are_passed_over_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    target = MemoryTarget()
    assert last_whole_manifest(target) is None
    target.put(manifest_name("2"), encode_manifest(MANIFEST)[:100])
    assert last_whole_manifest(target) is None
    first = replace(MANIFEST, name="1")
    target.put(manifest_name("1"), encode_manifest(first))
    caplog.clear()
    assert last_whole_manifest(target) == first
    (warning,) = caplog.messages
    assert "manifests/2.json is no whole manifest" in warning
    assert "remove memory/manifests/2.json" in warning
    whole, damaged = manifests_in(target, backups_in(target))
    assert (whole, [*damaged]) == ([first], ["2"])
    with pytest.raises(DamagedBackupError, match=r"manifests/2.json is no whole .*: choose another one, for example 1"):
        chosen_manifest(target, None)
    assert chosen_manifest(target, "1") == first


def test_what_an_unfinished_backup_has_copied() -> None:
    target = MemoryTarget()
    progress = Progress(target, "orders", lambda: 0.0)
    assert not progress.load()
    progress.copied(SHARD)
    again = Progress(target, "orders")
    assert again.load()
    assert again.shards == {1: SHARD}
    assert not Progress(target, "other").load()
    content = target.objects["unfinished.json"]
    target.put("unfinished.json", content.replace(b'"last_index": 30', b'"last_index": 31'))
    assert not Progress(target, "orders").load()
    target.put("unfinished.json", b"half")
    assert not Progress(target, "orders").load()
    sealed = MemoryTarget()
    SealedTarget(sealed, bytes(32)).put("unfinished.json", content)
    assert Progress(SealedTarget(sealed, bytes(32)), "orders").load()
    sealed.put("unfinished.json", sealed.objects["unfinished.json"][:-1])
    assert not Progress(SealedTarget(sealed, bytes(32)), "orders").load()


def test_the_copy_that_reaches_further_counts() -> None:
    shorter = replace(SHARD, pieces=(PIECE,))
    assert furthest({1: shorter}, {1: SHARD}) == {1: SHARD}
    assert furthest({1: SHARD}, {1: shorter}) == {1: SHARD}
    assert furthest({1: SHARD}, {2: shorter}) == {1: SHARD, 2: shorter}
