"""`ledgermq validate`: proves from the bytes that replicas agree, and that what was acknowledged is there.

Data (tables, JSON, violations) on standard output, the line that tells how far it is on standard error; the status is
the verdict: 0 valid, 1 violated, 2 could not be judged.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import click
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from cluster.cli.failure import sentence
from cluster.cli.options import format_option
from cluster.cli.output import data_console, note_console, print_json, print_table

if TYPE_CHECKING:
    from ledger.validation.report.report import Report


class CannotJudgeError(click.ClickException):
    """Nothing could be judged at all."""

    exit_code = 2


@click.command(short_help="Prove from the bytes that replicas agree.")
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option(
    "--acked",
    "histories",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="HISTORY",
    help="What clients were told (`AsyncProducer(history=...)`, `chaos run`). May be given more than once.",
)
@click.option("--master", metavar="MASTER", help="Run on Spark: local[2], spark://HOST:PORT, yarn.  [default: here]")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write verdict.json there, all violations as violations.parquet, and index.html: a page with pictures.",
)
@format_option
def validate(
    sources: Sequence[str], histories: Sequence[Path], master: str | None, out: Path | None, output: str
) -> int:
    """Replay the logs of replicas from their bytes, and compare them: with each other, with the indexes and snapshots
    beside them, and with what clients were told.

    A SOURCE is a node's data directory (running or not), a copy of one, or http://HOST:PORT of a running node.

    \b
    Status: 0  valid
            1  a violation: what is committed is damaged, differs, or is missing
            2  it could not be judged: a source cannot be read, nothing is committed, ...
    """
    from ledger.validation.report.out_directory import write_verdict

    try:
        with _ProgressLine() as progress:
            report = _judged(sources, histories, master, out, progress)
        if out is not None:
            for line in write_verdict(report, out):
                note_console().print(f"note: {line}", soft_wrap=True, markup=False)
    except Exception as error:  # Python's own status for it, 1, would say that the logs are wrong
        if told := sentence(error):
            raise CannotJudgeError(told) from error
        traceback.print_exc()
        raise CannotJudgeError(f"the validation failed by a fault of its own: {error!r}") from error
    if output == "json":
        print_json(report.fields())
    else:
        _print_report(report)
    return report.status


def _judged(
    sources: Sequence[str], histories: Sequence[Path], master: str | None, out: Path | None, progress: _ProgressLine
) -> Report:
    if master is not None:
        from ledger.spark.session import require_spark

        require_spark()
        from ledger.spark.validation.application import validate_on_spark

        return validate_on_spark(
            sources, master=master, histories=histories, out=out, on_plan=progress.plan, on_progress=progress.update
        )
    from ledger.validation.judging.plain_engine import PlainEngine
    from ledger.validation.validate import validate as judge

    return judge(sources, PlainEngine(progress.update), histories=histories, out=out, on_plan=progress.plan)


def _print_report(report: Report) -> None:
    from ledger.validation.report.summary import COLUMNS, acknowledged_sentence, closing_lines, rows_of, shard_sentence

    console = data_console()
    for shard in report.shards:
        console.print(shard_sentence(shard), style="bold", soft_wrap=True)
        print_table(COLUMNS, rows_of(shard))
        for note in shard.notes:
            console.print(f"note: {note}", style="dim", soft_wrap=True)
        console.print()
    if report.acknowledged is not None:
        console.print(acknowledged_sentence(report), soft_wrap=True)
    *lines, verdict = closing_lines(report)
    for line in lines:
        console.print(line, style="red", soft_wrap=True)
    console.print(verdict, style={0: "bold green", 1: "bold red", 2: "bold yellow"}[report.status], soft_wrap=True)


class _ProgressLine:
    """Spans, MB/s and violations so far, on a terminal only."""

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
        self._task = self._bar.add_task("looking at the sources", total=None)
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
