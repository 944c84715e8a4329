"""The text of reports: Markdown tables and JSON files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Without a line end after the last row. Cells are written as they are: they must not contain `|`."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_json(path: Path, value: Any) -> None:
    """Writes the value as indented JSON. Raises OSError."""
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
