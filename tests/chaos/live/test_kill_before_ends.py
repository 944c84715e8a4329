"""The fault that kills nodes between prepare and commit. There is no cluster: the test answers for it and sets the
clock."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.live.faults import ends
from chaos.live.faults.ends import KillBeforeEnds
from chaos.live.faults.fault import FaultSite, NoEvidenceError
from chaos.live.load.spec import ENDS_MS

START_MS = 900_000 * ENDS_MS


class Cluster:
    """A wall clock in ms, which passes only while the fault waits or counts half batches, and the nodes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, now_ms: int, waiting: list[int], slow_ms: int = 0) -> None:
        self.now_ms = float(START_MS + now_ms)
        # When nodes were killed, and when the half batches were counted, in ms after `START_MS`.
        self.killed: list[int] = []
        self.counted: list[int] = []
        self._waiting = waiting
        self._slow_ms = slow_ms
        monkeypatch.setattr(ends, "_wall_ms", lambda: round(self.now_ms))

    def strike(self, seed: int) -> str:
        environment, members = SimpleNamespace(kill=self._kill), SimpleNamespace(half_batches=self._count)
        site = FaultSite(cast("Any", environment), cast("Any", members), cast("Any", None), Random(seed), self._wait)
        return KillBeforeEnds().strike(site, [2])

    def _wait(self, seconds: float) -> None:
        assert seconds >= 0
        self.now_ms += 1000 * seconds

    def _kill(self, node: int) -> str:
        self.killed.append(round(self.now_ms) - START_MS)
        return f"node {node} was killed"

    def _count(self) -> int:
        self.counted.append(round(self.now_ms) - START_MS)
        self.now_ms += self._slow_ms
        return self._waiting.pop(0)


@pytest.mark.parametrize("now_ms", [0, 1, ENDS_MS - 801, ENDS_MS - 800])
@pytest.mark.parametrize("seed", range(10))
def test_it_kills_when_many_transactions_end(monkeypatch: pytest.MonkeyPatch, now_ms: int, seed: int) -> None:
    cluster = Cluster(monkeypatch, now_ms, [31])
    evidence = cluster.strike(seed)
    (at_ms,) = cluster.killed
    assert ENDS_MS - 30 <= at_ms <= ENDS_MS + 150
    assert cluster.counted == [ENDS_MS - 800]
    what = f"{at_ms - ENDS_MS:+d} ms from the end of many transactions; 31 half batches waited"
    assert evidence == f"node 2 was killed, {what}"


def test_it_takes_a_later_time_if_nothing_was_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, 0, [0, 7])
    assert "7 half batches" in cluster.strike(1)
    assert cluster.counted == [ENDS_MS - 800, 2 * ENDS_MS - 800]


@pytest.mark.parametrize(("waiting", "slow_ms"), [([0, 0, 0], 0), ([9, 9, 9], 1_000)])
def test_it_kills_nobody_without_evidence_in_time(
    monkeypatch: pytest.MonkeyPatch, waiting: list[int], slow_ms: int
) -> None:
    cluster = Cluster(monkeypatch, 0, waiting, slow_ms)
    with pytest.raises(NoEvidenceError, match="no transaction was prepared"):
        cluster.strike(1)
    assert cluster.killed == []
