"""Prints the progress of the demo and its result.

The progress goes to standard error: as bars on a terminal, and otherwise as a sentence for each stage. The table with
the result goes to standard output.
"""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from cluster.cli.output import show
from cluster.demo.run import DemoOutcome

_SHOWN = 5


class ProgressDisplay:
    """Shows the demo's progress on a console; it implements `Display`. Use the object as a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._bars: dict[str, TaskID] = {}

    def __enter__(self) -> ProgressDisplay:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def stage(self, sentence: str) -> None:
        self._console.print(Text(sentence), soft_wrap=True)

    def sending(self, done_bytes: int, of_bytes: int) -> None:
        self._show("sending", done_bytes, of_bytes)

    def reading(self, node: int, done: int, of: int) -> None:
        self._show(f"reading from node {node}", done, of)

    def _show(self, bar: str, done: int, of: int) -> None:
        if bar not in self._bars:
            self._bars[bar] = self._progress.add_task(bar, total=of)
        self._progress.update(self._bars[bar], completed=done, total=of)


def print_outcome(outcome: DemoOutcome, console: Console) -> None:
    """Print the table of the result. If the verdict is negative, also print the differences that were found."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, text in _rows(outcome):
        table.add_row(name, text)
    verdict = Text("HOLDS", "bold green") if outcome.holds else Text("DOES NOT HOLD", "bold red")
    table.add_row("verdict", verdict.append(f": {_verdict(outcome)}", style="not bold default"))
    show(table, console)
    for fault in _few(outcome.faults):
        console.print(Text(f"  {fault}"), soft_wrap=True)


def _rows(outcome: DemoOutcome) -> list[tuple[str, str]]:
    outage = "nothing was sent after the kill" if outcome.outage_ms is None else f"{outcome.outage_ms:,} ms"
    identical = "byte-identical" if outcome.replicas_identical else "NOT identical"
    rows = [
        ("input", f"{outcome.corpus}, {outcome.files:,} file(s)"),
        ("messages", f"{outcome.messages:,}"),
        ("MB", f"{outcome.size / 1e6:,.1f}"),
        ("acknowledged per second", f"{outcome.per_second:,.0f}, the outage included"),
        ("leader", f"node {outcome.leader_before}, killed half-way; then node {outcome.leader_after}"),
        ("no write acknowledged for", outage),
        ("replicas", f"{outcome.nodes_read}, {identical} ({outcome.log_bytes / 1e6:,.1f} MB of log)"),
    ]
    if outcome.refused:
        rows.append(("refused", "\n".join(_few(outcome.refused))))
    return rows


def _verdict(outcome: DemoOutcome) -> str:
    if outcome.holds:
        return "every acknowledged line is there exactly once and in order within its file, on every replica"
    return f"{len(outcome.faults):,} fault(s)"


def _few(sentences: tuple[str, ...]) -> list[str]:
    more = len(sentences) - _SHOWN
    return [*sentences[:_SHOWN], f"and {more:,} more"] if more > 0 else list(sentences)
