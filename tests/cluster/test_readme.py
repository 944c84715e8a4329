"""Runs the five minutes of README.md from top to bottom, twice in a row: the commands with bash, and the programs. The
commands of a secured cluster, which OPERATING.md shows, come after them.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.local.processes import DevCluster

ROOT = Path(__file__).resolve().parents[2]
README, OPERATING = ROOT / "README.md", ROOT / "docs" / "OPERATING.md"
SECONDS = 240
ADDRESS = "127.0.0.1:9871"

pytestmark = [pytest.mark.real, pytest.mark.timeout(2 * SECONDS + 60)]

# Tells which commands fail. The commands that are meant to fail say so in a comment.
FAILURES = "set -o pipefail; trap 'echo \"FAILED: $BASH_COMMAND\" >&2' ERR\n"
ACTIVATE = ". .venv/bin/activate\n"


def blocks(language: str, document: Path = README, title: str = "Five minutes") -> list[str]:
    """Return the code blocks of a chapter."""
    (chapter,) = re.findall(rf"^## {title}\n(.*?)^## ", document.read_text(), re.DOTALL | re.MULTILINE)
    return re.findall(rf"^```{language}\n(.*?)^```", chapter, re.DOTALL | re.MULTILINE)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A directory in which README.md can be followed: it has .venv, and no profile of the user is found."""
    binaries = tmp_path / ".venv" / "bin"
    binaries.mkdir(parents=True)
    (binaries / "activate").write_text(f'PATH="{Path(sys.executable).parent}:$PATH"\n')
    yield tmp_path
    for data in ("ledgermq-data", "secured"):
        DevCluster(tmp_path / data).purge()


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LEDGERMQ_")}
    return {**kept, "HOME": str(home), "LEDGERMQ_RETRY_DELAYS_S": "1"}


def shell(home: Path, commands: str) -> tuple[str, list[str]]:
    """Run the commands in one bash. Return the standard output, and the commands that failed."""
    done = subprocess.run(
        ["bash"],
        input=FAILURES + commands,
        cwd=home,
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    failed = re.findall(r"^FAILED: (.*)$", done.stderr, re.MULTILINE)
    assert set(failed) <= {"ledgermq acl test billing publish topic:orders"}, done.stderr
    return done.stdout, failed


def program(home: Path, text: str) -> subprocess.Popen[str]:
    """Start a program of README.md. If the port of README.md was in use, the program gets the other address."""
    bootstrap = DevCluster(home / "ledgermq-data").bootstrap
    text = text if ADDRESS in bootstrap.split(",") else text.replace(ADDRESS, bootstrap)
    return subprocess.Popen(
        [sys.executable, "-u", "-c", text],
        cwd=home,
        env=environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def follow(home: Path) -> None:
    (plain,), secured = blocks("sh"), blocks("sh", OPERATING, "Security")[0]
    out, failed = shell(home, plain)
    assert failed == []
    consumed = [line for line in out.splitlines() if line in ("one", "two", "three", "four")]
    assert consumed == ["one", "two", "three", "one", "two", "three", "four"]

    reader, worker = blocks("python")
    running = program(home, reader)
    assert running.stdout is not None
    lines = [running.stdout.readline() for _ in range(4)]  # the receipt and three messages
    assert sum("b'one'" in line or "b'two'" in line or "b'three'" in line for line in lines) == 3, lines
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=SECONDS)

    running = program(home, worker)
    assert running.stdout is not None
    seen = "".join(running.stdout.readline() for _ in range(5))  # "Press Enter" and four messages, in any order
    assert all(value in seen for value in ("one", "two", "three", "four")), seen
    running.communicate("\n", timeout=SECONDS)
    assert running.returncode == 0

    _, failed = shell(home, ACTIVATE + secured)  # the reader's shell is still the same
    assert failed == ["ledgermq acl test billing publish topic:orders"]
    shell(home, ACTIVATE + "ledgermq doctor\nledgermq dev purge\n")


def test_the_five_minutes_run_twice_in_a_row(home: Path) -> None:
    for _ in range(2):
        follow(home)
        assert {path.name for path in home.iterdir()} == {".venv"}, "nothing is left behind"
