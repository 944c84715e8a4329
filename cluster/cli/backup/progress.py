"""The line of progress of backups, on a terminal only."""

from __future__ import annotations

import time
from types import TracebackType

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from cluster.cli.output import note_console


class BytesProgress:
    """Shows how many bytes were read of how many. Use it in a `with` block."""

    def __init__(self, what: str, total: int | None) -> None:
        console = note_console()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._what = what
        self._task = self._bar.add_task(what, total=total)
        self._begun_s = time.monotonic()
        self._done = 0

    def __enter__(self) -> BytesProgress:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def add(self, count: int) -> None:
        self._done += count
        rate = self._done / 1e6 / max(time.monotonic() - self._begun_s, 1e-3)
        said = f"{self._what}: {self._done / 1e6:,.1f} MB, {rate:,.0f} MB/s"
        self._bar.update(self._task, completed=self._done, description=said)

    def say(self, text: str) -> None:
        """Replace the line by this text."""
        self._bar.update(self._task, description=text)
