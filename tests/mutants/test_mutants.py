"""Checks that the planted faults still fit the code. `make mutants` checks that the simulator finds these faults."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.catalogue import ROOT, Change, Mutant, StaleMutantError, mutants, plant, read
from tests.mutants.typed import TypedCopy


def copied(mutant: Mutant, directory: Path) -> None:
    for change in mutant.changes:
        target = directory / change.file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text((ROOT / change.file).read_text())


def test_there_are_enough() -> None:
    assert len(mutants()) >= 58
    assert {mutant.world for mutant in mutants()} == {"protocol", "stack", "scale"}


def test_a_mutant_has_options_and_a_hole_if_its_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a_door_left_open.txt"
    path.write_text("# why\nworld: stack\noptions: --minutes 1 --faults kill\nhole: no run\nin a.py\n-a\n+b\n")
    assert read(path) == Mutant(
        "a door left open", "stack", (Change("a.py", "a\n", "b\n"),), ("--minutes", "1", "--faults", "kill"), "no run"
    )
    path.write_text("# why\nin a.py\n-a\n+b\n")
    assert read(path) == Mutant("a door left open", "protocol", (Change("a.py", "a\n", "b\n"),), ("--minutes", "5"))


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name)
def test_a_mutant_fits_the_code_and_changes_it(mutant: Mutant, tmp_path: Path) -> None:
    copied(mutant, tmp_path)
    plant(mutant, tmp_path)
    for change in mutant.changes:
        planted = (tmp_path / change.file).read_text()
        ast.parse(planted)
        assert planted != (ROOT / change.file).read_text()


@pytest.fixture(scope="module")
def typed_copy(tmp_path_factory: pytest.TempPathFactory) -> TypedCopy:
    return TypedCopy(tmp_path_factory.mktemp("mutants"))


@pytest.mark.real
@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name)
def test_a_mutant_names_only_what_exists(mutant: Mutant, typed_copy: TypedCopy) -> None:
    assert typed_copy.errors(mutant) == ""


@pytest.mark.real
def test_a_mutant_that_names_a_missing_attribute_is_noticed(typed_copy: TypedCopy) -> None:
    change = Change("raft/core/leader.py", "from __future__ import annotations\n", "import raft.core.nowhere\n")
    assert "nowhere" in typed_copy.errors(Mutant("names nothing", "protocol", (change,)))


def test_a_mutant_that_does_not_fit_is_noticed(tmp_path: Path) -> None:
    mutant = mutants()[0]
    copied(mutant, tmp_path)
    (tmp_path / mutant.changes[0].file).write_text("something else\n")
    with pytest.raises(StaleMutantError):
        plant(mutant, tmp_path)
