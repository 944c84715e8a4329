"""Starts new clusters of processes for the suite, and runs the command `ledgermq bench` against these clusters.

The command line of every run is stored with the figures of the run.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.local_cluster import fresh_cluster
from bench.suite.machine import default_warm_gib, touch_memory
from bench.suite.rows import SuiteRun
from cluster.bench.idle import read_process
from cluster.local.processes import DevCluster
from cluster.process_use import private_bytes
from ledger.client.connection.security import PROFILE_FILE_VARIABLE

SEGMENT_BYTES = 256 << 20
TIMEOUT_S = 3600.0
# The figures that are printed for each run while the suite runs.
SHOWN = {
    "records_per_s": "records/s",
    "mb_per_s": "MB/s",
    "latency_p50_ms": "ms p50",
    "latency_p99_ms": "ms p99",
    "cpu_us_per_record": "µs CPU/record",
    "whole_s": "s",
}


class BenchFailedError(Exception):
    """A run of `ledgermq bench` failed. The message of the error has the end of the command's output."""


class Stage:
    """Starts one cluster after another with data below one directory, and stores the results of all runs."""

    def __init__(self, directory: Path, console: Console, warm_gib: float = 0.0) -> None:
        """`warm_gib` is the memory in GiB that is touched before each run of load; see `touch_memory`."""
        # Where measurements write their data. It is removed at the end of the suite.
        self.directory = directory
        self._console, self._warm_gib = console, warm_gib
        self._clusters = 0
        self.runs: list[SuiteRun] = []

    def warm(self) -> None:
        touch_memory(self._warm_gib)

    def say(self, sentence: str) -> None:
        self._console.print(sentence, highlight=False, soft_wrap=True)

    @contextmanager
    def cluster(
        self, nodes: int = 3, *, flush: str = "async", secure: bool = False, shards: int = 1
    ) -> Iterator[Running]:
        """Start a new cluster, and remove it when the `with` block ends. `secure`: with TLS and authentication. A
        cluster with several shards has smaller segments."""
        self._clusters += 1
        directory = self.directory / f"cluster-{self._clusters}"
        segment_bytes = SEGMENT_BYTES if shards == 1 else None
        with fresh_cluster(
            directory, nodes, flush=flush, shards=shards, segment_bytes=segment_bytes, secure=secure
        ) as cluster:
            yield Running(self, cluster, tuple(state.pid for state in cluster.status() if state.pid is not None))

    def script(self, words: Sequence[str]) -> str:
        """Run `python` with these words to its end, without a profile of the user. Return what it printed. Raises
        BenchFailedError."""
        self.warm()
        done = subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            env={**os.environ, PROFILE_FILE_VARIABLE: os.devnull},
        )
        if done.returncode:
            raise BenchFailedError(f"{shlex.join(words)}: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def record(self, name: str, command: str, figures: dict[str, Any]) -> None:
        self.runs.append(SuiteRun(name, command, figures))
        shown = [f"{figures[key]:,.2f} {unit}" for key, unit in SHOWN.items() if key in figures]
        self.say(f"  {name}: {', '.join(shown)}")


def add_stage_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments with which a command makes its stage."""
    parser.add_argument(
        "--warm-gib",
        type=float,
        default=default_warm_gib(),
        help="GiB of memory to touch before each run, which virtual machines need (default: %(default)s; 0: none)",
    )
    parser.add_argument(
        "--directory", type=Path, help="where the nodes store their data (default: a temporary directory)"
    )


def cpu_us_per_record(figures: dict[str, Any], nodes_cpu_s: float) -> float:
    """Return the CPU time of the client and the nodes for each message, in µs. The CPU time of the nodes is divided by
    all messages including those of the warm-up. Other load on the machine changes the result little.
    """
    records, warm_up = int(figures["records"]), int(figures["warm_up_records"])
    return 1e6 * (float(figures["client_cpu_s"]) / max(1, records) + nodes_cpu_s / max(1, records + warm_up))


@dataclass(frozen=True, slots=True)
class Running:
    """A running cluster against which the suite runs `ledgermq bench`."""

    stage: Stage
    cluster: DevCluster
    # The pids of the nodes, so that no request is needed during a measurement.
    pids: tuple[int, ...]

    def bench(self, name: str, *arguments: object, may_fail: bool = False) -> dict[str, Any]:
        """Run `ledgermq bench` with `arguments` to its end. Return the figures of the run. Raises BenchFailedError."""
        words = ["bench", *map(str, arguments), "--json"]
        command = [sys.executable, "-m", "ledgermq", *words, *self._where(words[1])]
        self.stage.warm()
        before = self._cpu_s()
        # Not a profile of the user.
        profiles = self.cluster.credentials.profiles if self.cluster.is_secure else os.devnull
        variables = {**os.environ, PROFILE_FILE_VARIABLE: str(profiles)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=variables)
        if not done.stdout or (done.returncode and not may_fail):
            raise BenchFailedError(f"{shlex.join(words)}: {done.stderr.strip()[-2000:]}")
        figures: dict[str, Any] = json.loads(done.stdout)
        if "warm_up_records" in figures:
            figures["cpu_us_per_record"] = cpu_us_per_record(figures, self._cpu_s() - before)
        self.stage.record(name, shlex.join(["ledgermq", *words]), figures)
        return figures

    def _cpu_s(self) -> float:
        return sum(read_process(pid).cpu_s for pid in self.pids)

    def _where(self, subcommand: str) -> list[str]:
        if subcommand != "idle":
            return ["--bootstrap", self.cluster.bootstrap]
        return [word for pid in self.pids for word in ("--pid", str(pid))]

    def memory_mb(self) -> float:
        """Return the memory of the node that uses the most, without mapped files, in MB."""
        return max(map(private_bytes, self.pids)) / 1e6

    def term(self) -> int:
        return max(state.term for state in self.cluster.status())

    def metric(self, name: str) -> float:
        """Return the sum of a metric over all label values and all nodes."""
        total = 0.0
        for state in self.cluster.status():
            with urllib.request.urlopen(f"http://{state.http}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
            total += sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name)
        return total
