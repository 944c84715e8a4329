"""Ports for tests: drawn, so that test runs beside each other, or a local cluster that somebody has, do not collide."""

from __future__ import annotations

import random

from cluster.local.plan import DevError
from cluster.local.ports import choose_ports

_BASES = range(20_000, 32_000, 10)


def free_base_port(nodes: int) -> int:
    """The first of 2 x `nodes` free ports in a row."""
    for base in random.SystemRandom().sample(_BASES, 50):
        try:
            return choose_ports(nodes, base)[0]
        except DevError:
            continue
    raise AssertionError("no free ports")
