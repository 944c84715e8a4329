"""Renders the pages of the console: jinja2 templates with escaping, and the headers that keep scripts of others out.

The pages have no inline script and no inline style, and the content security policy allows only files of the console.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from cluster.console.logins import PROOF_FIELD, Visitor
from cluster.console.shown_value import line, whole
from ledger.version import VERSION

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Browsers send the header `Origin` with forms to the same site, by which they are known.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Pages:
    """The templates. `facts` are values that every page shows, such as the name of the cluster."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._templates = Environment(
            loader=PackageLoader("cluster.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(number=number, size=size, moment=moment, ago=ago, rate=rate, duration=duration)
        self._templates.filters.update(path=path, shards=shards, line=line, whole=whole)
        self._templates.globals.update(facts, version=VERSION, proof=proof_input)

    def text(self, template: str, **values: Any) -> str:
        """Return the rendered template."""
        return self._templates.get_template(template).render(values)

    def response(self, template: str, status: int = 200, **values: Any) -> web.Response:
        """Return the rendered template as a page."""
        # What is no Unicode, such as half a surrogate in a header of a stranger, becomes "?".
        page = self.text(template, **values).encode(errors="replace")
        return web.Response(body=page, status=status, content_type="text/html", charset="utf-8", headers=HEADERS)


def proof_input(visitor: Visitor) -> Markup:
    """Return the hidden field that every form carries."""
    return Markup('<input type="hidden" name="{}" value="{}">').format(PROOF_FIELD, visitor.proof)


def path(name: str) -> str:
    """Return a name as one part of a path."""
    return quote(name, safe="")


def shards(numbers: Sequence[int]) -> str:
    """Return the shards of a topic in words, such as "1, 2" or "32 shards"."""
    distinct = sorted(set(numbers))
    return ", ".join(map(str, distinct)) if len(distinct) <= 6 else f"{len(distinct)} shards"


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def size(count: float | None) -> str:
    """Return a number of bytes in words, such as 1.5 MB."""
    if count is None:
        return "–"
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or abs(count) >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"


def rate(value: float | None) -> str:
    """Return a number a second."""
    if value is None:
        return "–"
    return f"{value:,.0f}/s" if value >= 10 or value == 0 else f"{value:.1f}/s"


def moment(time_ms: int | None) -> str:
    """Return a time in ms since 1970 as text in UTC."""
    if not time_ms:
        return "–"
    try:
        text = datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
    return f"{text} UTC"


def duration(seconds: float | None) -> str:
    """Return a time in seconds in words."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def ago(time_ms: int, now_ms: int) -> str:
    return f"{duration(max(0, now_ms - time_ms) / 1000)} ago"
