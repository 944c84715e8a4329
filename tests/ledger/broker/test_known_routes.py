"""The routes that a node reports to name servers are converted to protobuf only after a change."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.broker.node_view import NodeRoute, NodeRoutes, ShardLeader, TopicRoutes
from ledger.broker.rpc.routes_wire import KnownRoutes
from ledger.state import Topic

NODES = NodeRoutes(1, "prod", 1 << 20, 4, (NodeRoute(1, "host:1", "north", ""),), 5)
TOPICS = TopicRoutes((ShardLeader(0, 3, 1),), 9, (Topic(1, "orders", (0, 0), 1_000, 1),))


@pytest.mark.parametrize(
    ("nodes", "topics"),
    [
        (replace(NODES, configuration_index=6), TOPICS),
        (replace(NODES, nodes=(NodeRoute(1, "other:1", "north", ""),)), TOPICS),
        (NODES, replace(TOPICS, shards=(ShardLeader(0, 3, 0),))),
        (NODES, replace(TOPICS, topics=(Topic(1, "orders", (0, 0), 1_000, 2),))),
    ],
    ids=["a configuration", "an address", "a leader", "an open queue"],
)
def test_routes_are_converted_anew_after_each_change_and_only_then(nodes: NodeRoutes, topics: TopicRoutes) -> None:
    now = [NODES, TOPICS]
    view: Any = SimpleNamespace(nodes=lambda: now[0], topics=lambda: now[1])
    known = KnownRoutes(view)
    first = known.response()
    assert (first.cluster, first.shards[0].leader, list(first.topics[0].shards)) == ("prod", 1, [0])
    now[:] = [replace(NODES), replace(TOPICS, topics=(replace(TOPICS.topics[0]),))]
    assert known.response() is first, "equal routes are no change"
    now[:] = [nodes, topics]
    second = known.response()
    assert second is not first
    assert second != first
    assert first.shards[0].leader == 1, "a response that was given out does not change"
    assert known.response() is second
