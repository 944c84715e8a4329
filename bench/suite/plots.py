"""The pictures of a page, as SVG: what was compared, as bars, and the least that is to be reached. Needs matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence

import matplotlib as mpl

mpl.use("Agg")  # no window, whatever machine this is

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from bench.suite.rows import Pair

_INK, _GRID, _OURS, _OTHER, _LEAST = "#1f2933", "#d9dee3", "#2b6cb0", "#b8c4d0", "#c53030"
_LEGEND = {"loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": 2, "frameon": False, "fontsize": 8}
"""Above the axes."""


def bars(pairs: Sequence[Pair], ours: str, other: str) -> str:
    """Left: both, in their unit. Right: the ratio, with a mark where it is to be at least."""
    plt.rcParams.update({"font.size": 9, "axes.edgecolor": _GRID, "text.color": _INK, "axes.labelcolor": _INK})
    height = 1.1 + 0.5 * len(pairs)
    figure, (values, ratios) = plt.subplots(1, 2, figsize=(11, height), sharey=True, constrained_layout=True)
    places = range(len(pairs))
    values.barh([at - 0.2 for at in places], [pair.ours for pair in pairs], 0.38, label=ours, color=_OURS)
    values.barh([at + 0.2 for at in places], [pair.other for pair in pairs], 0.38, label=other, color=_OTHER)
    values.set_yticks(list(places), [pair.name for pair in pairs])
    values.invert_yaxis()
    values.set_xlabel(pairs[0].unit)
    values.legend(**_LEGEND)
    ratios.barh(list(places), [pair.ratio for pair in pairs], 0.5, color=_OURS)
    _mark_least(ratios, pairs)
    ratios.set_xlabel(f"{ours} / {other}")
    for axes in (values, ratios):
        axes.grid(axis="x", color=_GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(length=0)
    file = io.StringIO()
    figure.savefig(file, format="svg")
    plt.close(figure)
    text = file.getvalue()
    return text[text.index("<svg") :]


def _mark_least(ratios: Axes, pairs: Sequence[Pair]) -> None:
    wanted = [(at, pair.least) for at, pair in enumerate(pairs) if pair.least is not None]
    for number, (at, least) in enumerate(wanted):
        label = "to be reached" if not number else None
        ratios.plot([least, least], [at - 0.33, at + 0.33], color=_LEAST, linewidth=2, label=label)
    for at, pair in enumerate(pairs):
        ratios.annotate(f"{pair.ratio:.2f}", (pair.ratio, at), xytext=(4, 0), textcoords="offset points", va="center")
    if wanted:
        ratios.legend(**_LEGEND)
