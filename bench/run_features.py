"""Measures messages that wait, transactions and shared groups on this machine, and compares the figures with targets.

    make bench-features                               a quarter of an hour; leave the machine alone
    .venv/bin/python -m bench.run_features [--only shared transactions] [--share 0.1] [--json] [--directory PATH]

Each part has a fresh cluster of three node processes, with the clients on the same cores. The figures are those of
`bench.node.timed`, `bench.node.transactions`, `bench.node.shared` and `bench.judging.waiting_log`; these commands
measure one of them alone. The table has for each figure the target and what was measured. A target that is not met
does not change the exit status: it is 1 only if a part could not be measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console

from bench.judging.waiting_log import cancels
from bench.local_cluster import fresh_cluster
from bench.node import shared, timed, transactions
from bench.suite import feature_rows
from bench.suite.machine import machine
from bench.suite.rows import TargetRow, verdict
from bench.tables import options
from cluster.local.processes import DevError
from ledger.errors import LedgerError
from ledger.report.text import markdown_table

NODES = 3
DUE_PER_S, DUE_S, BURST = 2_000, 30, 200_000
TRANSACTION_S, IN_FLIGHT = 10, 200
SHARED_MESSAGES, MEMBERS = 200_000, 50
# The cases with and without a failing key take turns, because a single ratio says little.
KEYED_ROUNDS = 3
MARKS = {True: "met", False: "NOT MET", None: "-"}

# The figures as they were measured, and the rows that compare them with targets.
Found = tuple[Sequence[Any], list[TargetRow]]


@dataclass(frozen=True, slots=True)
class FeatureScale:
    """How much is measured. `share` is the part of the messages that a full run has."""

    directory: Path
    share: float = 1.0
    waiting: int = 1_000_000

    def of(self, count: int) -> int:
        return max(1, round(count * self.share))


@dataclass(slots=True)
class FeatureResults:
    """The results of a run, by part, and a sentence for each part that could not be measured."""

    began: str
    machine: dict[str, str]
    rows: list[TargetRow] = field(default_factory=list)
    figures: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0


def waiting(scale: FeatureScale) -> Found:
    with fresh_cluster(scale.directory / "waiting", NODES) as cluster:
        found = timed.waiting(cluster, scale.of(scale.waiting))
    return [found], feature_rows.waiting_rows(found)


def rate(scale: FeatureScale) -> Found:
    seconds = scale.of(DUE_S)
    with fresh_cluster(scale.directory / "rate", NODES) as cluster:
        found = asyncio.run(timed.lateness(cluster, "rate", DUE_PER_S * seconds, seconds))
    return [found], feature_rows.rate_rows(found)


def burst(scale: FeatureScale) -> Found:
    with fresh_cluster(scale.directory / "burst", NODES) as cluster:
        found = asyncio.run(timed.lateness(cluster, "burst", scale.of(BURST), 1.0))
    return [found], feature_rows.burst_rows(found)


def cancelled(scale: FeatureScale) -> Found:
    directory = scale.directory / "cancels"
    with fresh_cluster(directory, NODES) as cluster:
        found = cancels(cluster, directory, scale.of(scale.waiting))
    return [found], feature_rows.cancel_rows(found)


def transacted(scale: FeatureScale) -> Found:
    with fresh_cluster(scale.directory / "transactions", NODES) as cluster:
        found = uvloop.run(transactions.measure(cluster.bootstrap, scale.of(TRANSACTION_S), IN_FLIGHT))
    return found, feature_rows.transaction_rows(found)


def leased(scale: FeatureScale) -> Found:
    found, (batches, singles, *keyed) = [], shared.shared_cases(scale.of(SHARED_MESSAGES), MEMBERS)
    for case in (batches, singles, *keyed * KEYED_ROUNDS):
        with fresh_cluster(scale.directory / case.name, NODES) as cluster:
            found.append(asyncio.run(shared.measure(cluster.bootstrap, case)))
    return found, feature_rows.shared_rows(found)


PARTS: dict[str, Callable[[FeatureScale], Found]] = {
    "waiting": waiting,
    "rate": rate,
    "burst": burst,
    "cancels": cancelled,
    "transactions": transacted,
    "shared": leased,
}


def measured(parts: Sequence[str], scale: FeatureScale, console: Console) -> FeatureResults:
    """Measure the parts one after another, and print each row when it is known. After a part that failed, go on."""
    results, started = FeatureResults(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", machine()), time.monotonic()
    for number, name in enumerate(parts, 1):
        console.print(f"{number} of {len(parts)}: {name}", highlight=False)
        try:
            figures, rows = PARTS[name](scale)
        except (AssertionError, DevError, LedgerError, ExceptionGroup) as error:
            results.failures.append(f"{name}: {error}")
            console.print(f"  FAILED: {error}", highlight=False, markup=False)
            continue
        results.figures[name] = [asdict(each) for each in figures]
        results.rows += rows
        for row in rows:
            console.print(f"  {MARKS[row.met]:8} {row.what}: {row.reached}", highlight=False, soft_wrap=True)
    results.seconds = time.monotonic() - started
    return results


def text(results: FeatureResults) -> str:
    """Return the table of all rows, the failures, and the verdict."""
    columns = ["figure", "target", "measured", ""]
    cells = [
        [row.what, row.target, row.reached + (f"; {row.note}" if row.note else ""), MARKS[row.met]]
        for row in results.rows
    ]
    where, minutes = results.machine, results.seconds / 60
    lines = [
        markdown_table(columns, cells),
        "",
        *[f"FAILED: {sentence}" for sentence in results.failures],
        f"{verdict(results.rows)}, in {minutes:.1f} minutes from {results.began}, on {where['processor']}, load before "
        f" {where['load before']}, ledgermq {where['ledgermq']}",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--only", choices=PARTS, nargs="+", help="measure only these parts")
    parser.add_argument("--share", type=float, default=1.0, help="the share of the messages (default: 1)")
    parser.add_argument("--waiting", type=int, default=1_000_000, help="messages that wait (default: 1,000,000)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ledgermq-features-", dir=given.directory) as name:
        scale = FeatureScale(Path(name), given.share, given.waiting)
        results = measured([name for name in PARTS if name in (given.only or PARTS)], scale, Console(stderr=True))
    print(json.dumps(asdict(results), indent=2, ensure_ascii=False) if given.json else text(results))
    return 1 if results.failures else 0


if __name__ == "__main__":
    sys.exit(main())
