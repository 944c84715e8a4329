"""Tests the command line with several shards: starting them, showing them, adding one, spreading queues, and
`--shard`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.local.processes import DevCluster
from tests.cluster.cli.command import run
from tests.cluster.ports import free_base_port

pytestmark = pytest.mark.real

SHARDS = 2


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("cli-shards")
    port = str(free_base_port(3))
    run("dev", "start", "--shards", str(SHARDS), "--base-port", port, cwd=directory)
    yield directory
    DevCluster(directory / "ledgermq-data").purge()


def answer(*arguments: str, cwd: Path) -> Any:
    return json.loads(run(*arguments, "--format", "json", cwd=cwd).stdout)


def test_a_cluster_of_shards_is_started_and_shown(directory: Path) -> None:
    nodes = answer("dev", "status", cwd=directory)["nodes"]
    assert all(sorted(node["leaders"]) == ["0", "1"] for node in nodes)
    rows = answer("cluster", "info", cwd=directory)["nodes"]
    assert sorted((row["node"], row["shard"]) for row in rows) == [
        (node, shard) for node in (1, 2, 3) for shard in (0, 1)
    ]
    refused = run("dev", "start", "--shards", "3", cwd=directory, status=1)
    assert b"was created with 2 shard(s)" in refused.stderr


def test_topics_shards_and_queues(directory: Path) -> None:
    run("topic", "create", "orders", "--queues", "2", cwd=directory)
    assert answer("cluster", "add-shard", cwd=directory) == {"shard": SHARDS}
    assert answer("topic", "alter", "orders", "--queues", "4", cwd=directory)["queues"] == 4
    assert answer("topic", "describe", "orders", cwd=directory)["shards"] == [0, 1, 2, 0]
    shown = run("topic", "describe", "orders", cwd=directory).stdout.decode().splitlines()[1:]
    assert [line.split()[1] for line in shown] == ["0", "1", "2", "0"]
    run("produce", "orders", cwd=directory, input=b"one\ntwo\nthree\n")
    read = run("consume", "orders", "--from", "earliest", "--count", "3", cwd=directory).stdout
    assert sorted(read.splitlines()) == [b"one", b"three", b"two"]
    fewer = run("topic", "alter", "orders", "--queues", "1", cwd=directory, status=1)
    assert b"queues cannot be removed: ask for more than 4" in fewer.stderr
    wrong = run("cluster", "add-shard", "--nodes", "1;2", cwd=directory, status=2)
    assert b"is not of the form 1,2,3" in wrong.stderr


def test_one_shard_or_all(directory: Path) -> None:
    run("cluster", "hold", "reader", cwd=directory)
    run("cluster", "hold", "other", "--shard", "1", cwd=directory)
    holds = answer("cluster", "holds", cwd=directory)["holds"]
    numbers = sorted(hold["shard"] for hold in holds if hold["name"] == "reader")
    assert numbers[:SHARDS] == [*range(SHARDS)]
    assert [hold["shard"] for hold in holds if hold["name"] == "other"] == [1]
    cut = answer("cluster", "trim", "--keep-bytes", "0", "--dry-run", cwd=directory)
    assert [each["shard"] for each in cut["by_shard"]] == numbers
    moved = answer("cluster", "transfer-leader", "--shard", "1", "--to", "3", cwd=directory)
    assert (moved["node"], moved["leader"]) == (3, 3)
    said = run("cluster", "transfer-leader", "--shard", "1", "--to", "1", cwd=directory).stderr
    assert b"Node 2 is its preferred leader and takes leadership back in about 4 s; --pin keeps it on node 1" in said
    pinned = answer("cluster", "transfer-leader", "--shard", "1", "--to", "3", "--pin", cwd=directory)
    assert (pinned["leader"], pinned["preferred_leader"], pinned["pinned_leader"]) == (3, 3, 3)
    shown = run("cluster", "info", cwd=directory).stdout
    assert [line.split()[0] for line in shown.splitlines() if b"leader, pinned" in line] == [b"3"]
    unknown = run("cluster", "transfer-leader", "--shard", "1", "--to", "9", "--pin", cwd=directory, status=1)
    assert b"node 9 is not a member of shard 1: its voters are 1, 2, 3" in unknown.stderr
    unpinned = run("cluster", "transfer-leader", "--shard", "1", "--unpin", cwd=directory).stderr
    assert b"Shard 1 has no pinned leader" in unpinned
    nowhere = run("cluster", "transfer-leader", "--shard", "9", cwd=directory, status=1)
    assert b"There is no shard 9" in nowhere.stderr
