"""Measures how fast a new replica receives a log through Raft's stream, compared with a download of the segment files
over HTTP.

    .venv/bin/python -m bench.node.catch_up [--gib 2] [--json] [--directory PATH]

A producer fills the log of one node. When the log is filled, a second node is added as a learner. The figure `Raft's
stream` covers the time between the learner's first entry and the learner's last entry. While it receives the stream,
the learner verifies and writes each entry and builds its indexes. For the comparison, a client downloads the segment
files of the same log from the HTTP port of the first node, which uses sendfile. In one download the client only writes
the files; in another download the client also verifies each entry. All processes of the measurement share this
machine. The nodes have no limit `catch_up_bytes_per_s`. The CPU seconds are the sum of sender and receiver.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.local_cluster import fill, fresh_cluster
from bench.tables import options, show
from cluster.local.node_process import DevNode
from cluster.local.processes import DevCluster
from cluster.process_use import cpu_s
from cluster.process_variables import changed_variables
from store import PosixDisk
from store.log import entry

ROUNDS = 3
GIB = 1 << 30
SEGMENT_BYTES = 256 << 20
MESSAGE_BYTES = 1024
BUFFER_BYTES = 1 << 20
POLL_S = 0.01
TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class CatchUpFigures:
    way: str
    gib: float
    mb_per_s: float
    cpu_s_per_gb: float
    of_http: float


def measure(directory: Path, gib: float) -> list[CatchUpFigures]:
    unlimited = changed_variables({"LEDGERMQ_CATCH_UP_BYTES_PER_S": "0"})
    with unlimited, fresh_cluster(directory / "cluster", 1, segment_bytes=SEGMENT_BYTES) as cluster:
        fill(cluster.bootstrap, int(gib * GIB), MESSAGE_BYTES)
        node = cluster.node(1)
        names = segments(node)
        works: dict[str, Callable[[], tuple[float, float]]] = {
            "HTTP, written": lambda: over_http(node, names, directory / "copy", verifies=False),
            "HTTP, written and verified": lambda: over_http(node, names, directory / "copy", verifies=True),
            "Raft's stream": lambda: by_stream(cluster),
        }
        size = sum(names.values())
        found = {way: [work() for _ in range(ROUNDS)] for way, work in works.items()}
    seconds = {way: statistics.median(taken for taken, _ in rounds) for way, rounds in found.items()}
    cpu = {way: statistics.median(used for _, used in rounds) for way, rounds in found.items()}
    best = seconds["HTTP, written"]
    return [
        CatchUpFigures(way, size / GIB, size / taken / 1e6, cpu[way] / size * 1e9, best / taken)
        for way, taken in seconds.items()
    ]


# -- by Raft's stream


def by_stream(cluster: DevCluster) -> tuple[float, float]:
    """Return the seconds between the learner's first entry and the learner's last entry, and the CPU seconds that
    the leader and the learner used in that time."""
    leader, deadline = cluster.node(1), time.monotonic() + TIMEOUT_S
    with ThreadPoolExecutor(1) as pool:
        adding = pool.submit(cluster.add_node, promote=False, timeout_s=TIMEOUT_S)
        while not (learner := reached(cluster, 1)):
            assert time.monotonic() < deadline, "the learner gets nothing"
            time.sleep(POLL_S)
        started, before = time.perf_counter(), cpu_s(leader.pid) + cpu_s(learner.pid)
        while not reached(cluster, cluster.status()[0].last_index):
            assert time.monotonic() < deadline, "the learner does not catch up"
            time.sleep(POLL_S)
        taken_s = time.perf_counter() - started
        used_s = cpu_s(leader.pid) + cpu_s(learner.pid) - before
        adding.result()
    cluster.remove_node(learner.node, force=True)
    return taken_s, used_s


def reached(cluster: DevCluster, index: int) -> DevNode | None:
    """Return the second node if it has stored and applied the entry with this index; otherwise return None."""
    state = cluster.status()[-1]
    return cluster.node(state.id) if state.id != 1 and min(state.last_index, state.applied) >= index else None


# -- over HTTP


def segments(node: DevNode) -> dict[str, int]:
    """Return the names of the segments, and for each segment the number of bytes that entries use."""
    with urllib.request.urlopen(f"http://{node.http}/shards/0/segments") as answer:
        return {each["name"]: each["length"] for each in json.load(answer)["segments"]}


def over_http(node: DevNode, names: dict[str, int], copy: Path, *, verifies: bool) -> tuple[float, float]:
    """Download the log over HTTP. Return the seconds of the download, and the CPU seconds that the node and this
    process used for the download."""
    copy.mkdir()
    started, before = time.perf_counter(), cpu_s(node.pid) + time.process_time()
    for name, length in names.items():
        download(node, name, copy / name, length)
        if verifies:
            verify(copy / name, length)
    taken_s, used_s = time.perf_counter() - started, cpu_s(node.pid) + time.process_time() - before
    shutil.rmtree(copy)
    return taken_s, used_s


def download(node: DevNode, name: str, path: Path, length: int) -> None:
    buffer = bytearray(BUFFER_BYTES)
    with urllib.request.urlopen(f"http://{node.http}/shards/0/segments/{name}") as answer, open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, length)
        left = length
        while left and (count := answer.readinto(buffer)):
            file.write(memoryview(buffer)[:count])
            left -= count
    assert left == 0, f"{name} ended {left} bytes early"


def verify(path: Path, length: int) -> None:
    view = PosixDisk().open(path).view()
    cells, at = np.frombuffer(view, np.uint8), 0
    while at + entry.WORD <= length and not entry.is_blank(view, at):
        header = entry.verified(view, cells, at)
        at += header.end - header.position
    assert at == length, f"{path} ends at {at}"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--gib", type=float, default=2.0, help="how long the log is (default: 2)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.directory) as name:
        rows = measure(Path(name), given.gib)
    show({"A new replica gets the log": rows}, as_json=given.json)


if __name__ == "__main__":
    main()
