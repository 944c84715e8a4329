"""Which shards a backup has, what it builds on, and how a restore ends that fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ledger.backup.catalogue import backups_in, stored_parts
from ledger.backup.check import flaws_of
from ledger.backup.create import BackupSettings, create_backup
from ledger.backup.errors import BackupError, DamagedBackupError
from ledger.backup.hold import TTL_MS
from ledger.backup.manifest import (
    Manifest,
    ShardBackup,
    StoredSnapshot,
    manifest_name,
    piece_name,
    snapshot_name,
)
from ledger.backup.restore import RestoreSettings, restore_backup
from ledger.backup.source import ShardSource
from ledger.client.records import LogHold, NodeStatus
from ledger.state.command_encoding import encode_command
from ledger.state.commands import AddShard, Command, HoldLog, ReleaseLog
from raft.configuration_entry import encode_configuration
from store import EntryDraft, EntryKind, PosixDisk
from tests.ledger.backup.memory_target import MemoryTarget
from tests.ledger.backup.node_logs import GRID, NodeLog, NodeLogs
from tests.ledger.broker.test_broker_membership import configuration

ME = b"1" * 16
CONFIGURATION = replace(configuration({1: ME}), segment_bytes=GRID.segment_bytes)


class Cluster:
    """A cluster of one node. `added` shards are added directly before a hold of shard 0, one before each."""

    def __init__(self, added: int) -> None:
        self._entries: dict[int, list[tuple[int, EntryDraft]]] = {}
        # The term of the next entries, which is also their append time.
        self.term = 1
        self._added = added
        # The shards of the holds, in the order in which they were taken.
        self.taken: list[int] = []
        self.held: dict[int, int] = {}
        self.statuses = 0
        self._begin(0)
        self.add_shard()

    def _begin(self, shard: int) -> None:
        self._entries[shard] = [(self.term, EntryDraft(EntryKind.CONFIGURATION, encode_configuration(CONFIGURATION)))]

    def _append(self, shard: int, command: Command) -> int:
        self._entries[shard].append((self.term, EntryDraft(EntryKind.COMMAND, encode_command(command))))
        return len(self._entries[shard])

    def add_shard(self) -> None:
        number = len(self._entries)
        self._append(0, AddShard(number, (1,), (ME,)))
        self._begin(number)

    def cluster(self) -> list[NodeStatus]:
        self.statuses = len(self._entries)
        return [NodeStatus(1, "n1:1", reachable=True, cluster="old")]

    def shards(self, *, linearizable: bool) -> list[int]:
        assert linearizable, "a client may not know a new shard yet"
        return [*self._entries]

    def hold_log(self, name: str, *, ttl_ms: int, shard: int | None) -> LogHold:
        assert shard is not None
        if not shard and self._added:
            self._added -= 1
            self.add_shard()
        index = self._append(shard, HoldLog(name, ttl_ms))
        self.taken.append(shard)
        self.held.setdefault(shard, index)
        return LogHold(name, self.held[shard], 7, 7 + TTL_MS, shard)

    def release_log(self, name: str, *, shard: int | None) -> bool:
        assert shard is not None
        self._append(shard, ReleaseLog(name))
        return self.held.pop(shard, None) is not None

    def sources(self, nodes: Sequence[NodeStatus], shards: Sequence[int], *, tls: bool) -> dict[int, ShardSource]:
        if self.statuses < len(shards):
            raise BackupError("no node serves the log of a new shard")
        return {shard: self._source(shard) for shard in shards}

    def _source(self, shard: int) -> ShardSource:
        entries = self._entries[shard]
        logs = {"n1": NodeLog(entries, commit=len(entries))}
        return ShardSource(shard, ["n1"], (1,), lambda: NodeLogs(logs), lambda _: None)


@pytest.mark.parametrize("added", [0, 1, 3])
def test_a_shard_that_is_added_while_the_backup_begins_is_in_it(tmp_path: Path, added: int) -> None:
    target, cluster = MemoryTarget(), Cluster(added)
    settings = BackupSettings(max_rate=0)
    manifest = create_backup(cluster, target, settings, sources=cluster.sources, now_ms=lambda: 1_000)
    assert [shard.shard for shard in manifest.shards] == [*range(added + 2)]
    assert cluster.taken == [1, 0, *(shard for number in range(added) for shard in (number + 2, 0))]
    assert cluster.held == {}, "all holds are released"
    assert list(flaws_of(target, manifest)) == []
    restored = restore_backup(target, manifest, RestoreSettings("new", {1: "n1:1"}, tmp_path / "new"))
    assert [shard.shard for shard in restored] == [*range(added + 2)]


def test_a_backup_without_a_shard_of_its_shard_0_is_refused(tmp_path: Path) -> None:
    target, cluster = MemoryTarget(), Cluster(1)
    settings = BackupSettings(max_rate=0)
    manifest = create_backup(cluster, target, settings, sources=cluster.sources, now_ms=lambda: 1_000)
    early = replace(manifest, shards=tuple(shard for shard in manifest.shards if shard.shard != 2))
    lacks = "backup 19700101T000001.000Z lacks shard 2, which shard 0 of the backup has"
    with pytest.raises(DamagedBackupError, match=f"{lacks}: choose another backup, or a time before"):
        restore_backup(target, early, RestoreSettings("new", {1: "n1:1"}, tmp_path / "new"))
    assert list(flaws_of(target, early)) == [lacks]


def made(target: MemoryTarget, cluster: Cluster, now_ms: int) -> Manifest:
    return create_backup(cluster, target, BackupSettings(max_rate=0), sources=cluster.sources, now_ms=lambda: now_ms)


@pytest.mark.parametrize("damaged", [(2,), (1, 2)], ids=["the newest", "all"])
def test_a_backup_builds_on_the_newest_whole_manifest(
    damaged: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    target, cluster = MemoryTarget(), Cluster(0)
    manifests = {number: made(target, cluster, 1_000 * number) for number in (1, 2)}
    for number in damaged:
        name = manifest_name(manifests[number].name)
        target.put(name, target.objects[name][:100])
    third = made(target, cluster, 3_000)
    assert len(backups_in(target)) == 3
    assert list(flaws_of(target, third)) == []
    assert (manifests[1].shards[0].pieces[0] in third.shards[0].pieces) == (1 not in damaged)
    assert manifests[2].shards[0].pieces[-1] not in third.shards[0].pieces, "its manifest is damaged"
    told = [message for message in caplog.messages if "is no whole manifest" in message]
    assert len(told) == len(damaged)
    assert manifest_name(manifests[2].name) in told[0]


@pytest.mark.parametrize("is_short", [False, True], ids=["missing", "short"])
@pytest.mark.parametrize("lost", [0, 1], ids=["the first piece", "the second piece"])
def test_a_backup_copies_again_what_the_target_has_lost(
    tmp_path: Path, lost: int, is_short: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A store may delete old objects by itself, and a file system may lose files."""
    target, cluster = MemoryTarget(), Cluster(0)
    made(target, cluster, 1_000)
    second = made(target, cluster, 2_000)
    name = piece_name(0, second.shards[0].pieces[lost])
    content = target.objects.pop(name)
    if is_short:
        target.put(name, content[:-1])
    third = made(target, cluster, 3_000)
    assert list(flaws_of(target, third)) == []
    assert third.shards[0].pieces[:lost] == second.shards[0].pieces[:lost]
    assert third.shards[1].pieces[:2] == second.shards[1].pieces
    assert [message for message in caplog.messages if name in message]
    restore_backup(target, third, RestoreSettings("new", {1: "n1:1"}, tmp_path / "new"))


