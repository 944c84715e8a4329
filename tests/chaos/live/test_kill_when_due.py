"""The fault that kills nodes when messages are due. There is no cluster: the test answers for it and sets the clock."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.live.faults import due
from chaos.live.faults.due import KillWhenDue
from chaos.live.faults.fault import FaultSite, NoEvidenceError
from chaos.live.load.spec import SHARED_MS

START_MS = 900_000 * SHARED_MS


class Clock:
    """A wall clock in ms, which passes only while the fault waits."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = float(now_ms)

    def wait(self, seconds: float) -> None:
        assert seconds >= 0
        self.now_ms += 1000 * seconds


def strike(
    monkeypatch: pytest.MonkeyPatch, now_ms: int, waiting: int, seed: int = 1, answers_after_ms: Sequence[float] = ()
) -> tuple[str, list[int], int]:
    """Return the evidence, when nodes were killed, and before which time the waiting messages were counted, in ms after
    `START_MS`."""
    clock, killed, asked = Clock(START_MS + now_ms), list[int](), list[int]()
    monkeypatch.setattr(due, "_wall_ms", lambda: round(clock.now_ms))

    def kill(node: int) -> str:
        killed.append(round(clock.now_ms) - START_MS)
        return f"node {node} was killed"

    def count(before_ms: int) -> int:
        asked.append(before_ms - START_MS)
        clock.now_ms += answers_after_ms[len(asked) - 1] if answers_after_ms else 0
        return waiting

    environment = cast("Any", SimpleNamespace(kill=kill))
    members = cast("Any", SimpleNamespace(waiting=count))
    site = FaultSite(environment, members, cast("Any", None), Random(seed), clock.wait)
    fault = KillWhenDue()
    try:
        return fault.strike(site, [2]), killed, asked[0]
    except NoEvidenceError as error:
        return str(error), killed, asked[0]


@pytest.mark.parametrize("now_ms", [0, 1, SHARED_MS - 401, SHARED_MS - 400])
@pytest.mark.parametrize("seed", range(20))
def test_it_kills_when_the_next_messages_are_due(monkeypatch: pytest.MonkeyPatch, now_ms: int, seed: int) -> None:
    evidence, (at_ms,), counted_before = strike(monkeypatch, now_ms, 31, seed)
    assert SHARED_MS - 20 <= at_ms <= SHARED_MS + 120
    assert counted_before == SHARED_MS + 1
    assert evidence == f"node 2 was killed, {at_ms - SHARED_MS:+d} ms from the time of 31 waiting messages"


def test_it_takes_the_time_after_the_next_if_that_is_too_near(monkeypatch: pytest.MonkeyPatch) -> None:
    _, (at_ms,), _ = strike(monkeypatch, SHARED_MS - 399, 31)
    assert 2 * SHARED_MS - 20 <= at_ms <= 2 * SHARED_MS + 120


def test_it_kills_nobody_if_nothing_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence, killed, _ = strike(monkeypatch, 0, 0)
    assert evidence == "no message was due, or the nodes did not say so in time"
    assert killed == []


def test_it_takes_the_next_time_if_the_nodes_answer_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    _, (at_ms,), _ = strike(monkeypatch, 0, 31, answers_after_ms=[600, 50])
    assert 2 * SHARED_MS - 20 <= at_ms <= 2 * SHARED_MS + 120
    evidence, killed, _ = strike(monkeypatch, 0, 31, answers_after_ms=[600, 700, 800])
    assert (evidence[:18], killed) == ("no message was due", [])
