"""Which pairs of nodes a partition cuts."""

from __future__ import annotations

import pytest

from cluster.testing.network import parted
from cluster.testing.processes import ClusterError

NODES = (1, 2, 3, 4, 5)


def test_nodes_without_a_side_are_one_more_side() -> None:
    assert parted([[1]], NODES) == [(1, 2), (1, 3), (1, 4), (1, 5)]
    assert parted([[4, 5], [1]], NODES) == [(4, 1), (5, 1), (4, 2), (4, 3), (5, 2), (5, 3), (1, 2), (1, 3)]
    assert parted([NODES], NODES) == []
    assert parted([], NODES) == []


@pytest.mark.parametrize(
    ("sides", "message"), [([[6]], "no node 6"), ([[1, 2], [2]], "one side"), ([[1, 1, 0]], "no node 0")]
)
def test_impossible_sides_are_refused(sides: list[list[int]], message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        parted(sides, NODES)
