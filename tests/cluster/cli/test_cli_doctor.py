"""Tests `ledgermq doctor` on real clusters: a healthy one, one with a lag and a killed node, and one without a
majority."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.cli.doctor.observation import observe
from cluster.local.processes import DevCluster
from tests.cluster.cli.command import run
from tests.cluster.waiter import blocking_eventually

pytestmark = pytest.mark.real

MakeCluster = Callable[..., DevCluster]


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[MakeCluster]:
    cluster = DevCluster(tmp_path / "ledgermq-data")

    def make(nodes: int, **options: Any) -> DevCluster:
        cluster.start(nodes, base_port=random.randrange(20_000, 32_000, 10), **options)
        return cluster

    yield make
    cluster.purge()


def examined(directory: Path, *options: str, status: int) -> list[tuple[str, str]]:
    """Run the doctor, and return the urgency and the code of each finding. Text and JSON say the same."""
    told = json.loads(run("doctor", "--format", "json", *options, cwd=directory, status=status).stdout)
    assert told["healthy"] == (status == 0)
    text = run("doctor", *options, cwd=directory, status=status).stdout.decode()
    for finding in told["findings"]:
        assert finding["command"] in text
    return [(finding["urgency"], finding["code"]) for finding in told["findings"]]


def test_a_cluster_falls_ill(make_cluster: MakeCluster, tmp_path: Path) -> None:
    cluster = make_cluster(3)
    run("topic", "create", "orders", cwd=tmp_path)
    # A new cluster raises its feature level by itself, a little after its first election.
    blocking_eventually(
        lambda: not json.loads(run("doctor", "--format", "json", cwd=tmp_path).stdout)["findings"], "nothing is wrong"
    )
    assert examined(tmp_path, status=0) == []
    assert b"Nothing is wrong: 3 nodes, 1 shard, 0 consumer groups." in run("doctor", cwd=tmp_path).stderr

    run("produce", "orders", "--queue", "0", cwd=tmp_path, input=b"1\n2\n")
    run("consume", "orders", "--group", "billing", "--count", "1", cwd=tmp_path)
    assert examined(tmp_path, status=1) == [("warning", "group-without-members")]
    told = run("doctor", cwd=tmp_path, status=1)
    assert b"consumer group billing has no members, and 1 message wait" in told.stdout
    assert b"ledgermq group describe billing" in told.stdout
    assert b"0 critical, 1 warning" in told.stderr

    follower, other = (state.id for state in cluster.status() if state.role == "follower")
    cluster.kill(follower)
    assert examined(tmp_path, status=1) == [("warning", "unreachable"), ("warning", "group-without-members")]

    cluster.kill(other)
    cluster.kill(cluster.leader())
    assert examined(tmp_path, "--bootstrap", cluster.bootstrap, status=1) == [("critical", "no-node-answers")]

    run("dev", "start", cwd=tmp_path)
    cluster.kill(cluster.leader())
    survivors = [state.id for state in cluster.status() if state.pid is not None]
    cluster.kill(survivors[0])
    found = examined(tmp_path, status=1)
    assert found[0] == ("critical", "no-leader")
    assert found.count(("warning", "unreachable")) == 2


def test_the_certificates_of_a_secured_cluster(
    make_cluster: MakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = make_cluster(1, secure=True)
    assert examined(tmp_path, status=0) == []
    monkeypatch.setenv("LEDGERMQ_PROFILE_FILE", str(cluster.credentials.profiles))
    seen = asyncio.run(observe(cluster.bootstrap))
    assert seen.unanswered == ()
    assert seen.figures[1].disk_use is not None or seen.figures[1].flushes >= 0
    assert seen.certificates[1].ends is not None
