"""The order in which faults strike: one after the other, and none before the cluster is fit for it. There is none here:
the nemesis is told what one would say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.errors import ChaosError
from chaos.live.faults.fault import Fault, FaultSite, FaultTarget, LiveFaultKind, NoEvidenceError
from chaos.live.faults.plan import Planned
from chaos.live.nemesis import Nemesis


class Events(list[str]):
    """The events of a run, in order."""


class Strike:
    """A fault that is seen. `writes` are lines that node 2 writes into its log while the fault lasts."""

    def __init__(self, events: Events, evidence: bool = True, writes: str = "") -> None:
        self._events, self._evidence, self._writes = events, evidence, writes

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        self._events.append(f"strike {list(targets)}")
        with site.environment.log(2).open("a") as log:
            log.write(self._writes)
        return "seen"

    def heal(self, site: FaultSite) -> str:
        self._events.append("heal")
        if not self._evidence:
            raise NoEvidenceError("nothing was seen")
        return ""


class Cluster:
    """A cluster of three nodes, of which the second leads. The test says whether the nodes catch up after a fault."""

    def __init__(self, events: Events, directory: Path) -> None:
        self._events = events
        self._directory = directory
        self.is_whole = True
        self.nodes = (1, 2, 3)

    def leader(self) -> int:
        return 2

    def log(self, node: int) -> Path:
        return self._directory / f"log-of-node-{node}"

    def caught_up(self, within_s: float) -> None:
        self._events.append("whole" if self.is_whole else f"not whole within {within_s:g} s")
        if not self.is_whole:
            raise ChaosError("not yet")


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def cluster(events: Events, tmp_path: Path) -> Cluster:
    return Cluster(events, tmp_path)


def struck(events: Events, cluster: Cluster, log: Path, *planned: Planned) -> list[str]:
    """Return the reasons for which faults do not count, one for each fault that struck."""

    def wait(seconds: float) -> None:
        if seconds >= 0.1:
            events.append(f"wait {seconds:.0f} s")

    everything = cast("Any", cluster)
    nemesis = Nemesis(everything, everything, cast("Any", SimpleNamespace()), log, lambda _: None, wait)
    return [each.void for each in nemesis.run(planned)]


def fault(events: Events, at_s: float, *, evidence: bool = True, takes_data: bool = False, writes: str = "") -> Planned:
    def make() -> Fault:
        return Strike(events, evidence, writes)

    kind = LiveFaultKind("fault", "something", (FaultTarget.LEADER,), make, takes_data=takes_data)
    return Planned(at_s, kind, FaultTarget.LEADER, for_s=0.0, seed=1)


def test_a_cluster_that_is_whole_again_has_a_second_of_peace_though_the_next_fault_is_due(
    events: Events, cluster: Cluster, tmp_path: Path
) -> None:
    assert struck(events, cluster, tmp_path / "log", fault(events, 0), fault(events, 0)) == ["", ""]
    assert events == ["strike [2]", "heal", "whole", "wait 1 s", "strike [2]", "heal", "whole"]


def test_nothing_else_is_struck_before_lost_data_is_back(events: Events, cluster: Cluster, tmp_path: Path) -> None:
    cluster.is_whole = False
    assert struck(events, cluster, tmp_path / "log", fault(events, 0, takes_data=True), fault(events, 0)) == [""]
    assert events == ["strike [2]", "heal", "not whole within 120 s"]


def test_a_fault_without_evidence_is_healed_and_written_down_as_void(
    events: Events, cluster: Cluster, tmp_path: Path
) -> None:
    assert struck(events, cluster, tmp_path / "log", fault(events, 0, evidence=False)) == ["nothing was seen"]
    (line,) = (tmp_path / "log").read_text().splitlines()
    assert (json.loads(line)["void"], json.loads(line)["evidence"]) == ("nothing was seen", ["seen"])


def test_what_a_node_reports_about_damage_is_written_down_beside_the_fault(
    events: Events, cluster: Cluster, tmp_path: Path
) -> None:
    found = "the log of shard 0 is damaged: 00000 at position 9: the CRC does not match"
    cluster.log(2).write_text("2026-11-25T08:00:00Z [error] an older damage [ledgermq.node.startup_repair]\n")
    lines = [
        f"2026-11-25T09:00:00.1Z [error    ] {found} [ledgermq.node.startup_repair]",
        "2026-11-25T09:00:00.2Z [warning  ] the clock has leapt [ledgermq.node.clock]",
        "2026-11-25T09:00:00.3Z [warning  ] shard 0: entries 3 to 5 are repaired [ledgermq.node.startup_repair]",
        "2026-11-25T09:00:00.4Z [info     ] shard 0: opened a log [ledgermq.node.shard]",
    ]
    planned = fault(events, 0, takes_data=True, writes="\n".join(lines) + "\n")
    assert struck(events, cluster, tmp_path / "log", planned) == [""]
    (line,) = (tmp_path / "log").read_text().splitlines()
    *told, last = json.loads(line)["repairs"]
    assert told == [f"node 2: {found}", "node 2: shard 0: entries 3 to 5 are repaired"]
    assert last.startswith("all nodes had the same log ")
    assert json.loads(line)["leader"] == 2
