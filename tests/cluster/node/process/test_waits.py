"""Regular waits of a node end together."""

from __future__ import annotations

import asyncio

import pytest

from cluster.node.process.waits import GRID_S, shared_wait_s

EARLY_S = 0.002


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.25, 0.499])
@pytest.mark.parametrize("wait_s", [0.5, 0.7, 1.0, 10.0])
async def test_a_shared_wait_ends_at_the_grid_and_is_not_longer(
    after_s: float, wait_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1000 + after_s
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now_s)
    shared_s = shared_wait_s(wait_s)
    end = (now_s + shared_s) / GRID_S
    assert end == pytest.approx(round(end))
    assert max(0.0, wait_s - GRID_S) <= shared_s <= wait_s + EARLY_S


async def test_waits_that_begin_at_the_grid_keep_their_length(monkeypatch: pytest.MonkeyPatch) -> None:
    for late_s in (-0.0005, 0.0, 0.002):  # a timer of the loop may be a little early or late
        now_s = 1000.5 + late_s
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda now_s=now_s: now_s)
        assert shared_wait_s(0.5) == pytest.approx(0.5 - late_s)


async def test_short_waits_stay_as_they_are() -> None:
    assert shared_wait_s(0.25) == 0.25
    assert shared_wait_s(0.001) == 0.001
