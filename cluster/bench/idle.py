"""Measures how much of a core and how much memory nodes use while they are idle (or while other work runs).

Each node is measured at two moments some seconds apart. The values come from /proc if the node is given by its process
id, and from the node's `/metrics` if the node is given by an address. The memory is the private memory of the process;
mapped files belong to the page cache.
"""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cluster.load.failure import LoadError
from cluster.process_use import cpu_s, private_bytes

_TIMEOUT_S = 5.0
CPU_METRIC = "process_cpu_seconds_total"
MEMORY_METRIC = "ledgermq_process_private_memory_bytes"


@dataclass(frozen=True, slots=True)
class UseReading:
    """The processor time and the memory of a process at one moment."""

    cpu_s: float
    private_bytes: int


@dataclass(frozen=True, slots=True)
class NodeUse:
    """`cpu_percent` is the percentage of one core that the node used. `memory_mb` is the node's memory at the end of
    the measurement (1 MB is 10^6 bytes).
    """

    node: str
    cpu_percent: float
    memory_mb: float


# A name, and the function that reads the process.
Source = tuple[str, Callable[[], UseReading]]


def process_source(pid: int, name: str = "") -> Source:
    """Return a source that reads processor time and memory of a process on this machine."""
    return name or f"pid {pid}", lambda: read_process(pid)


def metrics_source(address: str) -> Source:
    """Return a source that reads processor time and memory of a node from its HTTP port."""
    return address, lambda: read_metrics(address)


def measure_idle(sources: Sequence[Source], seconds: float) -> list[NodeUse]:
    """Measure all `sources` (processes or nodes) over `seconds` seconds. Raises LoadError if the figures of a
    source cannot be read."""
    before, started = [read() for _, read in sources], time.perf_counter()
    time.sleep(seconds)
    after, passed = [read() for _, read in sources], time.perf_counter() - started
    return [
        NodeUse(name, 100 * (now.cpu_s - was.cpu_s) / passed, now.private_bytes / 1e6)
        for (name, _), was, now in zip(sources, before, after, strict=True)
    ]


def read_process(pid: int) -> UseReading:
    """Read the processor time and memory of a process from /proc. Raises LoadError if this machine has no such
    process."""
    try:
        return UseReading(cpu_s(pid), private_bytes(pid))
    except OSError as error:
        raise LoadError(f"no process {pid} on this machine: name a remote node by --metrics HOST:PORT") from error


def read_metrics(address: str) -> UseReading:
    """Read the processor time and memory of a node from its `/metrics`. Raises LoadError if no server answers, or
    if the answer is not from a node of ledgermq."""
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=_TIMEOUT_S) as answer:
            lines = answer.read().decode().splitlines()
    except (OSError, ValueError) as error:
        raise LoadError(f"http://{address}/metrics: {error}: give a node's `http` address") from error
    found = dict(line.rsplit(" ", 1) for line in lines if line.startswith((CPU_METRIC, MEMORY_METRIC)))
    if CPU_METRIC not in found or MEMORY_METRIC not in found:
        raise LoadError(
            f"http://{address}/metrics has no {CPU_METRIC} and {MEMORY_METRIC}: give the `http` address of a node"
        )
    return UseReading(float(found[CPU_METRIC]), int(float(found[MEMORY_METRIC])))
