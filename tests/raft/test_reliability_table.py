"""The tests and scenarios that docs/RELIABILITY.md names exist, and the table names every scenario."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
RAFT = TESTS / "raft"
TEXT = (TESTS.parent / "docs" / "RELIABILITY.md").read_text()


def place(name: str) -> Path:
    """Return the path of a test file. A name without a directory is in tests/raft; other names are relative to
    tests."""
    if "/" in name or name == "test_architecture.py":
        return TESTS / name.removeprefix("tests/")
    return RAFT / name


def missing(references: list[tuple[str, str]]) -> list[str]:
    """Return the pairs of file and test that do not exist."""
    return [
        f"{file}::{test}"
        for file, test in references
        if not place(file).exists()
        or (test and not re.search(rf"^ *(async )?def {test}\(", place(file).read_text(), re.M))
    ]


def test_every_test_that_is_named_exists() -> None:
    references = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", TEXT)
    assert len(references) > 100
    assert missing(references) == []


def test_the_scenarios_that_are_named_are_those_that_exist() -> None:
    named = set(re.findall(r"`(\w+\.txt)`", TEXT))
    assert sorted(named) == sorted(path.name for path in (RAFT / "scenarios").glob("*.txt"))


def test_what_does_not_exist_is_noticed() -> None:
    assert missing([("test_raft_flow.py", "test_nothing"), ("test_nowhere.py", "")]) == [
        "test_raft_flow.py::test_nothing",
        "test_nowhere.py::",
    ]
