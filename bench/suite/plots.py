"""Draws the charts of the page as SVG: bars for our figure and the compared figure of each comparison, and the
ratio that the target requires."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from bench.suite.rows import Pair
from ledger.report.figures import COLOURS, PALE, RED, as_svg, drawing, lines_across, without_frame

_OURS, _OTHER, _LEAST = COLOURS[0], PALE, RED
# Puts the legend above the axes.
_LEGEND = {"loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": 2, "frameon": False, "fontsize": 8}


def bars(pairs: Sequence[Pair], ours: str, other: str, name: str) -> str:
    """Draw the two values of each comparison as bars on the left, and their ratio on the right. A mark shows the ratio
    that the target requires. Each picture of a page needs a different `name`.
    """
    with drawing(1.1 + 0.5 * len(pairs)) as figure:
        values, ratios = figure.subplots(1, 2, sharey=True)
        _draw_values(values, pairs, ours, other)
        ratios.barh(range(len(pairs)), [pair.ratio for pair in pairs], 0.5, color=_OURS)
        _mark_least(ratios, pairs)
        ratios.set_xlabel(f"{ours} / {other}")
        for axes in (values, ratios):
            lines_across(axes, "x")
            axes.tick_params(length=0)
        without_frame(values, ratios)
    return as_svg(figure, name)


def _draw_values(axes: Axes, pairs: Sequence[Pair], ours: str, other: str) -> None:
    places = range(len(pairs))
    axes.barh([at - 0.2 for at in places], [pair.ours for pair in pairs], 0.38, label=ours, color=_OURS)
    axes.barh([at + 0.2 for at in places], [pair.other for pair in pairs], 0.38, label=other, color=_OTHER)
    axes.set_yticks(places, [pair.name for pair in pairs])
    axes.invert_yaxis()
    axes.set_xlabel(pairs[0].unit)
    axes.legend(**_LEGEND)


def _mark_least(ratios: Axes, pairs: Sequence[Pair]) -> None:
    wanted = [(at, pair.least) for at, pair in enumerate(pairs) if pair.least is not None]
    for number, (at, least) in enumerate(wanted):
        label = "to be reached" if not number else None
        ratios.plot([least, least], [at - 0.33, at + 0.33], color=_LEAST, linewidth=2, label=label)
    for at, pair in enumerate(pairs):
        ratios.annotate(f"{pair.ratio:.2f}", (pair.ratio, at), xytext=(4, 0), textcoords="offset points", va="center")
    if wanted:
        ratios.legend(**_LEGEND)
