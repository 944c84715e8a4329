"""The faults that move replicas. There is no cluster: the test answers for it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.errors import ChaosError
from chaos.live.faults import moves
from chaos.live.faults.fault import Fault, FaultSite, NoEvidenceError
from ledger.client.placement_records import Placement, PlacementMove, PlacementNode, PlacementReplica, PlacementShard

SHARDS = 2


class Cluster:
    """A cluster of two shards. Each wish is one move, which ends after `looks` looks. While the leader of shard 0 is
    down, no move ends."""

    def __init__(self, nodes: int, looks: int = 3) -> None:
        self.setup = SimpleNamespace(settings={"shards": SHARDS})
        self.nodes = list(range(1, nodes + 1))
        self.replicas = {0: set(self.nodes), 1: {1, 2, 3}}
        self.looks = looks
        self.down: set[int] = set()
        self.events: list[str] = []
        self.answers = list(range(SHARDS))
        self._wish: Callable[[], None] | None = None
        self._left = 0
        self._wanted = 3

    def pid(self, node: int) -> int | None:
        return None if node in self.down else 1

    def kill(self, node: int) -> str:
        self.events.append("kill")
        self.down.add(node)
        return f"node {node} was killed"

    def start(self, node: int) -> str:
        self.events.append("start")
        self.down.discard(node)
        return f"node {node} was started"

    def address(self, node: int) -> str:
        return f"host-{node}:1"

    def add(self, node: int = 0, address: str = "", shard: int | None = None) -> int:
        """Both the environment and the members have a method of this name."""
        if not node:
            self.nodes.append(len(self.nodes) + 1)
            return self.nodes[-1]
        assert shard == 0
        self.replicas[0].add(node)
        self.events.append(f"add {node}")
        return 0

    def leader(self) -> int:
        return 1

    def placement(self) -> Placement:
        if self._wish is not None and not self.down:
            self._left -= 1
            if self._left <= 0:
                self._wish()
                self._wish = None
        moves = (PlacementMove(1, 4, 2, "drain", 0, 0, ""),) if self._wish is not None else ()
        return Placement(
            replicas=self._wanted,
            replicas_set=False,
            paused=False,
            balancing=False,
            nodes=tuple(PlacementNode(node, "", 0, False, False, False) for node in sorted(self.replicas[0])),
            shards=tuple(
                PlacementShard(
                    shard,
                    1,
                    0,
                    self._wanted,
                    tuple(PlacementReplica(node, True, True, 0) for node in sorted(self.replicas[shard])),
                )
                for shard in self.answers
            ),
            moves=moves,
            balance=(),
            leader_changes=0,
            obstacles=(),
        )

    def drain(self, node: int) -> None:
        self._wants(f"drain {node}", lambda: self._replace(node, 4))

    def _replace(self, node: int, other: int) -> None:
        self.replicas[1] = self.replicas[1] - {node} | {other}

    def stop_draining(self, node: int) -> None:
        self.events.append(f"stop draining {node}")

    def rebalance(self) -> None:
        self._wants("rebalance", lambda: None)

    def set_replicas(self, replicas: int) -> None:
        self._wanted = replicas
        self._wants(f"replicas {replicas}", lambda: self.replicas.update({1: set(range(1, replicas + 1))}))

    def _wants(self, what: str, wish: Callable[[], None]) -> None:
        self.events.append(what)
        self._wish, self._left = wish, self.looks


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("_BEGIN_S", "_MOVES_S"):
        monkeypatch.setattr(moves, limit, 0.2)
    monkeypatch.setattr(moves, "_MOVE_S", 0.0)


def site_of(cluster: Cluster) -> FaultSite:
    return FaultSite(cast("Any", cluster), cast("Any", cluster), cast("Any", None), Random(1), lambda seconds: None)


def struck(fault: Fault, cluster: Cluster, *targets: int) -> list[str]:
    site = site_of(cluster)
    return [fault.strike(site, targets), fault.heal(site)]


def test_a_node_is_drained_through_the_kill_of_the_leader_of_shard_0() -> None:
    cluster = Cluster(4, looks=4)
    evidence = struck(moves.Drain(), cluster, 2)
    assert cluster.events == ["drain 2", "kill", "start", "stop draining 2", "rebalance"]
    assert evidence[0].startswith("node 2 was drained of 1 replica in ")
    assert evidence[0].endswith("node 1 was killed, as the leader of shard 0, with 1 move under way")
    assert evidence[1] == "the drain ended, and the replicas were balanced"


def test_a_cluster_without_a_spare_node_gets_one() -> None:
    cluster = Cluster(3, looks=4)
    struck(moves.Drain(), cluster, 2)
    assert cluster.events[:2] == ["add 4", "drain 2"]


def test_each_shard_gets_a_replica_and_loses_it_again() -> None:
    cluster = Cluster(4, looks=4)
    evidence = struck(moves.MoreReplicas(), cluster, 1, 2, 3, 4)
    assert cluster.events == ["replicas 4", "kill", "start", "replicas 3"]
    assert evidence[0].startswith("each shard got 4 replicas in ")
    assert evidence[1] == "each shard has 3 replicas again"


def test_a_node_without_replicas_cannot_be_drained() -> None:
    with pytest.raises(NoEvidenceError, match="node 4 has no replicas except that of shard 0"):
        struck(moves.Drain(), Cluster(4), 4)


def test_moves_that_ended_before_the_kill_are_no_evidence() -> None:
    cluster = Cluster(4, looks=2)
    with pytest.raises(NoEvidenceError, match="ended before the leader of shard 0 could be killed"):
        struck(moves.Drain(), cluster, 2)
    assert "kill" not in cluster.events


def test_a_drain_that_does_not_end_fails_the_run_and_every_node_runs_again() -> None:
    cluster, fault = Cluster(4, looks=10**9), moves.Drain()
    site = site_of(cluster)
    with pytest.raises(ChaosError, match=r"node 2 was drained.* Moves: shard 1 from node 2 to node 4"):
        fault.strike(site, [2])
    with pytest.raises(ChaosError, match="not balanced"):
        fault.heal(site)
    assert cluster.down == set()
    assert cluster.events[-2:] == ["stop draining 2", "rebalance"]


def test_a_shard_whose_leader_does_not_answer_may_still_have_a_replica_on_the_node() -> None:
    cluster = Cluster(4, looks=4)
    cluster.placement()
    fault, site = moves.Drain(), site_of(cluster)
    cluster.kill = lambda node: cluster.answers.remove(1) or "killed"  # type: ignore[method-assign, func-returns-value]
    with pytest.raises(ChaosError, match="node 2 was drained"):
        fault.strike(site, [2])
