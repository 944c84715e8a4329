"""What `chaos run` is given on the command line."""

from __future__ import annotations

import click
import pytest

from chaos.command import run_command


def test_targets_have_the_names_that_are_shown() -> None:
    given = run_command.make_context("run", ["--targets", "leader", "--targets", "one"]).params
    assert given["targets"] == ("leader", "one")


def test_all_faults_are_those_that_a_cluster_survives() -> None:
    faults = run_command.make_context("run", ["--faults", "all"]).params["faults"]
    assert "kill" in faults
    assert "stale-vote" not in faults


def test_a_variable_without_a_value_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="'LD_PRELOAD' is no variable: give NAME=VALUE"):
        run_command.make_context("run", ["--node-env", "LD_PRELOAD"])
