"""Prints the output of commands: data to standard output, and sentences for the user to standard error.

Names and texts of others are printed without control characters, which could change what the terminal shows. Colours
are used only on a terminal, and never if NO_COLOR is set (the library rich checks this variable). In a pipe or a file,
a table is as wide as its content needs.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

_WIDE = 10_000
# Python reads a byte that is not UTF-8, in an argument or a path, as one of these characters. No stream takes them.
_NO_UNICODE = re.compile("[\ud800-\udfff]")
# Words that a table prints in colour, in any column.
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


class _DataConsole(Console):
    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, which decides about the exit status in the command line. Without this method, rich
        exits with status 1, which is a bad verdict."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def data_console() -> Console:
    """Return a rich console that writes to standard output."""
    return _console(stderr=False)


def note_console() -> Console:
    """Return a rich console that writes to standard error."""
    return _console(stderr=True)


def say(sentence: str) -> None:
    """Print a sentence for the user to standard error."""
    note_console().print(printable(sentence), soft_wrap=True)


def printable(text: str, kept: str = "\n") -> str:
    """Return the text with its control characters, except those in `kept`, as escapes such as \\x1b."""
    return "".join(each if each.isprintable() or each in kept else ascii(each)[1:-1] for each in text)


def print_json(value: Any) -> None:
    """Print one JSON value, indented, to standard output. A value that JSON cannot represent is printed as text. Bytes
    of a path that are not UTF-8 are printed as escapes such as \\udcff."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    sys.stdout.write(_NO_UNICODE.sub(lambda found: ascii(found[0])[1:-1], text) + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table with a heading for each column. Columns of numbers are aligned to the right, and None is
    printed as a dash."""
    rows = [list(row) for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[number], int | None) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    show(table, data_console())


def show(renderable: RenderableType, console: Console) -> None:
    """Print a table or another rich object to the console. In a pipe or a file, lines are printed without blanks at
    their end."""
    if console.is_terminal:
        console.print(renderable)
        return
    with console.capture() as capture:
        console.print(renderable)
    console.file.write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


def _cell(value: object) -> Text:
    text = "-" if value is None else printable(str(value), kept="")
    return Text(text, style=_STYLES.get(text, ""))


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _WIDE
    kind = Console if stderr else _DataConsole
    return kind(file=stream, width=width, highlight=False, markup=False, emoji=False)
