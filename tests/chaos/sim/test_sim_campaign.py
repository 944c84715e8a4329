"""Tests campaigns of many seeds: several processes, totals, the ledger file, and resuming a campaign."""

from __future__ import annotations

import gc
import json
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.sim.campaign.campaign import LEAST_TRIES, Totals, run_seeds
from chaos.sim.campaign.ledger_file import LedgerFile, OtherCampaignError, commit_of_code
from chaos.sim.campaign.run import SeedReport, run
from chaos.sim.campaign.swarm import Wishes

pytestmark = pytest.mark.long

WISHES = Wishes(minutes=0.2, nodes=3)


@pytest.fixture(scope="module")
def reports() -> list[SeedReport]:
    return [run(seed, WISHES) for seed in (1, 2, 3)]


def test_several_processes_find_what_one_finds(reports: list[SeedReport]) -> None:
    assert sorted(run_seeds([1, 2, 3], WISHES, jobs=2), key=lambda report: report.seed) == reports
    assert list(run_seeds([1, 2, 3], WISHES, jobs=1)) == reports


def test_a_campaign_that_is_left_early_runs_nothing_more() -> None:
    endless = run_seeds(iter(range(1, 1_000_000)), WISHES, jobs=2)
    next(endless)
    endless.close()


def test_the_code_takes_no_part_in_the_garbage_collections_of_a_campaign() -> None:
    """Each run begins with a collection. After the campaign, everything takes part again."""
    was_frozen = gc.get_freeze_count()  # a worker of the tests leaves out the code of the tests
    gc.unfreeze()
    try:
        reports = run_seeds([1, 2], Wishes(minutes=0.02), jobs=1)
        next(reports)
        assert gc.get_freeze_count() > 0
        assert len([*reports]) == 1
        assert gc.get_freeze_count() == 0
    finally:
        if was_frozen:
            gc.freeze()


def test_totals_add_up_and_tell_what_failed_or_never_happened(reports: list[SeedReport]) -> None:
    totals = Totals()
    for report in reports:
        totals.add(report)
    assert totals.passed
    assert totals.figures["acknowledged"] == sum(report.figures["acknowledged"] for report in reports)
    assert totals.hours == sum(report.simulated_ms for report in reports) / 3_600_000
    never = replace(reports[0], scheduled={"wipe": LEAST_TRIES}, happened={})
    totals.add(never)
    assert totals.never_happened == ["wipe"]
    assert not totals.passed


def test_a_campaign_without_seeds_or_with_a_failure_does_not_pass(reports: list[SeedReport]) -> None:
    totals = Totals()
    assert not totals.passed
    totals.add(replace(reports[0], passed=False, missing=("no node leads",)))
    assert [report.seed for report in totals.failures] == [1]
    assert not totals.passed


def test_the_ledger_gives_back_what_was_added(tmp_path: Path, reports: list[SeedReport]) -> None:
    path = tmp_path / "ledger.jsonl"
    first = LedgerFile(path, WISHES, "abc")
    assert first.begin() == []
    for report in reports[:2]:
        first.add(report)
    again = LedgerFile(path, WISHES, "abc")
    assert again.begin() == reports[:2]
    again.add(reports[2])
    assert LedgerFile(path, WISHES, "abc").begin() == reports
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line.get("commit") for line in lines if "campaign" in line] == ["abc"] * 3


def test_what_another_commit_has_run_does_not_count(tmp_path: Path, reports: list[SeedReport]) -> None:
    path = tmp_path / "ledger.jsonl"
    old = LedgerFile(path, WISHES, "old")
    old.begin()
    old.add(reports[0])
    new = LedgerFile(path, WISHES, "new")
    assert new.begin() == []
    new.add(reports[1])
    assert LedgerFile(path, WISHES, "new").begin() == [reports[1]]


def test_a_line_that_was_cut_short_is_passed_over(tmp_path: Path, reports: list[SeedReport]) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = LedgerFile(path, WISHES, "abc")
    ledger.begin()
    ledger.add(reports[0])
    with open(path, "a") as file:
        file.write('{"seed": 2, "pas')
    again = LedgerFile(path, WISHES, "abc")
    assert again.begin() == [reports[0]]
    again.add(reports[2])
    assert LedgerFile(path, WISHES, "abc").begin() == [reports[0], reports[2]]


def test_the_ledger_of_another_campaign_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    LedgerFile(path, WISHES, "abc").begin()
    with pytest.raises(OtherCampaignError, match="another campaign"):
        LedgerFile(path, replace(WISHES, nodes=5), "abc").begin()


@pytest.mark.real
def test_the_commit_is_told() -> None:
    assert commit_of_code()
