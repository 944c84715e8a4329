"""Scenarios as text files with their expected output: scenarios/*.txt.

A file is a sequence of blocks. Each block has lines of commands, a line `----`, and the expected output. A line with #
is a comment. story.py describes the commands. The following command writes the expected output anew. Check each
difference by hand before you commit it. CI never uses this command:

    LEDGERMQ_REWRITE_SCENARIOS=1 python -m pytest tests/raft/test_raft_scenarios.py
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.raft.message_text import parse
from tests.raft.network import describe
from tests.raft.story import Story

SCENARIOS = Path(__file__).parent / "scenarios"
REWRITE = bool(os.environ.get("LEDGERMQ_REWRITE_SCENARIOS"))


def play(text: str) -> str:
    """Return the text of the scenario with the real output in place of the expected output."""
    story, lines, happened, expecting = Story(), [], list[str](), False
    for line in text.splitlines():
        if expecting and line.strip():
            continue
        if line == "----":
            expecting = True
            lines += [line, *happened]
            happened = []
            continue
        if line and not line.startswith("#"):
            happened += story.command(line)
        expecting = False
        lines.append(line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.txt")), ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    expected = path.read_text()
    happened = play(expected)
    if REWRITE:
        path.write_text(happened)
    assert happened == expected or REWRITE


def test_there_are_scenarios_and_all_of_them_expect_something() -> None:
    texts = [path.read_text() for path in SCENARIOS.glob("*.txt")]
    assert len(texts) >= 8
    assert all(re.search(r"^----\n\S", text, re.MULTILINE) for text in texts)


def test_a_scenario_notices_a_difference() -> None:
    text = "nodes 1\ntick 1 10\n----\n1 is leader in term 9\n"
    assert "1 is leader in term 1\n" in play(text)


@pytest.mark.parametrize(
    "line",
    [
        "1->2 vote? term 3, log 4/2",
        "1->2 pre-vote? term 3, log 4/2",
        "1->2 vote? term 3, log 4/2, by transfer",
        "2->1 vote yes, term 3",
        "2->1 pre-vote no, term 3",
        "1->2 heartbeat 5, term 3, commit 4",
        "2->1 heard 5, term 3",
        "1->2 stand now, term 3",
        "1->2 append 5..6 after 4/2, term 3, commit 4",
        "1->2 append nothing after 4/2, term 3, commit 4",
        "2->1 holds 6, term 3",
        "2->1 not at 6, try 4/2, term 3",
        "2->1 has committed 4/2, term 3",
    ],
)
def test_a_message_that_is_made_by_hand_reads_as_it_was_written(line: str) -> None:
    assert describe(parse(line).message) == line
