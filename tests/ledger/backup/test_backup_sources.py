"""How a validation names a backup: the target, and behind `#` the name of the backup."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from ledger.backup.create import BackupSettings, create_backup
from ledger.backup.targets.directory_target import DirectoryTarget
from ledger.validation.sources.backup_access import BackupAccess, replicas_in
from ledger.validation.sources.errors import SourceError
from tests.cluster.cli.command import run
from tests.ledger.backup.test_create import Cluster

FIRST, SECOND = "20261126T210000.123Z", "20261127T210000.123Z"
LARGEST = 1 << 20


def backed_up(path: Path) -> str:
    """Make two backups in the directory, and return its name."""
    target, cluster = DirectoryTarget(path), Cluster(0)
    for name in (FIRST, SECOND):
        now_ms = partial(round, datetime.fromisoformat(name).timestamp() * 1_000)
        manifest = create_backup(cluster, target, BackupSettings(max_rate=0), sources=cluster.sources, now_ms=now_ms)
        assert manifest.name == name
    return str(path)


@pytest.mark.parametrize("name", ["plain", "a#b", f"of#{FIRST}#old"])
def test_the_target_may_have_the_mark_that_begins_the_name(tmp_path: Path, name: str) -> None:
    target = backed_up(tmp_path / name)
    for source, chosen in ((target, SECOND), (f"{target}#{FIRST}", FIRST), (f"{target}#{SECOND}", SECOND)):
        replicas = replicas_in(f"backup:{source}", LARGEST)
        paths = [replica.segments[0].path for replica in replicas]
        assert paths == [f"backup:{target}#{chosen}#{shard}" for shard in (0, 1)]
        segment = replicas[1].segments[0]
        assert len(BackupAccess(segment.path).read(segment, segment.base, segment.end)) == segment.length


def test_a_name_that_no_backup_has_is_told(tmp_path: Path) -> None:
    target = backed_up(tmp_path / "backups")
    with pytest.raises(SourceError, match=r"has no backup 20261128T000000\.000Z: there are"):
        replicas_in(f"backup:{target}#20261128T000000.000Z", LARGEST)
    with pytest.raises(SourceError, match=r"#yesterday has no whole backup"):
        replicas_in(f"backup:{target}#yesterday", LARGEST)


@pytest.mark.real
def test_the_command_checks_a_target_with_such_a_name(tmp_path: Path) -> None:
    told = run("backup", "check", backed_up(tmp_path / "a#b")).stdout.decode()
    assert f"whole: backup {SECOND}" in told
