"""Writes the Markdown tables and the JSON files of reports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table without a line end after the last row. Cells must not contain the character `|`,
    because it is not escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_json(path: Path, value: Any) -> None:
    """Write the value to the path as indented JSON. Raises OSError."""
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
