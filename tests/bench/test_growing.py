"""Curves of growing work: cliffs and slopes are found, and the page has every figure."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.growing.curve import GrowthCurve, GrowthPoint
from bench.growing.page import GrowingResults, table, write
from bench.growing.scale import QUICK
from bench.run_growing import resized
from bench.suite.rows import SuiteRun


def curve(*points: tuple[float, float, float]) -> GrowthCurve:
    return GrowthCurve(
        "Queues",
        "queues",
        {"rate": "messages/s", "memory": "MB"},
        ("rate",),
        "memory",
        [GrowthPoint(size, {"rate": rate, "memory": memory}) for size, rate, memory in points],
    )


def test_a_steady_fall_is_no_cliff() -> None:
    cliff, memory = curve((4, 100, 80), (40, 60, 81), (400, 40, 100)).rows()
    assert cliff.met
    assert cliff.reached == "0.60 at 40 queues"
    assert memory.met is None
    assert memory.reached == "50.5 kB for each of 400 queues"


def test_a_fall_between_two_sizes_is_a_cliff() -> None:
    cliff, _ = curve((4, 100, 80), (40, 100, 81), (400, 49, 100)).rows()
    assert cliff.met is False
    assert cliff.reached == "0.49 at 400 queues"


def test_one_point_is_judged_by_nothing() -> None:
    assert curve((4, 100, 80)).rows() == []
    assert curve().rows() == []


def test_the_table_has_a_line_for_each_size() -> None:
    heads, lines = table(curve((4, 123456.7, 80.25), (0.5, 7, 81)))
    assert heads == ["queues", "rate, messages/s", "memory, MB"]
    assert lines == [["4", "123,457", "80.25"], ["0.50", "7", "81"]]


def test_sizes_of_the_command_line_replace_those_of_the_scale() -> None:
    scale = resized(QUICK, [1, 4], [9])
    assert (scale.connections, scale.queues, scale.log_gib, scale.shards) == ((1, 4), (1, 4), (1, 4), ((9, (1, 4)),))
    assert resized(QUICK, None, None) == QUICK


@pytest.mark.real
def test_the_page_has_every_curve_and_failure(tmp_path: Path) -> None:
    found = curve((4, 100, 80), (40, 49, 81))
    found.failures.append("at 400 queues it <ended>")
    results = GrowingResults(
        "2026-11-26", "quick", {"cores": "2"}, 60.0, {"queues": [found]}, [SuiteRun("bulk", "ledgermq bench", {})]
    )
    page = write(results, tmp_path / "out").read_text()
    assert "0 of 1 targets met" in page
    assert "<svg" in page
    for text in ("0.49 at 40 queues", "at 400 queues it &lt;ended&gt;", "ledgermq bench", "rate, messages/s"):
        assert text in page
