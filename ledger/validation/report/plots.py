"""Draws the picture of one shard: the entries of each replica, the terms of the log, and the places of violations.

    node 1  ##########::   behind      the entries of each replica; committed entries are dark
    node 2  ########::::   ##
    terms   __/--/----     one line for each replica; wide lines are below, so that equal lines stay visible
    node 1  ../x/.../..    position over index, for each replica

All parts of the picture share the horizontal axis, which shows the index. Marks at the same horizontal place belong to
the same entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

from ledger.report.figures import AMBER, COLOURS, INK, RED, drawing, lines_across, without_frame
from ledger.validation.judging.violation import ORDER, Violation, ViolationKind
from ledger.validation.report.marks import Mark, marks_of
from ledger.validation.report.report import ReplicaReport, ShardReport

REPLICAS_DRAWN = 9
_LONGEST_NAME = 28
_TAIL, _LACKING = AMBER, RED
_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")
_ALARMS = ("#c53030", "#b7791f", "#6b46c1", "#0b7285", "#d6336c", "#2f6f3e", "#1f2933", "#e8590c")
# Marker and colour of each kind of violation; the last ones share what is left.
_STYLES = tuple(zip(_MARKERS, _ALARMS, strict=True))
_OTHER = ("x", "#66737f")
_COUNT = FuncFormatter(lambda value, _: f"{value:,.0f}")


def draw(shard: ShardReport, violations: Sequence[Violation]) -> Figure:
    """Draw at most `REPLICAS_DRAWN` replicas of a shard, with the shard's `violations`."""
    replicas = shard.replicas[:REPLICAS_DRAWN]
    marks = [marks_of(replica, violations) for replica in replicas]
    heights = [0.34 * len(replicas) + 0.3, 1.3, *[1.15] * len(replicas)]
    with drawing(sum(heights) + 0.32 * len(heights) + 0.6) as figure:
        grid = figure.add_gridspec(len(heights), 2, width_ratios=(5, 1.25), height_ratios=heights)
        entries = figure.add_subplot(grid[0, 0])
        names = names_of(replicas)
        _draw_entries(entries, shard, replicas, names)
        _draw_lag(figure.add_subplot(grid[0, 1]), replicas)
        terms = figure.add_subplot(grid[1, 0], sharex=entries)
        _draw_terms(terms, replicas)
        _legend(figure.add_subplot(grid[1, 1]), _lines_of(names))
        styles = _styles_of(marks)
        places = [figure.add_subplot(grid[2 + number, 0], sharex=entries) for number in range(len(replicas))]
        for axes, replica, name, mine in zip(places, replicas, names, marks, strict=True):
            _draw_places(axes, replica, name, mine, styles)
        _legend(figure.add_subplot(grid[2:, 1]), _kinds_of(marks, styles))
        _set_up_axis(entries, [entries, terms, *places], replicas, marks)
    return figure


def names_of(replicas: Sequence[ReplicaReport]) -> list[str]:
    """Return a short, unique name for each replica: `node 1`, or the end of its source if the node is not unique."""
    nodes = [replica.node for replica in replicas]
    return [
        f"node {replica.node}"
        if replica.node is not None and nodes.count(replica.node) == 1
        else _short(replica.source)
        for replica in replicas
    ]


def _short(source: str) -> str:
    return source if len(source) <= _LONGEST_NAME else "…" + source[-_LONGEST_NAME:]


# -- entries and lag


def _draw_entries(axes: Axes, shard: ShardReport, replicas: Sequence[ReplicaReport], names: Sequence[str]) -> None:
    for row, replica in enumerate(replicas):
        if replica.first_index is None:
            axes.text(0.01, row, "no entries", va="center", transform=axes.get_yaxis_transform())
            continue
        parted = replica.parts_at if replica.parts_at is not None else replica.last_index + 1
        settled = min(replica.last_index, shard.committed, parted - 1)
        for first, last, colour in (
            (replica.first_index, settled, COLOURS[row]),
            (max(replica.first_index, settled + 1), replica.last_index, _TAIL),
        ):
            if last >= first:
                axes.barh(row, last + 1 - first, left=first - 0.5, height=0.62, color=colour)
        if replica.parts_at is not None:
            axes.plot([replica.parts_at - 0.5] * 2, [row - 0.45, row + 0.45], color=_LACKING, linewidth=2)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.axvline(shard.committed + 0.5, color=INK, linewidth=1, linestyle=(0, (3, 2)))
    axes.set_title(
        "entries (dashed: committed up to here; yellow: a tail; red line: parts there)", fontsize=9, loc="left"
    )


