"""Measures ledgermq beside Apache RocketMQ with the same unmodified RocketMQ clients, in turns, and writes a table.

    make bench-rocketmq
    .venv/bin/python -m bench.rocketmq.run [--clients python java] [--seconds 5] [--rounds 3] [--shards 1] [--out DIR]

The command needs Java and Maven, for Apache's servers, and the client programs (`make rocketmq-clients`). It writes
`rocketmq.md` and `results.json` into DIR (default: bench-rocketmq-DATE). Do not use the machine for anything
else meanwhile. While one system is measured, the processes of the other system are stopped. With one shard, one node of
ledgermq leads, as one of Apache's brokers does. With three shards, each node of ledgermq leads a shard.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from bench.peers.peer import PeerError
from bench.rocketmq.contest import ClientContest, ContestRun, native_send
from bench.rocketmq.page import contest_page
from bench.rocketmq.systems import ApacheSystem, LedgermqSystem, alone, running_systems
from bench.suite.machine import machine
from cluster.local.plan import DevError
from ledger.report.text import write_json
from tests.rocketmq.programs import ProgramError, missing

_CLIENTS = ("python", "java")


def main() -> int:
    given = arguments()
    if reasons := [reason for language in given.clients if (reason := missing(language))]:
        print("\n".join(reasons), file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, _interrupted)  # so that servers are stopped
    began = datetime.now(UTC)
    runs: list[ContestRun] = []
    conditions = machine()
    try:
        with tempfile.TemporaryDirectory(prefix="ledgermq-rocketmq-", dir=given.directory) as directory:
            say("starting Apache's servers and a ledgermq cluster")
            with running_systems(Path(directory), given.shards) as systems:
                asyncio.run(measure(systems, given, runs))
    except (DevError, PeerError, ProgramError) as error:
        print(error, file=sys.stderr)
        return 1
    out = given.out or Path(f"bench-rocketmq-{began:%Y%m%d-%H%M%S}")
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "results.json", {"machine": conditions, "runs": [run.as_json() for run in runs]})
    notes = [f"{given.rounds} rounds of {given.seconds:g} s each; a ratio is that of the medians, ours / Apache's"]
    notes += [f"shards of the ledgermq cluster: {given.shards}"]
    notes += [f"{name}: {what}" for name, what in conditions.items()]
    notes += [f"load after: {' '.join(f'{each:.2f}' for each in os.getloadavg())}"]
    page = contest_page(runs, notes)
    (out / "rocketmq.md").write_text(page, encoding="utf-8")
    print(page)
    return 0


async def measure(
    systems: tuple[ApacheSystem, LedgermqSystem], given: argparse.Namespace, runs: list[ContestRun]
) -> None:
    """Run all rounds, and add each run to `runs`."""

    def done(run: ContestRun) -> None:
        runs.append(run)
        what = f"{run.system}, {run.client}: {run.way}, {run.at_once} at once"
        say(f"  {what}: {run.per_s:,.0f}/s, p50 {run.p50_ms:.1f} ms")

    apache, ours = systems
    for number in range(given.rounds):
        say(f"round {number + 1} of {given.rounds}")
        for language in given.clients:
            for system in (apache, ours):
                with alone(system, systems):
                    contest = ClientContest(system, language, f"{number}-{language}", given.seconds)
                    await contest.measure(done)
        with alone(ours, systems):
            done(await native_send(ours, f"{number}-native", given.seconds))


def _interrupted(*_: object) -> None:
    raise SystemExit("interrupted")


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", nargs="+", choices=_CLIENTS, default=list(_CLIENTS))
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--shards", type=int, default=1, help="of the ledgermq cluster (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="where to write (default: bench-rocketmq-DATE)")
    parser.add_argument("--directory", type=Path, help="where the servers store their data")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
