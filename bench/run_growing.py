"""Measures what a cluster costs as its connections, queues, shards and log grow, and writes one page with plots.

    make bench-growing                                 half an hour; GROWING=quick: some minutes
    .venv/bin/python -m bench.run_growing [--scale quick|full] [--only queues] [--sizes 4 100] [--out DIRECTORY]

The command writes `index.html` and `results.json` into DIRECTORY (default: growing-DATE), and prints the tables. With
`--sizes`, the parts of `--only` measure these sizes instead of those of the scale. A run of all parts needs 6 GB of
disk, and 8 GB of memory at full scale. Do not use the machine for anything else meanwhile.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from cluster.grpc_engine import prefer_older_engine

prefer_older_engine()  # before anything imports grpc

from bench.growing.connections import connections  # noqa: E402
from bench.growing.curve import GrowthCurve  # noqa: E402
from bench.growing.logs import logs  # noqa: E402
from bench.growing.page import GrowingResults, table, write  # noqa: E402
from bench.growing.queues import queues  # noqa: E402
from bench.growing.scale import SCALES, GrowingScale  # noqa: E402
from bench.growing.shards import shards  # noqa: E402
from bench.suite.machine import machine  # noqa: E402
from bench.suite.stage import BenchFailedError, Stage, add_stage_arguments  # noqa: E402
from cluster.local.processes import DevError  # noqa: E402
from ledger.errors import LedgerError  # noqa: E402
from ledger.report.text import markdown_table  # noqa: E402

PARTS: dict[str, Callable[[Stage, GrowingScale], list[GrowthCurve]]] = {
    "connections": connections,
    "queues": queues,
    "shards": shards,
    "log": logs,
}


def main() -> int:
    given = arguments()
    console, began, started = Console(stderr=True), datetime.now(UTC), time.monotonic()
    scale = resized(SCALES[given.scale], given.sizes, given.nodes)
    results = GrowingResults(f"{began:%Y-%m-%d %H:%M} UTC", scale.name, machine())
    with tempfile.TemporaryDirectory(prefix="ledgermq-growing-", dir=given.directory) as directory:
        stage = Stage(Path(directory), console, given.warm_gib)
        for name in given.only or PARTS:
            stage.say(name)
            try:
                results.parts[name] = PARTS[name](stage, scale)
            except (BenchFailedError, DevError, LedgerError, AssertionError, OSError) as error:
                results.failures.append(f"{name}: {error}")
                stage.say(f"  FAILED: {error}")
    results.runs, results.seconds = stage.runs, time.monotonic() - started
    page = write(results, given.out or Path(f"growing-{began:%Y%m%d-%H%M%S}"))
    for curve in (curve for part in results.parts.values() for curve in part):
        print(f"\n{curve.title}\n\n{markdown_table(*table(curve))}")
        for sentence in curve.failures:
            console.print(f"FAILED: {sentence}", highlight=False, soft_wrap=True)
        for row in curve.rows():
            mark = {True: "met", False: "NOT MET", None: "-"}[row.met]
            console.print(f"{mark:8} {row.what}: {row.reached}", highlight=False, soft_wrap=True)
    console.print(f"in {results.seconds / 60:.1f} minutes: {page}", soft_wrap=True)
    return 1 if results.failures else 0


def resized(scale: GrowingScale, sizes: list[float] | None, nodes: list[int] | None) -> GrowingScale:
    """Return the scale with other sizes for all parts, and with shards on other numbers of nodes."""
    if sizes:
        whole = tuple(round(size) for size in sizes)
        scale = replace(scale, connections=whole, queues=whole, log_gib=tuple(sizes))
        scale = replace(scale, shards=tuple((number, whole) for number, _ in scale.shards))
    if nodes:
        numbers = scale.shards[0][1]
        scale = replace(scale, shards=tuple((number, numbers) for number in nodes))
    return scale


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=SCALES, default="full", help="how large (default: full)")
    parser.add_argument("--only", choices=PARTS, nargs="+", help="measure only these parts")
    parser.add_argument("--sizes", type=float, nargs="+", help="measure at these sizes, smallest first")
    parser.add_argument("--nodes", type=int, nargs="+", help="measure shards on clusters of so many nodes")
    parser.add_argument("--out", type=Path, help="where to write (default: growing-DATE)")
    add_stage_arguments(parser)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
