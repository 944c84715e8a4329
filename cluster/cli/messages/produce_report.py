"""What `ledgermq produce` tells the user: a progress line on a terminal, and the account at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from cluster.cli.output import note_console, print_json, say
from cluster.cli.progress_line import drawn_again
from cluster.load.line_sender import LineSender
from ledger.words import counted

_SHOWN_LEFT_OUT = 10
_REFRESH_S = 0.2


@dataclass(slots=True)
class ProduceReport:
    """The summary that `ledgermq produce` prints at its end. If the topic was not found, there is no summary."""

    began: float
    sender: LineSender | None = None

    def show(self, output: str) -> None:
        if self.sender is None:
            return
        seconds = time.monotonic() - self.began
        sender = self.sender
        if output == "json":
            print_json(
                {
                    "acknowledged": sender.acknowledged,
                    "bytes": sender.acknowledged_bytes,
                    "repeated": sender.repeated,
                    "left_out": sender.left_out_count,
                    "in_doubt": sender.in_doubt,
                    "seconds": round(seconds, 3),
                }
            )
        for sentence in sender.left_out[:_SHOWN_LEFT_OUT]:
            say(f"left out: {sentence}")
        say(_summary(sender, seconds))


def _summary(sender: LineSender, seconds: float) -> str:
    rate = f"{sender.acknowledged / seconds:,.0f}/s, {sender.acknowledged_bytes / seconds / 1e6:,.1f} MB/s"
    parts = [f"{counted(sender.acknowledged, 'message')} acknowledged in {seconds:.2f} s ({rate})"]
    if sender.repeated:
        parts.append(f"{sender.repeated:,} had been sent before with the same message ids")
    if sender.left_out_count:
        parts.append(f"{sender.left_out_count:,} left out")
    if sender.in_doubt:
        parts.append(f"{sender.in_doubt:,} in doubt: the topic may contain them or not")
    return "; ".join(parts)


@asynccontextmanager
async def progress(report: ProduceReport, done: Callable[[], float], total: float | None) -> AsyncIterator[None]:
    """Show a line with the progress while the body runs, if standard error is a terminal and nobody types the input.

    `done` returns how much of `total` is done; without `total`, there is no bar.
    """
    console = note_console()
    if not console.is_terminal or (total is None and sys.stdin.isatty()):
        yield
        return
    columns = (TextColumn("{task.description}"), *((BarColumn(), TaskProgressColumn()) if total else ()))
    bar = Progress(*columns, console=console, transient=True, auto_refresh=False)
    task = bar.add_task("", total=total or None)

    def update() -> None:
        bar.update(task, completed=done(), description=_so_far(report))

    async with drawn_again(bar, update, _REFRESH_S):
        yield


def _so_far(report: ProduceReport) -> str:
    if report.sender is None:
        return "connecting"
    seconds = max(0.001, time.monotonic() - report.began)
    return f"{counted(report.sender.acknowledged, 'message')}, {report.sender.acknowledged / seconds:,.0f}/s"
