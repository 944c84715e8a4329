"""A chaos run that begins with an older program and upgrades its nodes, with kills, under the whole load."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ledger.state.feature_levels import LATEST_LEVEL
from tests.golden.program import NoHistoryError, before_the_last_level, unpack

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in ("ip", "nsenter", "iptables")), reason="no namespaces"
    ),
    pytest.mark.timeout(240),
]


def chaos(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "chaos", "run", "--faults", "upgrade", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=220, check=False)


def test_nodes_are_upgraded_under_load(tmp_path: Path) -> None:
    try:
        old = unpack(before_the_last_level(), tmp_path / "old")
    except NoHistoryError as error:
        pytest.skip(f"the program of the level before is not in this clone: {error}")
    out = tmp_path / "run"
    arguments = (
        "--seconds",
        "24",
        "--shared",
        "0",
        "--rate",
        "100",
        "--seed",
        "3",
        "--targets",
        "one",
        "--targets",
        "leader",
    )
    ended = chaos("--old-program", str(old.directory), *arguments, "--out", str(out), "--json")
    assert ended.returncode == 0, ended.stderr + ended.stdout
    evidence = (out / "faults.jsonl").read_text()
    upgraded = {node for node in (1, 2, 3) if f"node {node} gets this program" in evidence}
    assert upgraded
    logs = "".join((out / f"node-{node}" / "log").read_text() for node in (1, 2, 3))
    assert f"feature level {LATEST_LEVEL - 1}" in logs
    assert (f"feature level {LATEST_LEVEL}" in logs) == (len(upgraded) == 3)
    assert json.loads(ended.stdout)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "needs an older program: give --old-program"),
        (("--old-program", "{empty}", "--env", "docker"), "--old-program needs --env local"),
        (("--old-program", "{empty}"), "has no package ledgermq"),
    ],
)
def test_a_run_without_an_older_program_is_refused(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    given = [argument.format(empty=tmp_path / "empty") for argument in arguments]
    ended = chaos(*given, "--seconds", "30", "--out", str(tmp_path / "run"))
    assert ended.returncode == 2
    assert words in ended.stderr
