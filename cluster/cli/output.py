"""What commands write: data on standard output, everything else on standard error.

The same rows are a table for a person and JSON for a program. Colours are for terminals only, and never where
NO_COLOR is set (rich sees to that); a table in a pipe is as wide as it needs to be.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

_WIDE = 10_000
# The words that a table shows in colour, whatever column they stand in.
_STYLES = {
    "leader": "bold green",
    "follower": "green",
    "learner": "cyan",
    "candidate": "yellow",
    "damaged": "red",
    "joining": "yellow",
    "follower, suspect": "bold yellow",
    "learner, suspect": "bold yellow",
    "pre-candidate, suspect": "bold yellow",
    "candidate, suspect": "bold yellow",
    "removed": "red",
    "waiting": "yellow",
    "starting": "yellow",
    "stopped": "red",
    "unreachable": "bold red",
}


def data_console() -> Console:
    """Standard output."""
    return _console(stderr=False)


def note_console() -> Console:
    """Standard error."""
    return _console(stderr=True)


def say(sentence: str) -> None:
    """Tells a person something that is not data."""
    note_console().print(sentence, soft_wrap=True)


def counted(number: int, noun: str) -> str:
    """ "1 message", "2,000 messages"."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Rows under column names. Numbers stand to the right; None is shown as a dash."""
    rows = [list(row) for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[number], int | None) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    show(table, data_console())


def show(renderable: RenderableType, console: Console) -> None:
    """Prints it; in a pipe without the blanks that pad the last column."""
    if console.is_terminal:
        console.print(renderable)
        return
    with console.capture() as capture:
        console.print(renderable)
    console.file.write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


def _cell(value: object) -> Text:
    text = "-" if value is None else str(value)
    return Text(text, style=_STYLES.get(text, ""))


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _WIDE
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)
