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
    def __init__(self, events: Events, evidence: bool = True) -> None:
        self._events, self._evidence = events, evidence

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        self._events.append(f"strike {list(targets)}")
        return "seen"

    def heal(self, site: FaultSite) -> str:
        self._events.append("heal")
        if not self._evidence:
            raise NoEvidenceError("nothing was seen")
        return ""


class Cluster:
    """A cluster of three nodes, of which the second leads. The test says whether the nodes catch up after a fault."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self.is_whole = True
        self.nodes = (1, 2, 3)

    def leader(self) -> int:
        return 2

    def caught_up(self, within_s: float) -> None:
        self._events.append("whole" if self.is_whole else f"not whole within {within_s:g} s")
        if not self.is_whole:
            raise ChaosError("not yet")


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def cluster(events: Events) -> Cluster:
    return Cluster(events)


def struck(events: Events, cluster: Cluster, log: Path, *planned: Planned) -> list[str]:
    """Return the reasons for which faults do not count, one for each fault that struck."""

    def wait(seconds: float) -> None:
        if seconds >= 0.1:
            events.append(f"wait {seconds:.0f} s")

    everything = cast("Any", cluster)
    nemesis = Nemesis(everything, everything, cast("Any", SimpleNamespace()), log, lambda _: None, wait)
    return [each.void for each in nemesis.run(planned)]


def fault(events: Events, at_s: float, *, evidence: bool = True, takes_data: bool = False) -> Planned:
    def make() -> Fault:
        return Strike(events, evidence)

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
