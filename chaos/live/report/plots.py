"""Draws the picture of a run: throughput and latency over time, with faults shaded and leaders marked."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from chaos.live.leaders import Reign
from chaos.live.nemesis import Struck
from chaos.live.report.series import LoadSeries
from ledger.report.figures import AMBER, COLOURS, drawing, lines_across, without_frame

_SHADE = "#e4572e"


def draw(found: LoadSeries, struck: Sequence[Struck], reigns: Sequence[Reign], began: int, ended: int) -> Figure:
    """Draw three rows over the same time: the leader, messages a second, and latencies."""
    with drawing(6.4) as figure:
        leaders, throughput, latency = figure.subplots(3, 1, sharex=True, height_ratios=(0.5, 3, 3))
        _draw_leaders(leaders, reigns, began, ended)
        _draw_throughput(throughput, found)
        _draw_latency(latency, found)
        for axes in (throughput, latency):
            lines_across(axes, "y")
            _shade_faults(axes, struck, began)
        _name_faults(throughput, struck, began)
        latency.set_xlim(0, (ended - began) / 1e9)
        latency.set_xlabel("seconds since the load began")
        without_frame(leaders, throughput, latency)
    return figure


def _draw_throughput(axes: Axes, found: LoadSeries) -> None:
    axes.fill_between(found.at_s, found.per_s, step="mid", color=COLOURS[0], alpha=0.25)
    axes.step(found.at_s, found.per_s, where="mid", color=COLOURS[0], linewidth=1.2)
    axes.set_ylabel("acknowledged\nmessages / s")
    axes.set_ylim(bottom=0)


def _draw_latency(axes: Axes, found: LoadSeries) -> None:
    for values, label, colour in (
        (found.p50_ms, "p50", COLOURS[1]),
        (found.p99_ms, "p99", AMBER),
        (found.max_ms, "max", _SHADE),
    ):
        axes.plot(found.at_s, values, label=label, color=colour, linewidth=1.2, marker=".", markersize=3)
    axes.set_yscale("log")
    axes.set_ylabel("latency, ms")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 0.97), frameon=False, ncols=3, fontsize=8)


def _shade_faults(axes: Axes, struck: Sequence[Struck], began: int) -> None:
    for one in struck:
        axes.axvspan((one.start - began) / 1e9, (one.end - began) / 1e9, color=_SHADE, alpha=0.12, linewidth=0)


def _name_faults(axes: Axes, struck: Sequence[Struck], began: int) -> None:
    for one in struck:
        axes.annotate(
            f"{one.kind}\n{one.target}: {', '.join(map(str, one.nodes))}",
            ((one.start - began) / 1e9, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(2, -3),
            textcoords="offset points",
            va="top",
            fontsize=7,
        )


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
                color=COLOURS[(reign.node - 1) % len(COLOURS)],
                edgecolor="white",
            )
            axes.text(((left + right) / 2 - began) / 1e9, 0, str(reign.node), ha="center", va="center", color="white")
    axes.set_yticks([0], ["leader"])
    axes.tick_params(length=0)
