"""`ledgermq chaos`: its output, and its messages about wrong input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from chaos.live import campaign
from chaos.live.command import chaos, expanded, run_command
from chaos.live.faults.catalogue import KINDS
from chaos.live.options import SHARDS_OF_MOVES, shards_for
from ledger.history import HistoryWriter, Operation
from tests.chaos.live.tell import end, send
from tests.chaos.live.written_run import OPTIONS


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(chaos, arguments, standalone_mode=False)


def history(path: Path, *operations: Operation) -> str:
    with HistoryWriter(path) as writer:
        for operation in operations:
            writer.write(operation)
    return str(path)


def test_all_faults_are_listed() -> None:
    told = invoke("list", "--json")
    assert [fault["name"] for fault in json.loads(told.stdout)] == list(KINDS)
    assert all(name in invoke("list").stdout for name in KINDS)


def test_an_unknown_fault_is_named() -> None:
    told = CliRunner().invoke(chaos, ["run", "--faults", "kill,earthquake"])
    assert told.exit_code == 2
    assert "unknown faults: earthquake" in told.stderr


def test_a_history_is_judged(tmp_path: Path) -> None:
    good = history(tmp_path / "good", send(0, 0), *end((0, 0)))
    assert invoke("check", good).return_value == 0
    bad = history(tmp_path / "bad", send(0, 0), send(1, 1), *end((0, 0)))
    told = invoke("check", bad, "--json")
    assert told.return_value == 1
    assert json.loads(told.stdout)["anomalies"]["lost"]["count"] == 1
    void = history(tmp_path / "void", send(0, 0))
    assert invoke("check", void).return_value == 2


def test_several_files_are_one_history(tmp_path: Path) -> None:
    files = [history(tmp_path / "clients", send(0, 0)), history(tmp_path / "readers", *end((0, 0)))]
    assert invoke("check", *files).return_value == 0


@pytest.mark.parametrize("content", ["nonsense\n", '{"op":"send"}\n'])
def test_what_is_no_history_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    told = invoke("check", str(path))
    assert told.return_value == 2
    assert f"{path}:1:" in told.stderr


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path) -> None:
    told = invoke("report", str(tmp_path))
    assert told.return_value == 2
    assert "is not the directory of a finished chaos run" in told.stderr


def test_a_campaign_needs_its_own_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_text("nonsense\n")
    told = invoke("campaign", "--ledger", str(path))
    assert told.return_value == 2
    assert "is not the ledger of a campaign" in told.stderr


def test_targets_have_the_names_that_are_shown() -> None:
    given = run_command.make_context("run", ["--targets", "leader", "--targets", "one"]).params
    assert given["targets"] == ("leader", "one")


def test_all_faults_are_those_that_a_cluster_survives() -> None:
    asynchronous, synchronous = (expanded(("all",), flush, 0.1, 0.05, 0.05) for flush in ("async", "sync"))
    assert set(KINDS) - set(synchronous) == {"stale-vote", "upgrade"}
    moving = {"drain", "set-replicas"}
    assert set(KINDS) - set(expanded(("all",), "sync", 0.1, 0.05, 0.05, "/old")) == {"stale-vote", *moving}
    assert set(synchronous) - set(expanded(("all",), "sync", 0.1, 0.05, 0.05, "", 1)) == moving  # nothing can move
    assert expanded(("all",), "sync", 0.1, 0.05, 0.05, "", 2) == synchronous
    assert set(synchronous) - set(asynchronous) == {"power-all"}
    assert set(asynchronous) - set(expanded(("all",), "async", 0, 0.05, 0.05)) == {"kill-when-due"}  # nothing is due
    assert set(asynchronous) - set(expanded(("all",), "async", 0.1, 0, 0.05)) == {"kill-before-ends"}
    assert set(asynchronous) - set(expanded(("all",), "async", 0.1, 0.05, 0)) == {"kill-under-leases"}
    assert expanded(("kill", "power-all"), "async", 0.1, 0.05, 0.05) == (
        "kill",
        "power-all",
    )  # which is refused, by name


def test_a_run_has_shards_for_its_faults() -> None:
    assert (shards_for(("kill", "membership")), shards_for(("kill", "drain"))) == (1, SHARDS_OF_MOVES)
    wish = replace(OPTIONS, faults=(), targets=())
    assert [run.shards for run in campaign.runs(("kill", "drain"), 1, wish, [])] == [1, SHARDS_OF_MOVES]


def test_a_variable_without_a_value_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="'LD_PRELOAD' is not a variable: give NAME=VALUE"):
        run_command.make_context("run", ["--node-env", "LD_PRELOAD"])
