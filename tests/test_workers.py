"""The tests' groups: their paths are there, and what belongs together is one group."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workers import GROUPS, SPLIT, group_of, start_order

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("path", [*SPLIT, *(place for places in GROUPS.values() for place in places)])
def test_every_path_is_there(path: str) -> None:
    assert (ROOT / path).exists()


def test_a_file_is_a_group() -> None:
    assert group_of("tests/raft/test_streams.py::test_one[a::b]") == "tests/raft/test_streams.py"


def test_files_that_share_something_are_one_group() -> None:
    spark = {group_of(f"tests/ledger/spark/{file}.py::test") for file in ("test_sink", "test_session")}
    assert spark == {"Spark"}


def test_a_split_file_is_many_groups_which_start_last() -> None:
    one, other = (f"{SPLIT[0]}::test_{name}" for name in ("one", "other"))
    assert group_of(one) != group_of(other)
    assert start_order("tests/ledger/spark/test_sink.py::test") < start_order("tests/a.py::test") < start_order(one)
