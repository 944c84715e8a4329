"""Progress bars for commands that read logs: one bar for each log, and only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from cluster.cli.output import note_console
from ledger.validation.sources.place import LogPlace


class LogProgress:
    def __init__(self, places: Sequence[LogPlace]) -> None:
        console = note_console()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            # On a terminal, lines of standard output are printed above the bar.
            redirect_stdout=sys.stdout.isatty(),
        )
        self._tasks = [self._bar.add_task(str(place.path), total=place.total_bytes) for place in places]

    def __enter__(self) -> LogProgress:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def update(self, number: int, done: int) -> None:
        """Show that `done` bytes of log `number` have been read."""
        self._bar.update(self._tasks[number], completed=done)
