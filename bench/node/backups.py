"""Measures backups: how fast they are made, checked and restored, and what they cost producers meanwhile.

    python -m bench.node.backups copy [--gib 2] [--nodes 1]
    python -m bench.node.backups load [--gib 1] [--rounds 3] [--seconds 8] [--rates 32M]

`copy` fills a cluster of `--nodes` nodes, makes a backup without a limit of the rate, makes a second backup, checks the
first one with and without the replay, and restores it for one node. `load` fills a cluster of three nodes, and measures
`ledgermq bench produce` in turns: alone, and while a new backup is made at each of the rates. All programs run on this
machine, as processes. The producers send as fast as they can, so a backup takes the time of the cores from them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import tables
from bench.local_cluster import fill, fresh_cluster

GIB = 1 << 30
MESSAGE_BYTES = 1024
_LEDGERMQ = (sys.executable, "-m", "ledgermq")


@dataclass(frozen=True, slots=True)
class StepRow:
    step: str
    gb: float
    seconds: float
    mb_per_s: float
    # Of the command, without the nodes.
    cpu_s: float


@dataclass(frozen=True, slots=True)
class LoadRow:
    backup: str
    # Median of the rounds, and the least and the most.
    messages_per_s: int
    least: int
    most: int
    # Median of the rounds: what is missing to the turn without a backup in the same round.
    loss_percent: float


def run(*arguments: str) -> tuple[str, float, float]:
    """Run a command to its end. Return its output, its seconds and its CPU seconds."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([*_LEDGERMQ, *arguments], check=True, stdout=subprocess.PIPE, text=True)
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def copy(directory: Path, gib: float, nodes: int) -> list[StepRow]:
    target = str(directory / "backups")
    rows = []

    def step(name: str, size: float, *arguments: str) -> str:
        output, seconds, cpu_s = run(*arguments)
        rows.append(StepRow(name, size / 1e9, seconds, size / 1e6 / seconds, cpu_s))
        print(f"{name}: {seconds:.1f} s", file=sys.stderr)
        return output

    with fresh_cluster(directory / "cluster", nodes) as cluster:
        fill(cluster.bootstrap, int(gib * GIB), MESSAGE_BYTES)
        create = ("backup", "create", target, "--bootstrap", cluster.bootstrap, "--max-rate", "0", "--format", "json")
        first = json.loads(step("create", int(gib * GIB), *create))
        fill(cluster.bootstrap, 64 << 20, MESSAGE_BYTES)
        step("create, 64 MiB later", 64 << 20, *create)
    name, size = first["name"], first["bytes"]
    step("check --quick", size, "backup", "check", target, name, "--quick")
    step("check", size, "backup", "check", target, name)
    restored = directory / "restored"
    step("restore", size, "restore", target, str(restored), "--cluster", "new", "--node", "1=127.0.0.1:9871")
    shutil.rmtree(restored)
    return rows


def load(directory: Path, gib: float, rounds: int, seconds: float, rates: Sequence[str]) -> list[LoadRow]:
    found: dict[str, list[int]] = {rate: [] for rate in ("none", *rates)}
    with fresh_cluster(directory / "cluster", 3) as cluster:
        fill(cluster.bootstrap, int(gib * GIB), MESSAGE_BYTES)
        produce(cluster.bootstrap, 2 * seconds)  # the first seconds of a cluster are slower
        for number in range(rounds):
            for rate in found:
                backup = None
                if rate != "none":
                    target = directory / f"backups-{rate}-{number}"
                    backup = start_backup(cluster.bootstrap, target, rate)
                found[rate].append(produce(cluster.bootstrap, seconds))
                if backup is not None:
                    if backup.poll() is not None:
                        raise SystemExit(f"the backup at {rate} ended too early: give more --gib or fewer --seconds")
                    backup.terminate()
                    backup.wait()
                    shutil.rmtree(target)
                print(f"{rate}: {found[rate][-1]:,} messages/s", file=sys.stderr)
    return [_load_row(rate, each, found["none"]) for rate, each in found.items()]


def _load_row(backup: str, found: Sequence[int], alone: Sequence[int]) -> LoadRow:
    losses = [100 * (1 - each / other) for each, other in zip(found, alone, strict=True)]
    return LoadRow(backup, round(statistics.median(found)), min(found), max(found), statistics.median(losses))


def start_backup(bootstrap: str, target: Path, rate: str) -> subprocess.Popen[bytes]:
    """Start a backup, and return when it has copied something."""
    command = [*_LEDGERMQ, "backup", "create", str(target), "--bootstrap", bootstrap, "--max-rate", rate]
    process = subprocess.Popen(command)
    while not (target / "unfinished.json").exists():
        if process.poll() is not None:
            raise SystemExit("the backup ended at once")
        time.sleep(0.05)
    return process


def produce(bootstrap: str, seconds: float) -> int:
    """Return the messages that producers sent in a second."""
    command = ["bench", "produce", "--bootstrap", bootstrap, "--seconds", str(seconds), "--size", str(MESSAGE_BYTES)]
    output, _, _ = run(*command, "--format", "json")
    return int(json.loads(output)["records_per_s"])


def main() -> None:
    parser = tables.options(__doc__)
    parser.add_argument("what", choices=("copy", "load"))
    parser.add_argument("--gib", type=float, default=2.0, help="size of the log that is backed up")
    parser.add_argument("--nodes", type=int, default=1, help="nodes of `copy`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rates", default="32M", help="rates of `load`, with commas between; 0: no limit")
    arguments: argparse.Namespace = parser.parse_args()
    os.environ.pop("LEDGERMQ_BACKUP_KEY_FILE", None)
    with tempfile.TemporaryDirectory(dir=arguments.directory) as path:
        if arguments.what == "copy":
            tables.show({"backup": copy(Path(path), arguments.gib, arguments.nodes)}, as_json=arguments.json)
        else:
            rates = arguments.rates.split(",")
            rows = load(Path(path), arguments.gib, arguments.rounds, arguments.seconds, rates)
            tables.show({"producers": rows}, as_json=arguments.json)


if __name__ == "__main__":
    main()
