"""The introduction of a new node: to a first start, and to a leader that adds the node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cluster.node.formation.first_start import FormingNode
from raft.v1 import raft_pb2

JOINING = FormingNode("c", 0, 4, b"x" * 16, "d:4", (), 1 << 20, 1 << 16, empty=True, joins=True)
INITIAL = replace(JOINING, voters=(3, 4), joins=False)


def refusal(forming_node: FormingNode, **other: Any) -> str:
    request: dict[str, Any] = {"cluster": "c", "sender": 3, "segment_bytes": 1 << 20, "max_entry_bytes": 1 << 16}
    return str(forming_node.introduce(raft_pb2.IntroduceRequest(**{**request, **other})).refusal)


def test_a_node_that_joins_can_be_added_and_takes_no_part_in_a_first_start() -> None:
    assert refusal(JOINING, adding=True) == ""
    assert "waits to be added to a cluster (`join = true`)" in refusal(JOINING, voters=[3, 4])
    assert not JOINING.asks


def test_a_node_of_a_first_start_is_not_added() -> None:
    assert refusal(INITIAL, voters=[3, 4]) == ""
    assert "start it with `join = true`" in refusal(INITIAL, adding=True)


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"cluster": "other"}, "belongs to cluster 'c', not to cluster 'other'"),
        ({"segment_bytes": 1 << 21}, "the sizes differ"),
    ],
)
def test_a_node_of_another_kind_is_not_added(other: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(JOINING, adding=True, **other)
