"""What the command line says of how long a leader keeps leadership."""

from __future__ import annotations

import pytest

from cluster.leadership import leadership_sentence, unpinned_sentence
from ledger.client.records import Member, Members


def members(leader: int, preferred: int = 0, pinned: int = 0, *, ms: int = 4_000, lags: int = 0) -> Members:
    nodes = tuple(Member(node, "", b"", True, False, 0, 0, caught_up=node != lags) for node in (1, 2, 3))
    return Members("c", 3, leader, 0, 9, 9, 1, nodes, preferred, pinned, ms)


@pytest.mark.parametrize(
    ("shard", "sentence"),
    [
        (members(3, ms=0), "Node 3 leads shard 2."),
        (
            members(3),
            "Node 3 leads shard 2 until another node is elected or leadership is transferred again; --pin makes it "
            "lead always.",
        ),
        (members(3, 3), "Node 3 leads shard 2. It is its preferred leader, so it leads whenever it can."),
        (members(3, 3, 3), "Node 3 leads shard 2. It is pinned as its leader, so it leads whenever it can."),
        (
            members(3, 1),
            "Node 3 leads shard 2. Node 1 is its preferred leader and takes leadership back in about 4 s; --pin keeps "
            "it on node 3.",
        ),
        (
            members(3, 1, lags=1),
            "Node 3 leads shard 2. Node 1 is its preferred leader and takes leadership back as soon as it answers and "
            "has caught up; --pin keeps it on node 3.",
        ),
        (
            members(3, 1, 1, ms=2_500),
            "Node 3 leads shard 2. Node 1 is pinned as its leader and takes leadership back in about 2.5 s; --pin pins "
            "node 3 instead, and --unpin removes the pin.",
        ),
    ],
)
def test_the_sentence_after_a_transfer(shard: Members, sentence: str) -> None:
    assert leadership_sentence(2, shard) == sentence


@pytest.mark.parametrize(
    ("shard", "sentence"),
    [
        (members(3), "Node 3 leads until another node is elected or leadership is transferred."),
        (members(3, 3), "Node 3 leads, and is its preferred leader."),
        (members(3, 1), "Node 3 leads, and node 1, its preferred leader, takes over within about 4 s."),
    ],
)
def test_the_sentence_after_a_pin_was_removed(shard: Members, sentence: str) -> None:
    assert unpinned_sentence(2, shard) == f"Shard 2 has no pinned leader. {sentence}"