def test_a_shard_whose_snapshot_the_target_has_lost_is_copied_anew() -> None:
    target, snapshot = MemoryTarget(), StoredSnapshot(9, 4, "")
    shards = {0: ShardBackup(0, GRID.segment_bytes, snapshot=snapshot), 1: ShardBackup(1, GRID.segment_bytes)}
    target.put(snapshot_name(0, snapshot), b"1234")
    assert stored_parts(target, shards) == shards
    target.put(snapshot_name(0, snapshot), b"123")
    assert stored_parts(target, shards) == {1: shards[1]}


def test_a_time_before_a_shard_was_added_can_be_restored(tmp_path: Path) -> None:
    target, cluster = MemoryTarget(), Cluster(0)
    cluster.term = 5
    cluster.add_shard()
    manifest = made(target, cluster, 1_000)
    assert [shard.shard for shard in manifest.shards] == [0, 1, 2]
    settings = RestoreSettings("new", {1: "n1:1"}, tmp_path / "early", until_ms=4)
    restored = restore_backup(target, manifest, settings)
    assert [(shard.shard, shard.last_index) for shard in restored] == [(0, 2), (1, 1)]
    made_of = {path.name for path in (settings.directory / "node-1").rglob("*")}
    assert {"shard-0", "shard-1"} <= made_of
    assert "shard-2" not in made_of
    later = replace(settings, directory=tmp_path / "later", until_ms=5)
    assert [shard.shard for shard in restore_backup(target, manifest, later)] == [0, 1, 2]


