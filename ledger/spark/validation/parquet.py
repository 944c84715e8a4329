"""Writes rows of plain values to a Parquet file, with pyarrow and without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

# The rows that are in memory at a time.
_ROWS = 16_384


def write_rows(rows: Iterable[Mapping[str, Any]], types: Mapping[str, type], path: Path) -> None:
    """Write the rows. `types` has the type of each column, `str` or `int`; values may be None. Bytes of a path that are
    not UTF-8 are written as escapes such as \\udcff. Raises OSError."""
    schema = pa.schema([(name, pa.string() if kind is str else pa.int64()) for name, kind in types.items()])
    left = iter(rows)
    # The file is opened here, because pyarrow opens no path that is not UTF-8.
    with path.open("wb") as file, pq.ParquetWriter(file, schema) as writer:
        while some := [{name: _as_unicode(value) for name, value in row.items()} for row in islice(left, _ROWS)]:
            writer.write_table(pa.Table.from_pylist(some, schema))


def _as_unicode(value: Any) -> Any:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
