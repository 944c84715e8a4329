"""What a node notices about its own wall clock, and about the clocks of voters."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter

from cluster.node.process.clock_watch import LOOKS, TELL_EVERY, ClockWatch, WrongClocks
from raft.cluster_clock import TOLERANCE_MS

DAY_MS = 86_400_000


@dataclass
class Clocks:
    """The clocks of a node, and what its shard knows about the clocks of voters."""

    wall: int = 1_700_000_000_000
    steady: float = 5_000
    offsets: dict[int, int] = field(default_factory=dict)

    def pass_ms(self, ms: int) -> None:
        self.wall += ms
        self.steady += ms

    def watch(self) -> tuple[ClockWatch, Counter]:
        leaps = Counter("leaps", "Leaps.", registry=CollectorRegistry())
        runtime: Any = SimpleNamespace(now_ms=lambda: self.wall, monotonic_ms=lambda: self.steady, shared_wait_s=float)
        replica: Any = SimpleNamespace(driver=self)
        return ClockWatch([replica], runtime, leaps), leaps

    @property
    def clock_offsets_ms(self) -> dict[int, int]:
        return self.offsets


def count(leaps: Counter) -> float:
    return next(sample.value for metric in leaps.collect() for sample in metric.samples if sample.name == "leaps_total")


def test_a_leap_is_logged_and_counted_once(caplog: pytest.LogCaptureFixture) -> None:
    clocks = Clocks()
    watch, leaps = clocks.watch()
    for leap in (0, DAY_MS, 0, 900, -DAY_MS, 0):
        clocks.pass_ms(1_000)
        clocks.wall += leap
        watch.look()
    assert count(leaps) == 2
    assert [record.getMessage() for record in caplog.records] == [
        "the wall clock of this node has leapt by +86400.0 s against its steady clock",
        "the wall clock of this node has leapt by -86400.0 s against its steady clock",
    ]


def test_a_wrong_clock_is_logged_when_it_stays_wrong_and_then_rarely(caplog: pytest.LogCaptureFixture) -> None:
    clocks = Clocks()
    watch, _ = clocks.watch()
    clocks.offsets = {1: 0, 2: -DAY_MS, 3: 200}
    for _ in range(LOOKS + TELL_EVERY):
        watch.look()
    (first, second) = [record.getMessage() for record in caplog.records]
    assert first == second
    assert first.startswith("node 2: its wall clock is 86,400.0 s behind the clocks of most voters")


def test_a_clock_that_is_right_again_begins_anew() -> None:
    wrong = WrongClocks()
    for _ in range(3):
        for _ in range(LOOKS - 1):
            assert wrong.look({2: TOLERANCE_MS + 1}) == []
        assert wrong.look({2: TOLERANCE_MS}) == []
    for _ in range(LOOKS - 1):
        assert wrong.look({2: -TOLERANCE_MS - 1}) == []
    assert wrong.look({2: -TOLERANCE_MS - 1}) == [2]
