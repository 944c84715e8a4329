"""The validation on Spark: every planted corruption is told at its exact place, in one run over as many shards, and the
engine of one process says the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ledger.spark.validation.span_tasks import packed_limit
from ledger.spark.validation.spark_engine import SparkEngine
from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.report.report import ValidationReport
from ledger.validation.validate import validate
from tests.ledger.validation.plants import PLANTS, Planted, check
from tests.ledger.validation.stopped_cluster import NODES, StoppedCluster
from tests.ledger.validation.wrong_everywhere import COUNTS, write_wrong_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)


def planted(path: Path) -> tuple[list[str], list[Path], dict[int, tuple[str, Planted]]]:
    """Make three nodes with a shard for each planted fault. Return the sources, the histories, and the expected
    findings of each shard."""
    dues: dict[int, tuple[str, Planted]] = {}
    histories = []
    for shard, (name, plant) in enumerate(PLANTS.items()):
        cluster = StoppedCluster.make(path, shard=shard)
        dues[shard] = name, plant(cluster)
        histories.append(cluster.history(path / f"history-{shard}.jsonl", dues[shard][1].sends))
    return [str(path / f"node-{node}") for node in NODES], histories, dues


@pytest.mark.parametrize("by_tasks", [False, True])
def test_every_plant_is_found_and_both_engines_say_the_same(
    spark: SparkSession, tmp_path: Path, *, by_tasks: bool
) -> None:
    """All facts are small here, so the driver judges them. With a limit of 0, tasks judge them."""
    sources, histories, dues = planted(tmp_path)
    out = tmp_path / "out"
    limit = (lambda _: 0) if by_tasks else packed_limit
    engine = SparkEngine(spark.sparkContext, limit=limit)
    report = validate(sources, engine, histories=histories, out=out, span_bytes=4096)
    assert (out / "violations.parquet").is_file(), "the driver writes it, because executors may be on other hosts"
    assert report.not_judged == ()
    shards = {shard.shard: shard for shard in report.shards}
    for shard, (name, due) in dues.items():
        check(name, due, [violation for violation in report.violations if violation.shard == shard])
        assert all(part in " ".join(shards[shard].notes) for part in due.notes), name
    plain = validate(sources, PlainEngine(), histories=histories, out=tmp_path / "plain", span_bytes=4096)
    assert verdict_of(report) == verdict_of(plain)
    rows = spark.read.parquet(str(out / "violations.parquet"))
    assert rows.count() == report.violation_count > len(PLANTS) // 2
    assert spark.read.parquet(str(tmp_path / "plain" / "violations.parquet")).count() == report.violation_count


def test_what_is_too_much_to_be_told_is_counted_by_both_engines(spark: SparkSession, tmp_path: Path) -> None:
    source, history = write_wrong_log(tmp_path)
    report = validate([source], SparkEngine(spark.sparkContext), histories=[history], span_bytes=64 << 10)
    assert verdict_of(report) == verdict_of(validate([source], PlainEngine(), histories=[history], span_bytes=64 << 10))
    assert dict(report.counts) == {kind.value: count for kind, count in COUNTS.items()}


def verdict_of(report: ValidationReport) -> tuple[object, ...]:
    """Return the parts of a report that do not depend on the engine or on the size of spans."""
    return report.status, report.counts, report.violations, report.shards, report.acknowledged, report.not_judged
