"""Renders the page of a report: one HTML file that a browser shows without any network. Needs jinja2.

A package that writes a page has a template `page.html`, which extends the template `base.html` of this package and
fills its blocks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape

from ledger.report.neighbours import link_neighbours


def write_page(path: Path, package: str, **values: Any) -> Path:
    """Fill the template `page.html` of `package` with the values, write the page to `path`, and return `path`.
    Link the page with the reports beside it. Bytes of a path that are not UTF-8 are written as escapes such as \\udcff.
    Raises OSError."""
    loader = ChoiceLoader([PackageLoader(package, "."), PackageLoader("ledger.report", ".")])
    environment = Environment(loader=loader, autoescape=select_autoescape(), undefined=StrictUndefined)
    page = environment.get_template("page.html").render(values)
    path.write_text(page, encoding="utf-8", errors="backslashreplace")
    link_neighbours(path)
    return path
