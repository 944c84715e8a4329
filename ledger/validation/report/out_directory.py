"""The files that a validation writes into the directory given by `--out`.

    verdict.json            the report
    violations.parquet      all violations; violations.jsonl without pyarrow
    index.html              the report as a page with pictures, if jinja2 and matplotlib are installed

If the Python package that writes one of the files is not installed, the verdict is still complete. If a package is
missing, the command prints one line that says which file is missing and what to install. A validation first removes
the files of an earlier validation, so the files of two validations are never mixed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from ledger.errors import LedgerError
from ledger.report.text import write_json
from ledger.validation.judging.violation import TYPES, Violation
from ledger.validation.report.report import ValidationReport

_PARQUET, _LINES, _VERDICT, _PAGE = "violations.parquet", "violations.jsonl", "verdict.json", "index.html"


def prepare(out: Path) -> None:
    """Create the directory, and remove the files of an earlier validation from it. Raises LedgerError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in (_PARQUET, _LINES, _VERDICT, _PAGE):
            if (out / name).is_dir():
                shutil.rmtree(out / name)
            else:
                (out / name).unlink(missing_ok=True)
    except OSError as error:
        raise _cannot_write(out, error) from error


def write_violations(violations: Iterable[Violation], out: Path) -> None:
    """Write the violations as Parquet if pyarrow is installed, else as JSON lines. Raises LedgerError."""
    rows = (violation.fields() for violation in violations)
    try:
        if find_spec("pyarrow") is None:
            with (out / _LINES).open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
            return
        from ledger.spark.validation.parquet import write_rows

        write_rows(rows, TYPES, out / _PARQUET)
    except OSError as error:
        raise _cannot_write(out, error) from error


def write_verdict(report: ValidationReport, out: Path) -> tuple[str, ...]:
    """Write the report, and the page if it can be drawn. Return a line for each file that is missing or was written
    without a part.

    Raises LedgerError."""
    lacking: list[str] = []
    if (out / _LINES).exists():
        lacking.append(
            f"{out / _LINES} and no Parquet: pyarrow is not installed (pip install 'ledgermq[spark]', or pyarrow alone)"
        )
    try:
        write_json(out / _VERDICT, report.fields())
        missing = [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]
        if missing:
            lacking.append(f"no {out / _PAGE}: install {' and '.join(missing)} (pip install 'ledgermq[bench]')")
        else:
            from ledger.validation.report.page import write_page

            write_page(report, out)
    except OSError as error:
        raise _cannot_write(out, error) from error
    return tuple(lacking)


def _cannot_write(out: Path, error: OSError) -> LedgerError:
    return LedgerError(f"{out}: cannot be written: {error.strerror or error}")
