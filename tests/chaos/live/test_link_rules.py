"""A partition cuts exactly the links between nodes without a common side."""

from __future__ import annotations

from chaos.live.hosts.link_rules import NodeLink, partition


def links(nodes: list[int], sides: list[list[int]]) -> set[NodeLink]:
    return {loss.link for loss in partition(nodes, sides)}


def test_sides_do_not_reach_one_another() -> None:
    assert links([1, 2, 3], [[1], [2, 3]]) == {NodeLink(1, 2), NodeLink(2, 1), NodeLink(1, 3), NodeLink(3, 1)}


def test_a_node_of_two_sides_reaches_both() -> None:
    assert links([1, 2, 3], [[1, 2], [2, 3]]) == {NodeLink(1, 3), NodeLink(3, 1)}


def test_a_ring_of_majorities() -> None:
    nodes = [1, 2, 3, 4, 5]
    sides = [[1, 2], [2, 3], [3, 4], [4, 5], [5, 1]]
    cut = links(nodes, sides)
    for node in nodes:
        assert sum(link.source == node for link in cut) == 2  # it reaches two others: with itself a majority
