"""Draws the curves of growing work: one picture for each figure, with the size on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.growing.curve import GrowthCurve
from ledger.report.figures import COLOURS, as_svg, drawing, lines_across, without_frame

_IN_A_ROW = 3


def lines(curves: Sequence[GrowthCurve], name: str) -> str:
    """Draw all figures of the curves, which have the same figures. Return "" if no curve has a point. Each picture of a
    page needs a different `name`."""
    curves = [curve for curve in curves if curve.points]
    if not curves:
        return ""
    units = curves[0].units
    rows = math.ceil(len(units) / _IN_A_ROW)
    with drawing(2.4 * rows) as figure:
        places = figure.subplots(rows, _IN_A_ROW, squeeze=False).flatten()
        for axes, (figure_name, unit) in zip(places, units.items(), strict=False):
            for curve, colour in zip(curves, COLOURS, strict=False):
                sizes = [point.size for point in curve.points]
                axes.plot(sizes, curve.values(figure_name), marker="o", color=colour, label=curve.title)
            axes.set_xscale("log")
            axes.set_ylim(bottom=0)
            axes.set_title(f"{figure_name}, {unit}", fontsize=9)
            axes.set_xlabel(curves[0].what)
            lines_across(axes, "y")
            without_frame(axes)
        for axes in places[len(units) :]:
            axes.set_visible(False)
        if len(curves) > 1:
            places[0].legend(frameon=False, fontsize=8)
    return as_svg(figure, name)