def test_a_time_between_the_addition_of_a_shard_and_its_first_entry_is_refused(tmp_path: Path) -> None:
    class SlowCluster(Cluster):
        def _begin(self, shard: int) -> None:
            self.term += 4
            super()._begin(shard)

    target, cluster = MemoryTarget(), SlowCluster(0)  # shard 1 is added in term 5, and begins in term 9
    manifest = made(target, cluster, 1_000)
    settings = RestoreSettings("new", {1: "n1:1"}, tmp_path / "new", until_ms=6)
    with pytest.raises(BackupError, match="shard 1 began after this time: choose a later time"):
        restore_backup(target, manifest, settings)
    assert list(settings.directory.iterdir()) == []


def test_a_restore_that_fails_does_not_block_the_next_one(tmp_path: Path) -> None:
    target, cluster = MemoryTarget(), Cluster(0)
    manifest = made(target, cluster, 1_000)
    directory = tmp_path / "new"
    settings = RestoreSettings("new", {1: "n1:1"}, directory)
    with pytest.raises(BackupError, match="began after this time"):
        restore_backup(target, manifest, replace(settings, until_ms=-1))
    assert list(directory.iterdir()) == []
    name = piece_name(0, manifest.shards[0].pieces[0])
    whole = target.objects.pop(name)
    with pytest.raises(DamagedBackupError, match="is missing"):
        restore_backup(target, manifest, settings)
    assert list(directory.iterdir()) == []
    target.put(name, whole)
    restore_backup(target, manifest, settings)
    assert sorted(path.name for path in directory.iterdir()) == ["cluster.secret", "node-1"]
    with pytest.raises(BackupError, match=r"is not empty, it has cluster\.secret"):
        restore_backup(target, manifest, settings)


def test_a_restore_removes_what_a_killed_one_has_left_and_nothing_else(tmp_path: Path) -> None:
    target, cluster = MemoryTarget(), Cluster(0)
    manifest = made(target, cluster, 1_000)
    settings = RestoreSettings("new", {1: "n1:1"}, tmp_path / "new")
    partial = settings.directory / "partial"
    for node in (1, 7):  # those of an attempt with other nodes too
        (partial / f"node-{node}" / "shard-0").mkdir(parents=True)
        (partial / f"node-{node}" / "data.json").write_text("half")
    (partial / "cluster.secret").write_text("old")
    mine = partial / "letters"
    mine.touch()
    with pytest.raises(BackupError, match="is not empty, it has partial/letters"):
        restore_backup(target, manifest, settings)
    assert (partial / "node-7" / "data.json").exists()
    mine.unlink()
    lock = PosixDisk().lock(partial / "lock")
    with pytest.raises(BackupError, match="partial is locked by process"):
        restore_backup(target, manifest, settings)
    lock.release()
    assert (partial / "node-7" / "data.json").exists()
    restore_backup(target, manifest, settings)
    assert sorted(path.name for path in settings.directory.iterdir()) == ["cluster.secret", "node-1"]
    assert (settings.directory / "cluster.secret").read_text() != "old"
