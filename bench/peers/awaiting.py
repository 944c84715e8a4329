"""Measures how many messages a second many clients send that each wait for an acknowledgement, and how long they wait.

Services use a message queue like this: each request sends one message. The clients run in one or in several load
processes, which begin at the same time.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles

from bench.peers.awaiting_load import AwaitingOrder, AwaitingResult
from bench.peers.peer import PeerError, Servers
from bench.peers.processes import cpu_s, load_environment

_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True, order=True)
class Crowd:
    """So many clients, in so many processes, send messages of so many bytes."""

    clients: int
    processes: int = 1
    size: int = 128

    @property
    def words(self) -> str:
        where = "" if self.processes == 1 else f" in {self.processes} processes"
        return f"{self.clients:,} clients{where}, {self.size} B"


CROWDS = (Crowd(1), Crowd(100), Crowd(1_000), Crowd(1_000, 4), Crowd(100, size=1_024))


@dataclass(frozen=True, slots=True)
class AwaitedRun:
    """The result of one run. CPU times are for one message, in microseconds; `server_us` is of all servers together."""

    crowd: Crowd
    per_s: float
    p50_ms: float
    p99_ms: float
    client_us: float
    server_us: float

    @property
    def words(self) -> str:
        return f"{self.per_s:,.0f}/s, p50 {self.p50_ms:.2f} ms, p99 {self.p99_ms:.2f} ms"


def middle(runs: Sequence[AwaitedRun]) -> AwaitedRun:
    """Return the medians of the figures of runs of one crowd."""
    return AwaitedRun(
        runs[0].crowd,
        median(run.per_s for run in runs),
        median(run.p50_ms for run in runs),
        median(run.p99_ms for run in runs),
        median(run.client_us for run in runs),
        median(run.server_us for run in runs),
    )


class AwaitingRounds:
    """Runs crowds of clients of one kind against running servers."""

    def __init__(
        self, python: Path, client: str, address: str, servers: Servers, seconds: float, say: Callable[[str], None]
    ) -> None:
        """`client` is the class of the clients, as module:class. A run lasts `seconds`, after a third of that as a
        warm-up."""
        self._python, self._client, self._address, self._servers = python, client, address, servers
        self._seconds, self._say = seconds, say
        self._topics = 0

    def measure(self, crowd: Crowd) -> AwaitedRun:
        """Raises PeerError if a client fails."""
        self._topics += 1
        topic = f"awaiting-{self._topics}"
        with ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ledgermq-awaiting-")))
            files = [directory / f"{number}.json" for number in range(crowd.processes)]
            processes = [
                stack.enter_context(self._started(crowd.clients // crowd.processes, crowd.size, topic, file))
                for file in files
            ]
            for process in processes:  # no client sends before all clients of all processes are connected
                _line(process)
            before = cpu_s(self._servers.pids)
            for process in processes:
                assert process.stdin is not None
                process.stdin.write("begin\n")
                process.stdin.flush()
            for process in processes:
                _line(process)
            spent_s = cpu_s(self._servers.pids) - before
            results = [AwaitingResult(**json.loads(file.read_text(encoding="utf-8"))) for file in files]
        run = _run_of(crowd, results, spent_s * self._seconds / (self._seconds + self._warm_s))
        self._say(f"  {self._client.rpartition(':')[2]}: {crowd.words}: {run.words}")
        return run

    @property
    def _warm_s(self) -> float:
        return self._seconds / 3

    def _started(self, clients: int, size: int, topic: str, file: Path) -> subprocess.Popen[str]:
        order = AwaitingOrder(self._client, self._address, topic, clients, size, self._seconds, self._warm_s, str(file))
        return subprocess.Popen(
            [str(self._python), "-m", "bench.peers.awaiting_load", json.dumps(asdict(order))],
            env=load_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def _line(process: subprocess.Popen[str]) -> str:
    """Return the next line of the process. Raise PeerError if it ends."""
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    if not line:
        process.wait(_TIMEOUT_S)
        raise PeerError(process.stderr.read().strip()[-1500:] or f"a load process ended with {process.returncode}")
    return line


def _run_of(crowd: Crowd, results: Sequence[AwaitingResult], server_s: float) -> AwaitedRun:
    latencies_us = [us for result in results for us, count in result.latencies_us for _ in range(count)]
    messages = len(latencies_us)
    cuts = quantiles(latencies_us, n=100)
    return AwaitedRun(
        crowd,
        sum(sum(count for _, count in result.latencies_us) / result.seconds for result in results),
        cuts[49] / 1e3,
        cuts[98] / 1e3,
        sum(result.cpu_s for result in results) / messages * 1e6,
        server_s / messages * 1e6,
    )
