"""The command `ledgermq mirror` copies topics of a cluster to another one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal, cast

import click

from cluster.cli.metrics_file import MetricsFile, metrics_file_option
from cluster.cli.mirror.cluster_option import ClusterPlaceType
from cluster.cli.mirror.copy_report import CopyReport
from cluster.cli.mirror.mirror_metrics import metrics_written
from cluster.cli.options import REQUEST_TIMEOUT_MS, FiniteRange, format_option
from cluster.cli.progress_line import progress_told
from cluster.cli.stopping import run_until_stopped
from ledger.mirror.cluster_access import ClusterAccess, ClusterPlace
from ledger.mirror.cluster_mirror import ClusterMirror, MirrorSettings
from ledger.mirror.copy_tally import CopyTally
from ledger.mirror.topic_patterns import TopicPatterns

_MB = 1_000_000


@click.command()
@click.option(
    "--from",
    "source",
    required=True,
    type=ClusterPlaceType(),
    metavar="PROFILE|HOST:PORT,...",
    help="Cluster from which topics are copied: a profile (`ledgermq profile`), or addresses.",
)
@click.option(
    "--to",
    "target",
    required=True,
    type=ClusterPlaceType(),
    metavar="PROFILE|HOST:PORT,...",
    help="Cluster to copy to.",
)
@click.option(
    "--topic",
    "topics",
    required=True,
    multiple=True,
    metavar="PATTERN",
    help="Topic, or pattern such as 'orders-*'. Repeat it for more.",
)
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Topics that are not copied.")
@click.option("--prefix", default="", help="Begin the names of the topics at the target with this text.")
@click.option(
    "--group", "groups", multiple=True, metavar="PATTERN", help="Move the offsets of these consumer groups, too."
)
@click.option("--name", default="", help="Name of the mirror.  [default: the name of the target cluster]")
@click.option(
    "--start",
    type=click.Choice(["earliest", "latest"]),
    default="earliest",
    show_default=True,
    help="Where the first run of a mirror of this name begins. Topics and queues that come later are copied whole.",
)
@click.option(
    "--on-dropped",
    type=click.Choice(["error", "skip"]),
    default="error",
    show_default=True,
    help="If the source has removed messages that are not copied: end, or go on and count them.",
)
@click.option("--no-create", is_flag=True, help="Create no topics and no queues at the target.")
@click.option("--rate-mb", type=FiniteRange(min=0.001), help="Send at most so many MB a second.  [default: no limit]")
@metrics_file_option
@click.option("--once", is_flag=True, help="End when the target has what the source has now.")
@format_option
def mirror(
    source: ClusterPlace,
    target: ClusterPlace,
    topics: tuple[str, ...],
    exclude: tuple[str, ...],
    prefix: str,
    groups: tuple[str, ...],
    name: str,
    start: str,
    on_dropped: str,
    no_create: bool,
    rate_mb: float | None,
    metrics_file: Path | None,
    once: bool,
    output: str,
) -> int:
    """Copy topics of a cluster to another one, until Ctrl-C. Each message is copied once, to the queue with the same
    number and in the same order, also if the mirror or nodes are killed.

    Values, keys, look-up keys, tags, headers, timestamps and message ids are kept. Offsets and append times are those
    of the target. Run the command again to continue; docs/MIRROR.md says how to move consumers to the other cluster.

    The exit status is 1 if messages were skipped.
    """
    settings = MirrorSettings(
        TopicPatterns(topics, exclude, prefix),
        groups,
        name,
        cast('Literal["earliest", "latest"]', start),
        skips_lost=on_dropped == "skip",
        creates=not no_create,
        bytes_per_s=None if rate_mb is None else rate_mb * _MB,
    )
    metrics: MetricsFile | None = None
    if metrics_file is not None:
        metrics = MetricsFile(metrics_file, {"source": _text(source), "target": _text(target)})
    clock = ClusterAccess(source, request_timeout_ms=REQUEST_TIMEOUT_MS)
    report = CopyReport(CopyTally(), time.monotonic(), time.monotonic, clock.now_ms)
    try:
        run_until_stopped(_mirror(clock, target, settings, report, once, metrics))
    finally:
        report.show(output)
    return 1 if report.tally.skipped else 0


def _text(place: ClusterPlace) -> str:
    """Return the addresses of a cluster, for a label."""
    return place.servers if isinstance(place.servers, str) else ",".join(place.servers)


async def _mirror(
    source: ClusterAccess,
    target: ClusterPlace,
    settings: MirrorSettings,
    report: CopyReport,
    once: bool,
    metrics: MetricsFile | None,
) -> None:
    mirror = ClusterMirror(source, ClusterAccess(target, request_timeout_ms=REQUEST_TIMEOUT_MS), settings)
    report.tally = mirror.tally
    try:
        await mirror.open()
        report.began_s = time.monotonic()
        async with metrics_written(metrics, mirror.tally, source.now_ms), progress_told(report.so_far):
            await mirror.run(once=once)
    finally:
        await mirror.close()
