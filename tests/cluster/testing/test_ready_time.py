"""How long a test cluster takes to be ready, from nothing, on an idle machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.real, pytest.mark.floor]

PROGRAM = """
import sys, time
from ledgermq.testing import Cluster

start = time.perf_counter()
with Cluster(int(sys.argv[1])):
    print(time.perf_counter() - start)
"""


@pytest.mark.parametrize(("nodes", "limit_s"), [(1, 1.5), (3, 4.0)])
def test_a_first_cluster_is_ready_soon(nodes: int, limit_s: float) -> None:
    """The best of three, each in a new process, so that the imports count."""
    command = [sys.executable, "-c", PROGRAM, str(nodes)]
    times = [float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(3)]
    assert min(times) <= limit_s, times
