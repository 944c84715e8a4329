"""Charts of rates over time, drawn by pygal as SVG images.

The browser loads a chart as an image, so no script and no style of a chart can act on the page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pygal
from pygal.style import Style

# Colours that people with any colour vision can tell apart (the palette of Okabe and Ito). Text is grey, which can be
# read on light and on dark pages.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
TEXT = "#808890"

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}

_STYLE = Style(
    background="transparent",
    plot_background="transparent",
    foreground=TEXT,
    foreground_strong=TEXT,
    foreground_subtle="#80889044",
    colors=COLOURS,
    font_family="system-ui, sans-serif",
    label_font_size=11,
    major_label_font_size=11,
    legend_font_size=12,
    title_font_size=13,
    opacity=".9",
)


class ChartPainter:
    """Draws charts in a thread, one after the other: a chart takes about 30 ms, in which the node has other work."""

    def __init__(self) -> None:
        self._drawing = asyncio.Lock()

    async def rate_chart(self, lines: Mapping[str, Sequence[float]], seconds_a_point: float) -> bytes:
        async with self._drawing:
            return await asyncio.to_thread(rate_chart, lines, seconds_a_point)


def rate_chart(lines: Mapping[str, Sequence[float]], seconds_a_point: float, *, is_bytes: bool = False) -> bytes:
    """Return a line chart as SVG. `lines` has the rates of each line, the oldest first. All lines have equally many
    points, one each `seconds_a_point`, and the last point is now."""
    count = max((len(line) for line in lines.values()), default=0)
    labels = [_label((count - 1 - place) * seconds_a_point) for place in range(count)]
    chart: Any = pygal.Line(
        style=_STYLE,
        js=[],
        width=640,
        height=170,
        margin=4,
        show_dots=False,
        show_y_guides=True,
        legend_at_bottom=True,
        legend_box_size=10,
        min_scale=2,
        max_scale=4,
        include_x_axis=True,
        x_labels=labels,
        x_labels_major=[labels[0], labels[-1]] if labels else [],
        show_minor_x_labels=False,
        truncate_label=-1,
        no_data_text="no messages yet",
        disable_xml_declaration=True,
        value_formatter=_bytes if is_bytes else _count,
    )
    for name, line in lines.items():
        chart.add(name, list(line))
    image: bytes = chart.render()
    return image if isinstance(image, bytes) else str(image).encode()


def _label(seconds: float) -> str:
    return "now" if seconds <= 0 else f"{seconds:.0f} s ago" if seconds < 120 else f"{seconds / 60:.0f} min ago"


def _count(value: float) -> str:
    return f"{value:,.0f}/s"


def _bytes(value: float) -> str:
    return f"{value / 1e6:,.1f} MB/s"
