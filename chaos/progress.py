"""How a run goes, for a person who watches: what happens, and on a terminal a bar for the time that is left."""

from __future__ import annotations

import time
from types import TracebackType

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from cluster.cli.output import note_console


class RunProgress:
    """Implements `chaos.run.Audience`."""

    def __init__(self, seconds: float) -> None:
        self._began = time.monotonic()
        self._bar = Progress(
            BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn(), console=note_console(), transient=True
        )
        self._task = self._bar.add_task("under load", total=seconds)

    def __enter__(self) -> RunProgress:
        if self._bar.console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def say(self, sentence: str) -> None:
        self._bar.console.print(f"{time.monotonic() - self._began:7.1f} s  {sentence}", soft_wrap=True)

    def passed(self, seconds: float) -> None:
        self._bar.update(self._task, completed=seconds)
