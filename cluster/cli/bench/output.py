"""Prints the output of `ledgermq bench`: a progress line to standard error, and figures to standard output."""

from __future__ import annotations

import sys
import time
from dataclasses import fields
from types import TracebackType
from typing import Any

from cluster.bench.figures import Figures
from cluster.bench.idle import NodeUse
from cluster.cli.output import print_json, print_table, say
from ledger.words import counted

_LINE_EVERY_S = 5.0


class ProgressLine:
    """Prints the number of records so far and the present rate. On a terminal, the line is overwritten; elsewhere, a
    new line is printed every five seconds. Use the object as a context manager, and call it with the number of records
    so far.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._terminal = sys.stderr.isatty()
        self._every_s = 0.2 if self._terminal else _LINE_EVERY_S
        self._then, self._records = time.monotonic(), 0

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def __call__(self, records: int) -> None:
        now = time.monotonic()
        if now - self._then < self._every_s:
            return
        rate = (records - self._records) / (now - self._then)
        line = f"{records:,} records {self._what}, {rate:,.0f} records/sec"
        sys.stderr.write(f"\r\x1b[K{line}" if self._terminal else f"{line}\n")
        sys.stderr.flush()
        self._then, self._records = now, records


def print_figures(figures: Figures, output: str) -> None:
    """Print the figures to standard output in the format `output`, and the number of failed messages to standard
    error."""
    if output == "json":
        print_json(figures.as_json())
    elif output == "csv":
        sys.stdout.write(figures.as_csv())
    else:
        sys.stdout.write(figures.closing_line() + "\n")
    if figures.failed:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in figures.more.get("errors", {}).items())
        say(f"{counted(figures.failed, 'message')} not acknowledged{f' ({kinds})' if kinds else ''}")


def print_uses(uses: list[NodeUse], seconds: float, output: str) -> None:
    """Print the processor use and memory of each node to standard output in the format `output`."""
    rows: list[dict[str, Any]] = [
        {"node": use.node, "cpu_percent": round(use.cpu_percent, 2), "memory_mb": round(use.memory_mb, 1)}
        for use in uses
    ]
    if output == "json":
        print_json({"seconds": seconds, "nodes": rows})
    elif output == "csv":
        names = [each.name for each in fields(NodeUse)]
        sys.stdout.write("\n".join([",".join(names), *(",".join(map(str, row.values())) for row in rows)]) + "\n")
    else:
        print_table(["NODE", "% OF A CORE", "MEMORY, MB"], [list(row.values()) for row in rows])
