"""Checks of local clusters that are started at the same moment, as processes or as containers."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from cluster.local.state import NodeState


class Startable(Protocol):
    @property
    def bootstrap(self) -> str: ...

    def start(self, nodes: int) -> list[NodeState]: ...

    def purge(self) -> bool: ...


def assert_ports_of_their_own(clusters: Sequence[Startable]) -> None:
    """Start all clusters at once. Each must get a leader and its own address. Then remove them."""
    try:
        with ThreadPoolExecutor(len(clusters)) as pool:
            for states in pool.map(lambda cluster: cluster.start(1), clusters):
                assert [state.role for state in states] == ["leader"]
        one, other = (cluster.bootstrap for cluster in clusters)
        assert one != other
    finally:
        for cluster in clusters:
            cluster.purge()
