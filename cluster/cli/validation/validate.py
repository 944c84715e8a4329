"""The command `ledgermq validate` reads the bytes of logs, and checks that the replicas agree and have all
acknowledged messages.

The report goes to standard output, and the progress to standard error. The exit status is 0 if the logs are valid, 1
if there is a violation, and 2 if the logs could not be checked.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import click
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from cluster.cli.failure import sentence
from cluster.cli.options import format_option, security_options
from cluster.cli.output import data_console, note_console, print_json, print_table, printable
from cluster.cli.verdict import NOT_JUDGED, ReaderLeftError, UnwrittenError

if TYPE_CHECKING:
    from ledger.validation.report.report import ValidationReport


class CannotJudgeError(click.ClickException):
    """The validation failed before it could give a verdict."""

    exit_code = 2


@click.command(short_help="Check that replicas agree, from the bytes of their logs.")
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option(
    "--acked",
    "histories",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="HISTORY",
    help="File of acknowledgements, from `AsyncProducer(history=...)` or `chaos run`. Repeat it for more files.",
)
@click.option(
    "--master", metavar="MASTER", help="Run on Spark: local[2], spark://HOST:PORT, yarn.  [default: in this process]"
)
@click.option(
    "--spark-conf",
    "spark_conf",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of Spark, with --master: spark.executor.memory=2g. Repeat it for more settings.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write verdict.json, violations.parquet and index.html (a page with plots) to this directory.",
)
@security_options
@format_option
def validate(
    sources: Sequence[str],
    histories: Sequence[Path],
    master: str | None,
    spark_conf: Sequence[str],
    out: Path | None,
    output: str,
) -> int:
    """Check that the replicas of shards agree, by reading the bytes of their logs.

    The command replays each log: it builds the replica's state anew from the log's entries. The command compares the
    replicas with each other, with their indexes and snapshots, and with the acknowledgements in --acked. A SOURCE is a
    node's data directory (the node may run), a copy of a data directory, http://HOST:PORT, the HTTP port of a running
    node (https with TLS), or backup:TARGET, the newest backup in TARGET. In a secured cluster the user needs the right
    to read the log, and for shard 0 the right to administer the cluster.

    \b
    Status: 0  valid
            1  violation: something committed is damaged, differs or is missing
            2  not judged: for example a source cannot be read, or nothing is committed
    """
    from ledger.validation.report.out_directory import write_verdict

    if spark_conf and master is None:
        raise click.UsageError("--spark-conf needs --master, such as --master 'local[2]' or spark://HOST:7077")
    try:
        with _ProgressLine() as progress:
            report = _judged(sources, histories, master, spark_conf, out, progress)
        if out is not None:
            for line in write_verdict(report, out):
                note_console().print(f"note: {printable(line)}", soft_wrap=True, markup=False)
        _print(report, output)
    except (ReaderLeftError, UnwrittenError):
        raise
    except Exception as error:  # Python would exit with status 1, which means a violation
        if told := sentence(error):
            raise CannotJudgeError(told) from error
        traceback.print_exc()
        raise CannotJudgeError(
            f"the validation failed by a bug of its own, so nothing is judged; please report it: {error!r}"
        ) from error
    return report.status


def _judged(
    sources: Sequence[str],
    histories: Sequence[Path],
    master: str | None,
    spark_conf: Sequence[str],
    out: Path | None,
    progress: _ProgressLine,
) -> ValidationReport:
    if master is not None:
        from ledger.spark.session import require_spark, spark_settings

        require_spark()
        conf = spark_settings(spark_conf)
        from ledger.spark.validation.application import validate_on_spark

        return validate_on_spark(
            sources,
            master=master,
            conf=conf,
            histories=histories,
            out=out,
            on_plan=progress.plan,
            on_progress=progress.update,
        )
    from ledger.validation.judging.plain_engine import PlainEngine
    from ledger.validation.validate import validate as judge

    return judge(sources, PlainEngine(progress.update), histories=histories, out=out, on_plan=progress.plan)


def _print(report: ValidationReport, output: str) -> None:
    try:
        if output == "json":
            print_json(report.fields())
        else:
            _print_report(report)
        sys.stdout.flush()
    except BrokenPipeError as error:  # the verdict is known, although nobody reads it
        raise ReaderLeftError(report.status) from error
    except OSError as error:
        raise UnwrittenError(error, report.status or NOT_JUDGED) from error


def _print_report(report: ValidationReport) -> None:
    from ledger.validation.report.summary import COLUMNS, acknowledged_sentence, closing_lines, rows_of, shard_sentence

    console = data_console()
    for shard in report.shards:
        console.print(printable(shard_sentence(shard)), style="bold", soft_wrap=True)
        print_table(COLUMNS, rows_of(shard))
        for note in shard.notes:
            console.print(f"note: {printable(note)}", style="dim", soft_wrap=True)
        console.print()
    if report.acknowledged is not None:
        console.print(printable(acknowledged_sentence(report)), soft_wrap=True)
    *lines, verdict = closing_lines(report)
    for line in lines:
        console.print(printable(line), style="red", soft_wrap=True)
    console.print(verdict, style={0: "bold green", 1: "bold red", 2: "bold yellow"}[report.status], soft_wrap=True)


class _ProgressLine:
    """Shows the number of spans, the MB/s and the number of violations so far, only on a terminal."""

    def __init__(self) -> None:
        console = note_console()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("opening the sources", total=None)
        self._spans = 0
        self._begun = time.monotonic()

    def __enter__(self) -> _ProgressLine:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def plan(self, spans: int, size: int) -> None:
        self._spans, self._begun = spans, time.monotonic()
        self._bar.update(self._task, total=size, description=f"0/{spans} spans")

    def update(self, spans: int, size: int, wrong: int) -> None:
        rate = size / 1e6 / max(time.monotonic() - self._begun, 1e-3)
        said = f"{spans}/{self._spans} spans, {rate:,.0f} MB/s, {wrong:,} violations"
        self._bar.update(self._task, completed=size, description=said)
