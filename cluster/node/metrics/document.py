"""Writes docs/METRICS.md from the definitions of the metrics: `python -m cluster.node.metrics.document FILE`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from cluster.node.metrics.catalogue import CHAPTERS, METRICS, MetricChapter
from cluster.node.metrics.definition import NODES, MetricDefinition

INTRODUCTION = f"""\
# Metrics

Every node serves these metrics under `/metrics` of its HTTP port. `make metrics-page` writes this page from the code
that reports the metrics. [OPERATING.md](OPERATING.md#monitoring) says how to set up Prometheus, which alerts there are,
and what to do when one fires.

- **Formats.** A node answers in Prometheus's text format 0.0.4, or in OpenMetrics 1.0.0 if the header `Accept` of the
  request prefers it, as that of Prometheus does. There are no series with the suffix `_created`.
- **Types.** A counter counts from the start of the process. A gauge shows the state at the moment of the scrape. A
  histogram has the series `_bucket`, `_sum` and `_count`.
- **Units** are base units: seconds and bytes. A metric without a unit counts things, or is 1 for yes and 0 for no.
- **Labels** have a bounded number of values. *Most series* is the largest number of series of one node, and the last
  column says what bounds it. These numbers are for a cluster of {NODES} nodes. Usual clusters have far fewer series,
  because a series exists only for what there is.
"""


def document() -> str:
    """Return the whole page."""
    return "\n".join([INTRODUCTION, *(line for chapter in CHAPTERS for line in _chapter(chapter)), *_total()])


def _chapter(chapter: MetricChapter) -> Iterator[str]:
    yield f"## {chapter.title}\n"
    if chapter.note:
        yield f"{chapter.note}\n"
    yield "| metric | type | labels | unit | meaning | most series | bounded by |"
    yield "| --- | --- | --- | --- | --- | ---: | --- |"
    yield from (_row(metric) for metric in chapter.metrics)
    yield ""


def _row(metric: MetricDefinition) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    cells = (
        f"`{metric.name}`",
        metric.kind.value,
        labels,
        metric.unit,
        metric.text,
        f"{metric.most_series:,}",
        metric.bound.reason,
    )
    return f"| {' | '.join(cells)} |"


def _total() -> Iterator[str]:
    total = sum(metric.most_series for metric in METRICS)
    yield "## All together\n"
    yield f"A node that reaches all of these limits at once has {total:,} series."
    yield ""


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(), encoding="utf-8")
