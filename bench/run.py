"""Runs the whole suite: it measures every target that one machine can measure, and writes the results as one page.

    make bench                      a third of an hour; BENCH=quick: six minutes; BENCH=full: 10 GiB of log
    .venv/bin/python -m bench.run [--scale quick|normal|full] [--only produce] [--long 30] [--out DIRECTORY]

The command writes `index.html` and `results.json` into DIRECTORY (default: bench-DATE). Do not use the machine for
anything else while the suite runs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rich.console import Console

from cluster.grpc_engine import prefer_older_engine

prefer_older_engine()  # before anything imports grpc

from bench.suite import client_forms, consume, crowds, disk, growth, judging, keyed, produce, secured, strain  # noqa: E402
from bench.suite.machine import machine  # noqa: E402
from bench.suite.page import SuiteResults, write  # noqa: E402
from bench.suite.rows import SuiteChapter, verdict  # noqa: E402
from bench.suite.scale import SCALES, SuiteScale  # noqa: E402
from bench.suite.stage import BenchFailedError, Stage, add_stage_arguments  # noqa: E402
from cluster.local.processes import DevError  # noqa: E402

Measure = Callable[[Stage, SuiteScale], SuiteChapter]
PARTS: dict[str, Measure] = {
    "produce": produce.against_ceiling,
    "crowds": crowds.awaited_sends,
    "sync": disk.sync_flush,
    "disk": disk.slow_disks,
    "keyed": keyed.ways_of_sending,
    "consume": consume.from_earliest,
    "forms": client_forms.push_and_sync,
    "e2e": consume.end_to_end,
    "growth": growth.as_work_grows,
    "validate": judging.spark_against_plain,
    "idle": strain.idle_and_loaded,
    "secured": secured.against_plain,
    "clients": strain.ten_times_the_clients,
}


def main() -> int:
    given = arguments()
    console, scale = Console(stderr=True), SCALES[given.scale]
    wanted = {name: PARTS[name] for name in given.only or PARTS}
    if given.long:
        wanted["long"] = partial(strain.long_run, minutes=given.long)
    began, where = datetime.now(UTC), machine()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ledgermq-bench-", dir=given.directory) as directory:
        stage = Stage(Path(directory), console, given.warm_gib)
        parts, failures = measured(stage, scale, wanted)
    seconds = time.monotonic() - started
    told = SuiteResults(f"{began:%Y-%m-%d %H:%M} UTC", scale.name, seconds, where, parts, stage.runs, failures)
    page = write(told, given.out or Path(f"bench-{began:%Y%m%d-%H%M%S}"))
    for part in parts:
        for row in part.rows:
            mark = {True: "met", False: "NOT MET", None: "-"}[row.met]
            console.print(f"{mark:8} {row.what}: {row.reached}, target {row.target}", highlight=False, soft_wrap=True)
    judged = verdict([row for part in parts for row in part.rows])
    console.print(f"{judged}, in {seconds / 60:.1f} minutes: {page}", soft_wrap=True)
    return 1 if failures else 0


def measured(stage: Stage, scale: SuiteScale, wanted: dict[str, Measure]) -> tuple[list[SuiteChapter], list[str]]:
    """Run all parts of the suite. Return the chapters of the page, and a sentence for each measurement that failed;
    after a failed measurement, the suite goes on.
    """
    parts, failures = [], []
    for name, measure in wanted.items():
        stage.say(name)
        try:
            parts.append(measure(stage, scale))
        except (BenchFailedError, DevError) as error:
            failures.append(f"{name}: {error}")
            stage.say(f"  FAILED: {error}")
    return parts, failures


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=SCALES, default="normal", help="how large (default: normal)")
    parser.add_argument("--only", choices=PARTS, nargs="+", help="measure only these parts")
    parser.add_argument(
        "--long", type=float, default=0, metavar="MINUTES", help="also make a long run at the end (default: none)"
    )
    parser.add_argument("--out", type=Path, help="where to write (default: bench-DATE)")
    add_stage_arguments(parser)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
