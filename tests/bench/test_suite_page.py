"""The page of `make bench` has every row with its result and every run with its command; the JSON has the same
figures.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.suite.machine import machine
from bench.suite.page import SuiteResults, write
from bench.suite.rows import Pair, SuiteChapter, SuiteRun, TargetRow, verdict
from bench.suite.stage import cpu_us_per_record

ROWS = [
    TargetRow("send_many <128 B>", "≥ 0.5", "0.61", True),
    TargetRow("one in flight", "≤ 1.6 ×", "4.2 ×", False, "a note"),
    TargetRow("told", "-", "7", None),
]
PAIRS = [Pair("64 KiB", 60.0, 120.0, 0.5, least=0.4), Pair("100 consumers", 9e5, 1e6, 0.9, unit="records/s")]


@pytest.fixture
def told() -> SuiteResults:
    runs = [SuiteRun("send_many", "ledgermq bench produce --json", {"records_per_s": 12345.6, "latency_p99_ms": 7.25})]
    return SuiteResults(
        "2026-11-21", "quick", 90.0, machine(), [SuiteChapter("Produce", ROWS, PAIRS)], runs, ["e2e: it <failed>"]
    )


def test_only_what_was_promised_is_judged() -> None:
    assert verdict(ROWS) == "1 of 2 targets met"


@pytest.mark.real
def test_the_page_has_every_row_run_and_failure(told: SuiteResults, tmp_path: Path) -> None:
    page = write(told, tmp_path / "out").read_text()
    assert "1 of 2 targets met" in page
    assert "send_many &lt;128 B&gt;" in page
    assert page.count('class="met"') == 1
    assert page.count('class="not"') == 2, "a row, and a failure"
    for text in ("a note", "ledgermq bench produce --json", "12,345.60", "e2e: it &lt;failed&gt;", "grpcio"):
        assert text in page
    assert page.count("<svg") == 2, "a picture for each unit"
    assert "http://" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    ), "nothing is loaded"


@pytest.mark.real
def test_the_figures_are_there_as_json(told: SuiteResults, tmp_path: Path) -> None:
    write(told, tmp_path)
    found = json.loads((tmp_path / "results.json").read_text())
    assert [row["met"] for row in found["parts"][0]["rows"]] == [True, False, None]
    assert found["runs"][0]["figures"]["latency_p99_ms"] == 7.25
    assert found["machine"]["Python"]


def test_cpu_time_for_each_record_counts_the_nodes_warm_up_and_not_the_client_s() -> None:
    figures = {"records": 900, "warm_up_records": 100, "client_cpu_s": 0.9}
    assert cpu_us_per_record(figures, nodes_cpu_s=2.0) == pytest.approx(1000 + 2000)
    assert cpu_us_per_record({"records": 0, "warm_up_records": 0, "client_cpu_s": 0.0}, 0.0) == 0
