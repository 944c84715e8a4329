"""Ports for tests: drawn, so that test runs beside each other do not collide.

Each worker draws from its own part. None of them is a port that a local cluster chooses for itself (cluster.dev_ports).
"""

from __future__ import annotations

import random

from cluster.local.plan import DevError
from cluster.local.ports import choose_ports
from tests.workers import worker

_BASES = range(10_000, 20_000, 10)


def free_base_port(nodes: int) -> int:
    """The first of 2 x `nodes` free ports in a row."""
    number, workers = worker()
    for base in random.SystemRandom().sample(_BASES[number::workers], 50):
        try:
            return choose_ports(nodes, base)[0]
        except DevError:
            continue
    raise AssertionError("no free ports")
