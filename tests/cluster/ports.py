"""Ports for tests. Ports are drawn at random, so that test runs at the same time do not collide. Each worker draws
from its own range. The ranges contain no port that a local cluster chooses by itself (cluster/local/ports.py).
"""

from __future__ import annotations

import random

from cluster.local.plan import DevError
from cluster.local.ports import choose_ports
from tests.workers import worker

_BASES = range(10_000, 20_000, 30)


def free_base_port(nodes: int) -> int:
    """Return the first port of 3 x `nodes` consecutive free ports."""
    number, workers = worker()
    for base in random.SystemRandom().sample(_BASES[number::workers], 40):
        try:
            return choose_ports(nodes, base, of_a_node=3)[0]
        except DevError:
            continue
    raise AssertionError("no free ports")
