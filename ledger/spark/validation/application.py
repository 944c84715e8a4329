"""The validation of replicas as a plain PySpark application.

    spark-submit --master spark://host:7077 --py-files ledgermq.zip ledger/spark/validation/application.py
    /data/node-1 /data/node-2
    python -m ledger.spark.validation.application --master local[2] /data/node-1 /data/node-2 http://10.0.0.3:9872

The program takes the same sources as `ledgermq validate` and prints the same report. Without --master, spark-submit or
the environment chooses where the program runs. docs/VALIDATION.md describes how to run it on a cluster.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from ledger.errors import LedgerError, told_of
from ledger.spark.session import failures_in_a_line, spark_context, spark_settings
from ledger.spark.validation.spark_engine import SparkEngine
from ledger.validation.judging.engine import OnProgress, no_progress
from ledger.validation.report.out_directory import write_verdict
from ledger.validation.report.report import NOT_JUDGED, ValidationReport
from ledger.validation.report.summary import as_text
from ledger.validation.validate import OnPlan, validate

# The job takes seconds, and Java only passes data between Python processes. Full optimisation by Java's compiler would
# take longer than it saves. The user's own options follow these and have precedence.
CONF = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1"}


def validate_on_spark(
    sources: Sequence[str],
    *,
    master: str | None,
    conf: Mapping[str, str] | None = None,
    histories: Sequence[Path] = (),
    out: Path | None = None,
    on_plan: OnPlan = lambda _spans, _bytes: None,
    on_progress: OnProgress = no_progress,
) -> ValidationReport:
    """Validate the sources on Spark and return the report. `master` and `conf` have the same meaning as in
    `spark_context`. Raises LedgerError."""
    settings = {**CONF, **(conf or {})}
    with failures_in_a_line(master), spark_context("ledgermq validate", master=master, conf=settings) as sc:
        engine = SparkEngine(sc, on_progress)
        return validate(sources, engine, histories=histories, out=out, on_plan=on_plan)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        report = validate_on_spark(
            options.sources,
            master=options.master,
            conf=spark_settings(options.spark_conf),
            histories=options.acked,
            out=options.out,
            on_progress=_say,
        )
        if options.out is not None:
            for line in write_verdict(report, options.out):
                print(f"note: {line}", file=sys.stderr)
    except (LedgerError, OSError) as error:
        print(f"Error: {told_of(error)}", file=sys.stderr)
        return NOT_JUDGED
    except Exception:  # Python's exit status for an exception, 1, would mean that the logs are wrong
        traceback.print_exc()
        return NOT_JUDGED
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    print(json.dumps(report.fields(), indent=2) if options.format == "json" else as_text(report))
    return report.status


def _say(spans: int, size: int, wrong: int) -> None:
    """Print progress on a terminal, on one line that each call replaces."""
    if sys.stderr.isatty():
        said = f"{spans:,} spans, {size / 1e6:,.0f} MB read, {wrong:,} violations"
        print(f"\r\x1b[K{said}", end="", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ledger.spark.validation.application", description="Prove from the bytes that replicas agree."
    )
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="a data directory, or http://HOST:PORT of a node")
    parser.add_argument("--acked", action="append", default=[], type=Path, metavar="HISTORY", help="a client's history")
    parser.add_argument("--master", help="where Spark runs, such as local[2]; default: as spark-submit says")
    parser.add_argument(
        "--spark-conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark; repeat it for more"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="directory for verdict.json, violations.parquet and index.html"
    )
    parser.add_argument("--format", choices=["text", "json"], default="text")
    return parser


if __name__ == "__main__":
    sys.exit(main())
