"""Prints the results of a measurement: as Markdown tables like those in the documents, or as JSON.

Each part of the results is a list of rows of one dataclass, and the fields of the dataclass name the columns.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ledger.report.text import markdown_table


def options(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that every measurement has. A script can add more options to the parser."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--directory", type=Path, default=Path.cwd(), help="where to write (default: here)")
    return parser


def show(parts: Mapping[str, Sequence[Any]], *, as_json: bool) -> None:
    """Print each part of the results as a table. `parts` maps the title of each part to at least one row; each row
    is a dataclass."""
    found = {title: [asdict(row) for row in rows] for title, rows in parts.items()}
    if as_json:
        print(json.dumps(found, indent=2))
        return
    for title, rows in found.items():
        cells = [[_cell(value) for value in row.values()] for row in rows]
        print(f"\n{title}\n\n{markdown_table(list(rows[0]), cells)}")


def _cell(value: Any) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else str(value)
