"""Clusters of one node that are started at the same moment, however their nodes run."""

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
    """All of them lead, at different addresses; nothing is left of them."""
    try:
        with ThreadPoolExecutor(len(clusters)) as pool:
            for states in pool.map(lambda cluster: cluster.start(1), clusters):
                assert [state.role for state in states] == ["leader"]
        one, other = (cluster.bootstrap for cluster in clusters)
        assert one != other
    finally:
        for cluster in clusters:
            cluster.purge()
