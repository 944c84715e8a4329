"""Links the reports that lie beside each other: runs of chaos, validations and measurements.

Reports are neighbours if their folders are the same, or have the same parent. Each page has a place for links in its
head. When a page is written, the links of all its neighbours are written anew.
"""

from __future__ import annotations

import contextlib
import html
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

BEGIN, END = "<!-- reports -->", "<!-- end of reports -->"
_MARK = '<meta name="generator" content="ledgermq">'
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
_PLACE = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
# So that a folder with many runs stays quick, the newest of this many pages are linked.
MAX_PAGES = 40
# A page that is larger is not read; reports are far smaller.
_MAX_BYTES = 32 << 20


def link_neighbours(page: Path) -> None:
    """Link the page and its neighbours with each other. A neighbour that cannot be read or written is left out."""
    pages = list(_newest(page))
    titles = {each: title for each in pages if (title := _title(each))}
    for each in titles:
        _write_links(each, titles)


def _newest(page: Path) -> Iterator[Path]:
    """Return the pages beside this one and in the folders beside its folder, the newest first."""
    folder = page.resolve().parent
    found = {page.resolve(), *folder.glob("*.html"), *folder.parent.glob("*/*.html")}
    times = {}
    for each in found:
        try:
            status = each.stat()
        except OSError:
            continue
        if each.is_file() and not each.is_symlink() and status.st_size <= _MAX_BYTES:
            times[each] = status.st_mtime_ns
    return iter(sorted(times, key=lambda each: (each != page.resolve(), -times[each]))[:MAX_PAGES])


def _title(page: Path) -> str:
    """Return the title of a report of ours, as HTML, or "" if the page is something else."""
    try:
        text = page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    title = _TITLE.search(text)
    return title[1].strip() if title is not None and _MARK in text and BEGIN in text else ""


def _write_links(page: Path, titles: dict[Path, str]) -> None:
    links = [
        f'<a href="{html.escape(quote(os.path.relpath(each, page.parent)))}">{title}</a>'
        for each, title in sorted(titles.items())
        if each != page
    ]
    text = page.read_text(encoding="utf-8")
    linked = _PLACE.sub(lambda _: f"{BEGIN}{' · '.join(links)}{END}", text, count=1)
    if linked != text:
        with contextlib.suppress(OSError):  # the report of another user
            page.write_text(linked, encoding="utf-8")
