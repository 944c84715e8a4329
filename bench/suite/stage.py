"""Where measurements run: fresh clusters of processes, and `ledgermq bench` as a command against them.

Every run is a command line that is kept beside its figures.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.suite.machine import touch_memory
from bench.suite.rows import Run
from cluster.bench.idle import read_process
from cluster.local.processes import DevCluster
from cluster.process_use import private_bytes

SEGMENT_BYTES = 256 << 20
TIMEOUT_S = 3600.0
# Of each run, while the suite is under way.
SHOWN = {
    "records_per_s": "records/s",
    "mb_per_s": "MB/s",
    "latency_p50_ms": "ms p50",
    "latency_p99_ms": "ms p99",
    "cpu_us_per_record": "µs CPU/record",
}


class BenchFailedError(Exception):
    """A run of `ledgermq bench` failed; the message has its last words."""


class Stage:
    """Clusters below one directory, one after the other; and all runs so far."""

    def __init__(self, directory: Path, console: Console, warm_gib: float = 0.0) -> None:
        """`warm_gib`: so much memory is touched before each run of load; see `touch_memory`."""
        self._directory, self._console, self._warm_gib = directory, console, warm_gib
        self._clusters = 0
        self.runs: list[Run] = []

    def warm(self) -> None:
        touch_memory(self._warm_gib)

    def say(self, sentence: str) -> None:
        self._console.print(sentence, highlight=False, soft_wrap=True)

    @contextmanager
    def cluster(self, nodes: int = 3, *, flush: str = "async") -> Iterator[Running]:
        """A fresh one, which is removed at the end."""
        self._clusters += 1
        cluster = DevCluster(self._directory / f"cluster-{self._clusters}")
        try:
            states = cluster.start(nodes, flush=flush, segment_bytes=SEGMENT_BYTES, timeout_s=60)
            yield Running(self, cluster, tuple(state.pid for state in states if state.pid is not None))
        finally:
            cluster.purge()

    def record(self, name: str, command: str, figures: dict[str, Any]) -> None:
        self.runs.append(Run(name, command, figures))
        shown = [f"{figures[key]:,.2f} {unit}" for key, unit in SHOWN.items() if key in figures]
        self.say(f"  {name}: {', '.join(shown)}")


def cpu_us_per_record(figures: dict[str, Any], nodes_cpu_s: float) -> float:
    """Of client and nodes together; the nodes have worked for the warm-up too. A loaded machine hardly changes it."""
    records, warm_up = int(figures["records"]), int(figures["warm_up_records"])
    return 1e6 * (float(figures["client_cpu_s"]) / max(1, records) + nodes_cpu_s / max(1, records + warm_up))


@dataclass(frozen=True, slots=True)
class Running:
    """A cluster that runs."""

    stage: Stage
    cluster: DevCluster
    # Of the nodes: known, so that nobody needs to be asked while something is measured.
    pids: tuple[int, ...]

    def bench(self, name: str, *arguments: object, may_fail: bool = False) -> dict[str, Any]:
        """Runs `ledgermq bench` with these arguments to its end; its figures. Raises BenchFailedError."""
        words = ["bench", *map(str, arguments), "--json"]
        command = [sys.executable, "-m", "cluster.cli", *words, *self._where(words[1])]
        self.stage.warm()
        before = self._cpu_s()
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
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
        """Of the node that has the most, mapped files apart."""
        return max(map(private_bytes, self.pids)) / 1e6

    def term(self) -> int:
        return max(state.term for state in self.cluster.status())

    def metric(self, name: str) -> float:
        """The sum of a metric over all its labels and all nodes."""
        total = 0.0
        for state in self.cluster.status():
            with urllib.request.urlopen(f"http://{state.http}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
            total += sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name)
        return total
