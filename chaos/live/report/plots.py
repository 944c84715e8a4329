"""The picture of a run: throughput and latency over time, faults shaded, leaders marked. Needs matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")  # no window, whatever machine this is

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from chaos.live.leaders import Reign
from chaos.live.nemesis import Struck
from chaos.live.report.series import Series

_INK, _GRID, _SHADE = "#1f2933", "#d9dee3", "#e4572e"
_COLOURS = ("#2b6cb0", "#38a169", "#d69e2e", "#805ad5", "#dd6b20", "#319795")
"""Of nodes, as leaders."""


def draw(found: Series, struck: Sequence[Struck], reigns: Sequence[Reign], began: int, ended: int) -> Figure:
    """Three rows over the same time: who led, messages a second, and latencies."""
    plt.rcParams.update({"font.size": 9, "axes.edgecolor": _GRID, "text.color": _INK, "axes.labelcolor": _INK})
    figure, (leaders, throughput, latency) = plt.subplots(
        3, 1, figsize=(11, 6.4), sharex=True, height_ratios=(0.5, 3, 3), constrained_layout=True
    )
    seconds = (ended - began) / 1e9
    _draw_leaders(leaders, reigns, began, ended)
    throughput.fill_between(found.at_s, found.per_s, step="mid", color=_COLOURS[0], alpha=0.25)
    throughput.step(found.at_s, found.per_s, where="mid", color=_COLOURS[0], linewidth=1.2)
    throughput.set_ylabel("acknowledged\nmessages / s")
    throughput.set_ylim(bottom=0)
    for values, label, colour in (
        (found.p50_ms, "p50", _COLOURS[1]),
        (found.p99_ms, "p99", _COLOURS[2]),
        (found.max_ms, "max", _SHADE),
    ):
        latency.plot(found.at_s, values, label=label, color=colour, linewidth=1.2, marker=".", markersize=3)
    latency.set_yscale("log")
    latency.set_ylabel("latency, ms")
    latency.set_xlabel("seconds since the load began")
    latency.legend(loc="lower right", bbox_to_anchor=(1, 0.97), frameon=False, ncols=3, fontsize=8)
    for axes in (throughput, latency):
        axes.grid(axis="y", color=_GRID, linewidth=0.6)
        for one in struck:
            axes.axvspan((one.start - began) / 1e9, (one.end - began) / 1e9, color=_SHADE, alpha=0.12, linewidth=0)
    for one in struck:
        nodes = ", ".join(map(str, one.nodes))
        throughput.annotate(
            f"{one.kind}\n{one.target}: {nodes}",
            ((one.start - began) / 1e9, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(2, -3),
            textcoords="offset points",
            va="top",
            fontsize=7,
        )
    latency.set_xlim(0, seconds)
    for axes in (leaders, throughput, latency):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_leaders(axes: Axes, reigns: Sequence[Reign], began: int, ended: int) -> None:
    for reign in reigns:
        if reign.shard != 0 or not reign.node:
            continue
        left, right = max(reign.start, began), min(reign.end or ended, ended)
        if right > left:
            axes.barh(
                0,
                (right - left) / 1e9,
                left=(left - began) / 1e9,
                color=_COLOURS[(reign.node - 1) % len(_COLOURS)],
                edgecolor="white",
            )
            axes.text(((left + right) / 2 - began) / 1e9, 0, str(reign.node), ha="center", va="center", color="white")
    axes.set_yticks([0], ["leader"])
    axes.tick_params(length=0)


def as_svg(figure: Figure) -> str:
    """For a page: without the XML declaration."""
    file = io.StringIO()
    figure.savefig(file, format="svg")
    text = file.getvalue()
    return text[text.index("<svg") :]


def save(figure: Figure, directory: Path) -> None:
    """`timeline.png` and `timeline.svg`."""
    figure.savefig(directory / "timeline.png", dpi=140)
    figure.savefig(directory / "timeline.svg")
    plt.close(figure)
