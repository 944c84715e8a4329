"""Draws the figures of a report. All figures have the same style, no window is opened, and the same figure always
gives the same bytes. Needs matplotlib.

matplotlib's pyplot is not used, because pyplot keeps every figure and changes the settings of the whole process.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, GRID, PALE, AMBER, RED = "#1f2933", "#d9dee3", "#b8c4d0", "#d69e2e", "#c53030"
# Of nodes and other series.
COLOURS = ("#2b6cb0", "#38a169", "#805ad5", "#dd6b20", "#319795", "#b83280", "#4a5568", "#718096", "#1a365d")

_WIDTH_INCHES = 11
# SVG's own, so that the layout fits the text of an SVG file exactly.
_DPI = 72
_STYLE: Any = {
    "font.size": 9, "font.family": "sans-serif", "svg.fonttype": "none", "text.color": INK, "axes.edgecolor": GRID,
    "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
}  # fmt: skip
# What would make two files of the same figure differ, or name addresses that no browser needs.
_NO_METADATA: Any = {"Date": None, "Creator": None, "Format": None, "Type": None}


@contextmanager
def drawing(height_inches: float) -> Iterator[Figure]:
    """Yield an empty figure as wide as the page. All drawing inside the `with` block has the style of reports."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH_INCHES, height_inches), dpi=_DPI, layout="constrained")
        yield figure
        _fix_places(figure)


def _fix_places(figure: Figure) -> None:
    """Compute the layout of the axes once for all files, and round the positions of the axes. The layout solver
    returns positions that differ in the last digits from call to call, and the names of clip paths are hashes of
    positions."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(value, 5) for value in axes.get_position().bounds)
        axes.set_position((left, bottom, width, height))


def as_svg(figure: Figure, name: str) -> str:
    """Return the figure as an SVG element for an HTML page. `name` must differ between the figures of one page."""
    text = _svg_file(figure, name)
    return text[text.index("<svg") :]


def save(figure: Figure, directory: Path, name: str) -> None:
    """Write the figure to `NAME.png` and `NAME.svg`. Raises OSError."""
    with mpl.rc_context(_STYLE):
        figure.savefig(directory / f"{name}.png", dpi=140)
    (directory / f"{name}.svg").write_text(_svg_file(figure, name), encoding="utf-8")


def _svg_file(figure: Figure, name: str) -> str:
    file = io.StringIO()
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure.savefig(file, format="svg", metadata=_NO_METADATA)
    return file.getvalue()


def lines_across(axes: Axes, axis: Literal["x", "y"]) -> None:
    """Draw pale lines at the ticks of this axis, behind the data."""
    axes.grid(axis=axis, color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def without_frame(*axes: Axes) -> None:
    """Remove the frame, except the axis lines at the left and at the bottom."""
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
