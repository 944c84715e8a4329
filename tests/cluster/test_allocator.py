"""What a node asks of the C library's allocator: large messages do without page faults. Counted in a fresh process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import uvloop

import cluster.node
from cluster.settings import NodeSettings

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
    """Of a process that makes messages of 1 MiB, in several copies at a time, and lets go of them."""
    program = PROGRAM.format(call=call, messages=MESSAGES)
    root = str(Path(cluster.node.__file__).parent.parent)
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True, cwd=root
    )
    return int(ran.stdout)


def test_large_messages_cost_no_page_faults() -> None:
    assert page_faults("keep_large_buffers()") < 2 * PAGES


def test_without_it_each_costs_as_many_as_it_has_pages() -> None:
    if page_faults("") < MESSAGES * PAGES / 2:
        pytest.skip("another C library than glibc, or another setting of it (MALLOC_...)")


def test_a_node_asks_for_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(cluster.node, "keep_large_buffers", lambda: asked.append(True))
    monkeypatch.setattr(cluster.node, "serve_until_stopped", lambda settings: None)
    monkeypatch.setattr(uvloop, "run", lambda served: None)
    settings = NodeSettings(
        node=1, cluster="c", data=tmp_path, listen="127.0.0.1:1", peers={1: "127.0.0.1:1"}
    )  # never started
    assert cluster.node.run_node(settings) == 0
    assert asked
