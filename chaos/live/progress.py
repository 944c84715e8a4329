"""Shows how a chaos run proceeds: its events, a bar for the remaining time, and how much of a history is read."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TypeVar

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from cluster.cli.output import note_console

T = TypeVar("T")


class RunProgress:
    """Prints each message about the run's progress with its time. On a terminal it also shows a progress bar.
    Implements `chaos.live.run.RunAudience`.
    """

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


def counted(operations: Iterable[T]) -> Iterator[T]:
    """Yield the given operations unchanged. On a terminal, show how many operations were read so far."""
    console = note_console()
    count = TextColumn("{task.completed:,.0f} operations read")
    with Progress(count, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal) as bar:
        yield from bar.track(operations)
