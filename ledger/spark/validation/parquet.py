"""Writes rows of plain values to a Parquet file, with pyarrow and without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def write_rows(rows: Sequence[Mapping[str, Any]], types: Mapping[str, type], path: Path) -> None:
    """Write the rows. `types` has the type of each column, `str` or `int`; values may be None. Raises OSError."""
    schema = pa.schema([(name, pa.string() if kind is str else pa.int64()) for name, kind in types.items()])
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema), path)