def _draw_lag(axes: Axes, replicas: Sequence[ReplicaReport]) -> None:
    rows = range(len(replicas))
    lacking = [min(replica.lacks_committed, replica.behind) for replica in replicas]
    axes.barh(rows, [replica.behind for replica in replicas], height=0.62, color=_TAIL)
    axes.barh(rows, lacking, height=0.62, color=_LACKING)
    most = max((replica.behind for replica in replicas), default=0)
    for row, replica in enumerate(replicas):
        axes.text(replica.behind, row, f" {replica.behind:,}", va="center")
    axes.set_xlim(0, max(1, most) * 1.5)
    axes.set_ylim(len(replicas) - 0.4, -0.6)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.set_title("lag (red: committed ones)", fontsize=9, loc="left")


# -- terms


def _draw_terms(axes: Axes, replicas: Sequence[ReplicaReport]) -> None:
    for row, replica in enumerate(replicas):
        if not replica.terms:
            continue
        terms, firsts = zip(*replica.terms, strict=True)
        indexes = [*(first - 0.5 for first in firsts), replica.last_index + 0.5]
        axes.step(indexes, [*terms, terms[-1]], where="post", color=COLOURS[row], linewidth=_width(row, len(replicas)))
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.margins(y=0.2)
    lines_across(axes, "y")
    axes.set_title("terms", fontsize=9, loc="left")


def _width(row: int, rows: int) -> float:
    return 1.4 + 2.2 * (rows - 1 - row)


def _lines_of(names: Sequence[str]) -> list[Any]:
    return [
        Line2D([], [], color=COLOURS[row], linewidth=min(7, _width(row, len(names))), label=name)
        for row, name in enumerate(names)
    ]


# -- violations


def _draw_places(
    axes: Axes, replica: ReplicaReport, name: str, marks: Sequence[Mark], styles: Mapping[ViolationKind, Any]
) -> None:
    if replica.course:
        axes.plot(*zip(*replica.course, strict=True), color="#a0aab4", linewidth=1.3, zorder=1)
    for mark in marks:
        marker, colour = styles[mark.kind]
        if mark.last_index > mark.index:
            axes.plot([mark.index, mark.last_index], [mark.position] * 2, color=colour, linewidth=5, alpha=0.25)
        edge: dict[str, Any] = {} if marker == "x" else {"markeredgecolor": "white", "markeredgewidth": 0.6}
        axes.plot(mark.index, mark.position, linestyle="", marker=marker, color=colour, markersize=7, zorder=3, **edge)
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_formatter(EngFormatter(unit="B"))
    axes.margins(y=0.15)
    lines_across(axes, "y")
    said = f"{len(marks) or 'no'} violation{'s' if len(marks) > 1 else ''}"
    axes.set_title(f"{name}: position in the log, {said}", fontsize=9, loc="left")


def _styles_of(marks: Sequence[Sequence[Mark]]) -> dict[ViolationKind, tuple[str, str]]:
    kinds = sorted({mark.kind for mine in marks for mark in mine}, key=ORDER.__getitem__)
    return {kind: _STYLES[number] if number < len(_STYLES) else _OTHER for number, kind in enumerate(kinds)}


def _kinds_of(marks: Sequence[Sequence[Mark]], styles: Mapping[ViolationKind, tuple[str, str]]) -> list[Any]:
    lines = [Line2D([], [], color="#a0aab4", linewidth=1.3, label="the log")]
    for kind, (marker, colour) in list(styles.items())[: len(_STYLES)]:
        lines.append(Line2D([], [], color=colour, marker=marker, linestyle="", label=kind.value))
    more = len(styles) - len(_STYLES)
    if more > 0:
        lines.append(Line2D([], [], color=_OTHER[1], marker=_OTHER[0], linestyle="", label=f"{more} kinds more"))
    return lines


# -- all of them


def _legend(axes: Axes, handles: Sequence[Line2D | Patch]) -> None:
    axes.axis("off")
    axes.legend(handles=handles, loc="upper left", frameon=False, fontsize=9, borderaxespad=0)


def _set_up_axis(
    entries: Axes, rows: Sequence[Axes], replicas: Sequence[ReplicaReport], marks: Sequence[Sequence[Mark]]
) -> None:
    """Set up the axis of indexes, which all parts of the picture share."""
    firsts = [float(replica.first_index) for replica in replicas if replica.first_index is not None]
    lasts = [float(replica.last_index) for replica in replicas]
    placed = [index for mine in marks for mark in mine for index in (mark.index, mark.last_index)]
    first, last = min([*firsts, *placed], default=0), max([*lasts, *placed], default=1)
    margin = max(0.5, (last - first) * 0.015)
    entries.set_xlim(first - margin, last + margin)
    entries.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    entries.xaxis.set_major_formatter(_COUNT)
    without_frame(*rows)
    for axes in rows:
        axes.tick_params(labelbottom=axes is rows[-1])
    rows[-1].set_xlabel("index of the entry")
