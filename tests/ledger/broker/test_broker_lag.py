"""Tests the lag of a consumer group, in messages and in time. A replica with a real log is compared with plain
lists.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.broker.consumer_groups.lag import Lag, lag_of
from ledger.state.progress_table import ConsumedQueue, QueueProgress
from tests.ledger.broker.test_broker_query import Node

KEY = ConsumedQueue("billing", 1, 0)


def node_from(first: int) -> Node:
    """Return a node whose queue 0 of topic 1 has had the offsets 0 to 11, in entries of three messages, appended at the
    times 10, 20, 30 and 40. The queue keeps the offsets from `first` on.
    """
    node = Node()
    for time in (10, 20, 30, 40):
        node.send(1, 0, [None] * 3, time)
        node.send(1, 1, [b"another queue"], time)
    node.replica.queues.get(1, 0).begin_at(first)
    return node


@pytest.fixture(scope="module")
def nodes() -> dict[int, Node]:
    return {first: node_from(first) for first in (0, 3, 6, 12)}


@given(offset=st.integers(0, 12), settled=st.sets(st.integers(0, 11)), first=st.sampled_from([0, 3, 6, 12]))
def test_what_is_kept_and_neither_consumed_nor_settled(
    nodes: dict[int, Node], offset: int, settled: set[int], first: int
) -> None:
    ahead = sorted(each for each in settled if each > offset)
    left = [each for each in range(max(first, offset), 12) if each not in ahead]
    since = 10 + left[0] // 3 * 10 if left else 0
    assert lag_of(nodes[first].replica, KEY, QueueProgress(5, offset, settled=ahead)) == Lag(
        first, 12, len(left), since
    )


def test_a_queue_without_messages(nodes: dict[int, Node]) -> None:
    assert lag_of(nodes[0].replica, ConsumedQueue("billing", 2, 0), QueueProgress(5, 0)) == Lag(0, 0, 0, 0)
