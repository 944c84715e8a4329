"""Tests that the planted faults of the deployed system fit the code, and that one of them is caught by a chaos run.

`make gates` runs all planted faults, which takes minutes.
"""

from __future__ import annotations

import ast
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.gates.open_gates import open_gate
from tests.gates.red_gates import Gate, gates, planted
from tests.mutants.catalogue import ROOT
from tests.mutants.typed import TypedCopy

IN_CI = os.environ.get("CI") == "true"
missing = [program for program in ("ip", "nsenter", "iptables") if shutil.which(program) is None]
# Without transactions: the fault also gives some of them two outcomes, and such a run may end before a message is lost.
SHORT = ("--faults", "partition-leader", "--seconds", "14", "--rate", "200", "--transactions", "0")


def test_there_are_enough() -> None:
    assert len(gates()) >= 6
    assert all("--faults" in gate.options for gate in gates())


@pytest.mark.parametrize("gate", [gate for gate in gates() if gate.plant.changes], ids=lambda gate: gate.name)
def test_a_plant_fits_the_code_and_changes_it(gate: Gate, tmp_path: Path) -> None:
    assert f"PYTHONPATH={tmp_path}" in planted(gate, tmp_path)
    for change in gate.plant.changes:
        code = (tmp_path / change.file).read_text()
        ast.parse(code)
        assert code != (ROOT / change.file).read_text()


@pytest.fixture(scope="module")
def typed_copy(tmp_path_factory: pytest.TempPathFactory) -> TypedCopy:
    return TypedCopy(tmp_path_factory.mktemp("gates"))


@pytest.mark.real
@pytest.mark.parametrize("gate", [gate for gate in gates() if gate.plant.changes], ids=lambda gate: gate.name)
def test_a_plant_names_only_what_exists(gate: Gate, typed_copy: TypedCopy) -> None:
    assert typed_copy.errors(gate.plant) == ""


@pytest.mark.real
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
@pytest.mark.skipif(bool(missing) and not IN_CI, reason=f"not installed: {', '.join(missing)}")
def test_an_acknowledgement_before_a_majority_is_caught() -> None:
    (gate,) = (gate for gate in gates() if gate.name == "acknowledge before a majority")
    opened = open_gate(replace(gate, options=SHORT), tries=5)
    assert "lost" in opened.judged.anomalies, opened
