"""Measures what idle shards cost when three nodes on this machine have several shards and no work.

    .venv/bin/python -m bench.node.shards_idle [--shards 1 4 16] [--seconds 20]

For each number of shards, the script starts a new cluster and waits until each shard has its preferred leader. The
script reads from /proc how much of a core each node process uses while the cluster is idle.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cluster.grpc_engine import prefer_older_engine

prefer_older_engine()  # before anything imports grpc

from bench.local_cluster import fresh_cluster  # noqa: E402
from cluster.process_use import cpu_s  # noqa: E402

NODES = 3
SETTLE_S = 8.0


def measure(shards: int, seconds: float) -> tuple[list[float], list[int]]:
    """Return for each node how many percent of a core it uses, and how many shards it leads."""
    with (
        tempfile.TemporaryDirectory(prefix="ledgermq-idle-") as directory,
        fresh_cluster(Path(directory) / "data", NODES, shards=shards) as cluster,
    ):
        time.sleep(SETTLE_S)
        nodes = [cluster.node(node) for node in range(1, NODES + 1)]
        before, started = [cpu_s(node.pid) for node in nodes], time.perf_counter()
        time.sleep(seconds)
        passed = time.perf_counter() - started
        used = [cpu_s(node.pid) - was for node, was in zip(nodes, before, strict=True)]
        return [100 * each / passed for each in used], [len(state.leads) for state in cluster.status()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--seconds", type=float, default=20)
    wanted = parser.parse_args()
    table = Table("shards", "led by each node", "% of a core, each node", "the most")
    for shards in wanted.shards:
        used, led = measure(shards, wanted.seconds)
        table.add_row(
            str(shards), ", ".join(map(str, led)), ", ".join(f"{each:.1f}" for each in used), f"{max(used):.1f}"
        )
    Console().print(table)


if __name__ == "__main__":
    main()
