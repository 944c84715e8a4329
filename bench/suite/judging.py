"""Measures how fast `ledgermq validate` judges the logs of three nodes with Spark on two cores, against one process
without Spark."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from bench.judging.validate import SHAPES, CommandFailedError, CommandTimes, commanded, make
from bench.suite.rows import SuiteChapter, TargetRow
from bench.suite.scale import SuiteScale
from bench.suite.stage import BenchFailedError, Stage
from ledger.spark.session import SparkMissingError, require_spark

SPARK = "local[2]"
# The size of the log of each node for which the target holds. A smaller log is judged before Spark pays.
TARGET_GIB = 8.0
LEAST = 1.2
_SEGMENT_BYTES = 1 << 30


def spark_against_plain(stage: Stage, scale: SuiteScale) -> SuiteChapter:
    """Run both engines in turns. The three nodes' files are hard links of one log, so that the page cache holds it."""
    gib = min(TARGET_GIB, scale.log_gib)
    part = SuiteChapter(f"Validation of the logs of three nodes, {gib:g} GiB each")
    try:
        require_spark()
    except SparkMissingError as error:
        part.rows.append(
            TargetRow(f"Spark {SPARK} against one process", f"≥ {LEAST}", "not measured", None, str(error))
        )
        return part
    with tempfile.TemporaryDirectory(prefix="validate-", dir=stage.directory) as directory:
        sources = make(Path(directory), int(gib * (1 << 30)), SHAPES["batches"], _SEGMENT_BYTES, linked=True)
        rounds = [(_run(stage, "plain", sources), _run(stage, SPARK, sources)) for _ in range(scale.rounds)]
    part.rows += rows_of(rounds, gib)
    return part


def rows_of(rounds: list[tuple[CommandTimes, CommandTimes]], gib: float) -> list[TargetRow]:
    """Return the rows of the page for the times of both engines, the plain one first. `gib` is the size of each log."""
    ratio = median(plain.validation_s / spark.validation_s for plain, spark in rounds)
    whole = median(plain.whole_s / spark.whole_s for plain, spark in rounds)
    plain_s = median(plain.validation_s for plain, _ in rounds)
    spark_s = median(spark.validation_s for _, spark in rounds)
    beside_s = median(spark.whole_s - spark.validation_s for _, spark in rounds)
    return [
        TargetRow(
            f"Spark {SPARK} against one process, without the start of Spark",
            f"≥ {LEAST} with {TARGET_GIB:g} GiB",
            f"{ratio:.2f}",
            ratio >= LEAST if gib >= TARGET_GIB else None,
            f"one process {plain_s:.1f} s, Spark {spark_s:.1f} s",
        ),
        TargetRow(
            "the whole commands, with the start and the end of Spark", "reported", f"{whole:.2f}", None,
            f"Spark and the imports take {beside_s:.1f} s beside the validation",
        ),
    ]  # fmt: skip


def _run(stage: Stage, engine: str, sources: list[str]) -> CommandTimes:
    try:
        times = commanded(engine, sources)
    except CommandFailedError as error:
        raise BenchFailedError(str(error)) from error
    stage.record(f"validation, {engine}", times.command, {"whole_s": times.whole_s, "validation_s": times.validation_s})
    return times
