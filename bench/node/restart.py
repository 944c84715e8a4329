"""Measures how long a node with a large log needs to be ready again after an orderly stop or a kill. The page cache is
hot or cold.

    .venv/bin/python -m bench.node.restart [--gib 10] [--message-bytes 1024] [--directory PATH]

A producer fills a cluster of one node. In each case, the node is stopped in a different way and started again.
`ready_s` is the time from the start of the process until /readyz succeeds. `log_s` is the time that the node spent on
reading its log; the node writes this time to its log output at its start. `cold` means that all files of the node were
dropped from the page cache before the start. In the case `kill while written to`, the script kills the node while a
producer writes at full speed, just before the node's next checkpoint. A node without a checkpoint reads its whole log
at the start and builds all indexes. The case `empty` is a node without a log: it shows the fixed cost of a start.
"""

from __future__ import annotations

import multiprocessing
import re
import signal
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.local_cluster import fill, forget, fresh_cluster
from bench.tables import options, show
from cluster.local.node_process import DevNode
from cluster.node.replica.checkpoints import INTERVAL_S

ROUNDS = 3
GIB = 1 << 30
SEGMENT_BYTES = GIB
READY_TIMEOUT_S = 600
STOP_TIMEOUT_S = 300
_READ = re.compile(r"a log of (\d+) entries, (\d+) bytes, read in ([\d.]+) s")


@dataclass(frozen=True, slots=True)
class RestartFigures:
    after: str
    cache: str
    gib: float
    ready_s: float
    log_s: float


def started(after: str, node: DevNode, before: Callable[[], None], *, is_cold: bool) -> RestartFigures:
    """Restart the node in several rounds and return the median times. In each round, the function `before` stops or
    kills the node."""
    ready, read, gib = [], [], 0.0
    for _ in range(ROUNDS):
        before()
        if is_cold:
            forget(node.data)
        ready.append(ready_again(node))
        _, size, seconds = _READ.findall(node.log.read_text())[-1]
        read.append(float(seconds))
        gib = int(size) / GIB
    ready_s = statistics.median(ready)
    return RestartFigures(after, "cold" if is_cold else "hot", gib, ready_s, statistics.median(read))


def ready_again(node: DevNode) -> float:
    """Start the node, and return the seconds from the start of the process until the node is ready."""
    began = time.perf_counter()
    node.spawn()
    while not is_ready(node):
        assert node.pid is not None, node.log_tail()
        assert time.perf_counter() < began + READY_TIMEOUT_S, node.log_tail()
        time.sleep(0.01)
    return time.perf_counter() - began


def is_ready(node: DevNode) -> bool:
    try:
        with urllib.request.urlopen(f"http://{node.http}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def end(node: DevNode, number: signal.Signals) -> None:
    node.send(number)
    assert node.wait_stopped(STOP_TIMEOUT_S), f"node {node.node} does not stop"


def kill_while_written_to(node: DevNode, message_bytes: int) -> None:
    """Kill the node shortly before its next checkpoint. A node writes a checkpoint `INTERVAL_S` seconds after the
    last checkpoint."""
    sender = multiprocessing.get_context("spawn").Process(target=fill, args=(node.address, 1 << 40, message_bytes))
    sender.start()
    try:
        wait_for_change(checkpoint_of(node))
        time.sleep(INTERVAL_S - 0.5)
        end(node, signal.SIGKILL)
    finally:
        sender.kill()
        sender.join()


def checkpoint_of(node: DevNode) -> Path:
    return node.data / "shard-0" / "checkpoint"


def wait_for_change(path: Path) -> None:
    def age() -> int:
        return path.stat().st_mtime_ns if path.exists() else 0

    before, deadline = age(), time.monotonic() + STOP_TIMEOUT_S
    while age() == before and time.monotonic() < deadline:
        time.sleep(0.05)


def measure(directory: Path, gib: float, message_bytes: int) -> list[RestartFigures]:
    with fresh_cluster(directory / "cluster", 1, segment_bytes=SEGMENT_BYTES) as cluster:
        return measure_starts(cluster.node(1), gib, message_bytes)


def measure_starts(node: DevNode, gib: float, message_bytes: int) -> list[RestartFigures]:
    def stop() -> None:
        end(node, signal.SIGTERM)

    def kill() -> None:
        end(node, signal.SIGKILL)

    def lose_checkpoint() -> None:
        stop()
        checkpoint_of(node).unlink()

    rows = [started("stop, empty", node, stop, is_cold=False)]
    fill(node.address, int(gib * GIB), message_bytes)
    for is_cold in (False, True):
        rows += [started(how.__name__, node, how, is_cold=is_cold) for how in (stop, kill)]
    rows.append(started("stop, no checkpoint", node, lose_checkpoint, is_cold=False))
    rows.append(
        started("kill while written to", node, lambda: kill_while_written_to(node, message_bytes), is_cold=False)
    )
    return rows


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--gib", type=float, default=10.0, help="how long the log is (default: 10)")
    parser.add_argument("--message-bytes", type=int, default=1024, help="of each message (default: 1024)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.directory) as name:
        rows = measure(Path(name), given.gib, given.message_bytes)
    show({f"Ready again with a log of {given.gib:g} GiB": rows}, as_json=given.json)


if __name__ == "__main__":
    main()
