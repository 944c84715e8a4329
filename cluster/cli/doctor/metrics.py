"""Reads the figures of one node that the doctor judges from the node's /metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SAMPLE = re.compile(r"(?P<name>[a-z_]+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)", re.ASCII)
_SHARD = re.compile(r'shard="(\d+)"', re.ASCII)
_FLUSH = re.compile(r'flush="(sync|async)"')
_WRITE = re.compile(r'write="(direct|mapped|staged)"')
_MOST_CHARACTERS = 16 << 20


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """Figures of one node.

    `disk_use` is the used part of the disk, from 0 to 1; None if the node has not measured it. `flush_s` is the mean
    time of an fsync in seconds, and `flushes` the number of measured fsyncs. `repairing` has the shards whose log is
    damaged and under repair. `flush` and `write` are settings of the node; an old node does not tell them.
    `oldest_halves_s` says how long the oldest half batch waits in each shard that the node leads, in seconds.
    """

    disk_use: float | None = None
    flush_s: float = 0.0
    flushes: int = 0
    repairing: tuple[int, ...] = ()
    flush: str = ""
    write: str = ""
    oldest_halves_s: tuple[tuple[int, float], ...] = ()


def figures_of(text: str) -> NodeFigures:
    """Return the figures in the text of /metrics. A metric that is missing has its default."""
    disk_use: float | None = None
    flush_sum = flush_count = 0.0
    repairing: list[int] = []
    oldest_halves_s: list[tuple[int, float]] = []
    flush = write = ""
    for name, labels, value in _samples(text[:_MOST_CHARACTERS]):
        match name:
            case "ledgermq_disk_use_ratio":
                disk_use = value
            case "ledgermq_log_flush_duration_seconds_sum":
                flush_sum = value
            case "ledgermq_log_flush_duration_seconds_count":
                flush_count = value
            case "ledgermq_log_damaged" if value and (shard := _SHARD.search(labels)):
                repairing.append(int(shard[1]))
            case "ledgermq_transaction_oldest_seconds" if value and (shard := _SHARD.search(labels)):
                oldest_halves_s.append((int(shard[1]), value))
            case "ledgermq_node_info":
                flush, write = _first(_FLUSH, labels), _first(_WRITE, labels)
    mean = flush_sum / flush_count if flush_count else 0.0
    return NodeFigures(
        disk_use, mean, int(flush_count), tuple(sorted(repairing)), flush, write, tuple(sorted(oldest_halves_s))
    )


def _first(pattern: re.Pattern[str], labels: str) -> str:
    found = pattern.search(labels)
    return found[1] if found else ""


def _samples(text: str) -> Iterator[tuple[str, str, float]]:
    for line in text.splitlines():
        if (sample := _SAMPLE.fullmatch(line)) is not None:
            try:
                yield sample["name"], sample["labels"] or "", float(sample["value"])
            except ValueError:
                continue
