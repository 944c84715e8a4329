"""Tests what the pages of the cluster are made of, without a cluster: bars, lanes, rates and the map."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cluster.console.bars import LEAST_WINDOW_BYTES, WIDTH, bars_of
from cluster.console.pages.cluster_page import map_of
from cluster.console.picture import Picture, SeenEvent, SeenReplica, SeenShard, picture_of
from cluster.console.rates import Rates
from cluster.console.timeline import SPAN_MS, timeline_of
from ledger.client.records import NodeStatus, ShardStatus

MB = 1_000_000


def status(**fields: Any) -> ShardStatus:
    values: dict[str, Any] = {
        "role": "follower",
        "term": 3,
        "leader": 1,
        "last_index": 9,
        "commit": 9,
        "applied": 9,
        "end_position": 10 * MB,
        "chain": 7,
    }
    return ShardStatus(shard=0, **{**values, **fields})


def node(number: int, *shards: ShardStatus, reachable: bool = True) -> NodeStatus:
    return NodeStatus(number, f"host-{number}:9871", reachable=reachable, cluster="test", shards=shards)


def test_bars_of_a_shard_have_one_scale() -> None:
    positions = {"flushed_position": 9 * MB, "commit_position": 8 * MB, "applied_position": 6 * MB}
    whole, short = SeenReplica(1, status(**positions)), SeenReplica(2, status(end_position=5 * MB, **positions))
    bars = bars_of(SeenShard(0, (whole, short), 1, 3))
    assert [(part.name, part.width) for part in bars[1].whole] == [
        ("written", 1000.0),
        ("flushed", 900.0),
        ("committed", 800.0),
        ("applied", 600.0),
    ]
    # No part reaches beyond the end of its log.
    assert {part.width for part in bars[2].whole} == {500.0}
    # The enlarged bar begins before the slowest replica, and ends with the longest log.
    assert bars[1].window_start < 5 * MB
    assert bars[1].window_start + bars[1].window_bytes == 10 * MB
    assert bars[1].end[0].width == WIDTH
    assert bars[2].end[0].width < bars[1].end[3].width < WIDTH


def test_a_short_log_is_not_enlarged_without_bound() -> None:
    same = {"end_position": 50, "flushed_position": 50, "commit_position": 50, "applied_position": 50}
    (bars,) = bars_of(SeenShard(0, (SeenReplica(1, status(**same)),), 1, 3)).values()
    assert bars.window_start == 0
    assert bars.window_bytes == 50
    far = dict.fromkeys(same, 10 * MB)
    (bars,) = bars_of(SeenShard(0, (SeenReplica(1, status(**far)),), 1, 3)).values()
    assert bars.window_bytes == LEAST_WINDOW_BYTES


def test_an_empty_shard_can_be_drawn() -> None:
    nothing = {"end_position": 0, "flushed_position": 0, "commit_position": 0, "applied_position": 0}
    (bars,) = bars_of(SeenShard(0, (SeenReplica(1, status(**nothing)),), None, 0)).values()
    assert {part.width for part in (*bars.whole, *bars.end)} == {0.0}


def event(time_ms: int, kind: str, text: str, number: int, of: int = 2, term: int = 4, subject: int = 0) -> SeenEvent:
    return SeenEvent(of, number, time_ms, 0, kind, text, term, subject)


def test_lanes_show_roles_and_votes() -> None:
    now_ms = 2 * SPAN_MS
    events = [
        event(now_ms - SPAN_MS // 2, "role", "candidate", 2),
        event(now_ms - SPAN_MS // 2, "vote", "vote for node 2", 3, subject=2),
        event(now_ms - SPAN_MS // 4, "role", "leader", 4),
        event(now_ms - 3 * SPAN_MS, "role", "follower", 1, term=3),
    ]
    replicas = [SeenReplica(2, status()), SeenReplica(3, status(role="learner"))]
    timeline = timeline_of(events, replicas, now_ms)
    two, three = timeline.lanes
    assert [(span.role, span.x, span.width) for span in two.spans] == [
        ("follower", 0.0, 500.0),
        ("candidate", 500.0, 250.0),
        ("leader", 750.0, 250.0),
    ]
    assert [(vote.x, vote.voted_for) for vote in two.votes] == [(500.0, 2)]
    # Nothing is known of node 3 but its present role.
    assert [(span.role, span.x, span.width) for span in three.spans] == [("learner", 0.0, WIDTH)]


def test_a_silent_node_keeps_its_place_in_the_picture() -> None:
    known = {2: node(2, status(role="leader"))}
    now = [node(1, status(role="leader", term=5)), node(2, reachable=False), node(3, reachable=False)]
    picture = picture_of(7, now, known, {1: "east"}, {1: 0.5}, [])
    (shard,) = picture.shards
    assert (shard.leader, shard.term) == (1, 5)
    assert [(replica.node, replica.role) for replica in shard.replicas] == [(1, "leader"), (2, "silent")]
    assert [(each.node, each.is_silent, each.leads, each.room) for each in picture.nodes] == [
        (1, False, 1, "east"),
        (2, True, 0, ""),
        (3, True, 0, ""),
    ]
    assert [(seen.node, [cell.role for cell in cells]) for seen, cells in map_of(picture)] == [
        (2, ["silent"]),
        (3, []),
        (1, ["leader"]),
    ]
    assert map_of(Picture()) == []


def counted(topic: str, messages_in: int) -> SimpleNamespace:
    return SimpleNamespace(topic=topic, messages_in=messages_in, bytes_in=0, messages_out=0, bytes_out=0)


def test_rates_are_the_growth_of_the_counters() -> None:
    rates = Rates()
    rates.count(1, 5, [counted("orders", 1_000)])
    rates.looked(10.0)
    rates.count(1, 5, [counted("orders", 1_100), counted("new", 50)])
    rates.count(2, 6, [counted("orders", 20)])
    rates.looked(11.0)  # too early
    assert rates.points == 0
    rates.looked(14.0)
    assert rates.topics["orders"].messages_in == pytest.approx(30)
    assert rates.total.messages_in == pytest.approx(42.5)
    # Node 1 starts anew, and counts from 0.
    rates.count(1, 7, [counted("orders", 8)])
    rates.looked(18.0)
    assert rates.total.messages_in == pytest.approx(2)
    assert [round(rate.messages_in, 1) for rate in rates.history] == [42.5, 2.0]
