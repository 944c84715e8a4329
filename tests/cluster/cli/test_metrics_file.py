"""The files with metrics of commands, for node_exporter."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from cluster.cli.backup.backup_metrics import BackupMetrics
from cluster.cli.failure import CommandError
from cluster.cli.metrics_file import FileMetric, MetricsFile, metrics_file_option
from cluster.cli.mirror import mirror_metrics
from cluster.cli.mirror.mirror_metrics import metrics_written
from ledger.mirror.copy_tally import CopyTally, SkippedRange
from tests.cluster.waiter import eventually

LABELS = {"target": 's3://b/"p"'}
MADE = cast("Any", SimpleNamespace(bytes=5_000, copied=400, entries=30))


def values(path: Path, labels: dict[str, str]) -> dict[str, float]:
    samples = [each for family in text_string_to_metric_families(path.read_text()) for each in family.samples]
    assert all(sample.labels == labels for sample in samples)
    return {sample.name.removeprefix("ledgermq_"): sample.value for sample in samples}


def test_a_file_is_replaced_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "metrics.prom"
    file = MetricsFile(path, LABELS)
    assert file.earlier() == {}
    for count in (1, 2):
        file.write([FileMetric("ledgermq_a_total", "A.", count), FileMetric("ledgermq_b", "B.", 2.5)])
        assert file.earlier() == {"ledgermq_a_total": count, "ledgermq_b": 2.5}
    assert "# TYPE ledgermq_a_total counter" in path.read_text()
    assert [each.name for each in tmp_path.iterdir()] == [path.name], "no other file is left"
    assert MetricsFile(path, {"target": "/other"}).earlier() == {}


@pytest.mark.parametrize("content", [b"", b"a{ 1\n", b"\xff\x00", b'ledgermq_a_total{target="x"} y\n'])
def test_a_file_with_other_content_counts_as_empty(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "metrics.prom"
    path.write_bytes(content)
    assert MetricsFile(path, LABELS).earlier() == {}


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "metrics.prom"
    with pytest.raises(CommandError, match=f"cannot be written to {path}: No such file or directory"):
        MetricsFile(path, LABELS).write([])


def test_a_client_installation_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(CommandError, match="pip install"):
        MetricsFile(tmp_path / "metrics.prom", LABELS)


def test_the_name_must_be_one_that_node_exporter_reads() -> None:
    @click.command()
    @metrics_file_option
    def command(metrics_file: Path | None) -> None:
        click.echo(metrics_file)

    assert CliRunner().invoke(command, ["--metrics-file", "/d/a.prom"]).stdout == "/d/a.prom\n"
    refused = CliRunner().invoke(command, ["--metrics-file", "/d/a.txt"])
    assert (refused.exit_code, "must end with .prom" in refused.stderr) == (2, True)


def test_a_backup_that_fails_keeps_the_metrics_of_the_last_one(tmp_path: Path) -> None:
    path, now_s = tmp_path / "backup.prom", [1_000.0]

    def run(made: Any, *, at_s: float) -> dict[str, float]:
        metrics = BackupMetrics(path, "/backups", lambda: now_s[0])
        now_s[0] = at_s
        if made is None:
            metrics.failed()
        else:
            metrics.succeeded(made)
        return values(path, {"target": "/backups"})

    failed = run(None, at_s=1_001)
    assert failed == {
        "backup_last_run_timestamp_seconds": 1_001, "backup_last_run_succeeded": 0, "backup_failures_total": 1
    }  # fmt: skip
    first = run(MADE, at_s=1_010)
    of_the_backup = {
        "backup_last_success_timestamp_seconds": 1_010, "backup_duration_seconds": 9, "backup_bytes": 5_000,
        "backup_copied_bytes": 400, "backup_entries": 30,
    }  # fmt: skip
    assert first == failed | of_the_backup | {
        "backup_last_run_timestamp_seconds": 1_010, "backup_last_run_succeeded": 1
    }  # fmt: skip
    second = run(None, at_s=1_020)
    assert second == first | {
        "backup_last_run_timestamp_seconds": 1_020, "backup_last_run_succeeded": 0, "backup_failures_total": 2
    }  # fmt: skip


def test_a_failure_that_cannot_be_counted_does_not_hide_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = BackupMetrics(tmp_path / "absent" / "backup.prom", "/backups")
    metrics.failed()
    assert "cannot be written" in capsys.readouterr().err
    BackupMetrics(None, "/backups").failed()


async def test_a_mirror_writes_while_it_runs_and_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_metrics, "_EVERY_S", 0.01)
    path, labels, tally = tmp_path / "mirror.prom", {"source": "a:1", "target": "b:1"}, CopyTally()
    async with metrics_written(MetricsFile(path, labels), tally, lambda: 20_000):
        assert set(values(path, labels).values()) == {0.0}
        tally.messages["orders"] += 7
        tally.sent_bytes = 700
        tally.lags["orders", 0], tally.newest_ms["orders", 0] = 3, 18_000

        async def is_written() -> bool:
            return values(path, labels)["mirror_messages_total"] == 7

        await eventually(is_written, "the file has the new values")
        tally.note_trouble("a node is down")
        tally.skipped.add(SkippedRange("orders", 0, 0, 4))
        tally.kept_back["billing"] = "it has members"
    assert values(path, labels) == {
        "mirror_messages_total": 7, "mirror_bytes_total": 700, "mirror_errors_total": 1, "mirror_lag_messages": 3,
        "mirror_lag_seconds": 2, "mirror_skipped_messages": 4, "mirror_groups_not_moved": 1,
    }  # fmt: skip
    async with metrics_written(None, tally, lambda: 0):
        pass


async def test_a_mirror_does_not_begin_without_its_file_and_goes_on_without_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "place"
    file = MetricsFile(place / "mirror.prom", {})
    with pytest.raises(CommandError):
        async with metrics_written(file, CopyTally(), lambda: 0):
            pass
    place.mkdir()
    async with metrics_written(file, CopyTally(), lambda: 0):
        (place / "mirror.prom").unlink()
        place.rmdir()
    assert "cannot be written" in capsys.readouterr().err
