"""Ports for tests. Ports are drawn at random, so that test runs at the same time do not collide. Each worker draws
from its own range. The ranges contain no port that a local cluster chooses by itself (cluster/local/ports.py).
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator

from cluster.local.plan import DevError
from cluster.local.ports import choose_ports
from tests.workers import worker

_BASES = range(10_000, 20_000, 30)


def free_base_port(nodes: int) -> int:
    """Return the first port of 3 x `nodes` consecutive free ports. A test can draw several times before anything
    listens: a port comes again only after all other ports of this worker."""
    for base in itertools.islice(_bases(), 40):
        try:
            return choose_ports(nodes, base, of_a_node=3)[0]
        except DevError:
            continue
    raise AssertionError("no free ports")


@functools.cache
def _bases() -> Iterator[int]:
    number, workers = worker()
    mine = list(_BASES[number::workers])
    random.SystemRandom().shuffle(mine)
    return itertools.cycle(mine)
