"""Tests the settings of the C library's allocator: large messages cause few page faults."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import cluster.cli
from cluster.allocator import ENVIRONMENT

MESSAGES = 100
PAGES = 256  # of 1 MiB
PROGRAM = """
import resource
from cluster.allocator import keep_large_buffers
{call}
def copies():
    return [b"x" * (1 << 20) for _ in range(4)]
copies()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({messages}):
    copies()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(call: str) -> int:
    """Return the page faults of a process that makes and frees messages of 1 MiB, several copies at a time."""
    program = PROGRAM.format(call=call, messages=MESSAGES)
    root = str(Path(cluster.cli.__file__).parent.parent.parent)
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True, cwd=root
    )
    return int(ran.stdout)


@pytest.mark.real
def test_large_messages_cost_no_page_faults() -> None:
    assert page_faults("keep_large_buffers()") < 2 * PAGES


@pytest.mark.real
def test_without_it_each_costs_as_many_as_it_has_pages() -> None:
    if page_faults("") < MESSAGES * PAGES / 2:
        pytest.skip("another C library than glibc, or another setting of it (MALLOC_...)")


@pytest.mark.real
def test_the_environment_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert page_faults("") < 2 * PAGES


def test_the_command_line_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line also starts the nodes, so nodes have the same allocator settings."""
    asked: list[bool] = []
    monkeypatch.setattr(cluster.cli, "keep_large_buffers", lambda: asked.append(True))
    with pytest.raises(SystemExit):
        cluster.cli.main(["--version"])
    assert asked
