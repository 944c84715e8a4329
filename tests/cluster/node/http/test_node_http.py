"""The HTTP port: the metrics, and the health checks."""

from __future__ import annotations

import asyncio

import pytest

from ledger.version import VERSION
from ledgermq import AsyncProducer
from tests.cluster.fleet import MakeFleet, error_of, sample_batch
from tests.cluster.scrape import get, not_ready, reason_not_ready, scrape
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real

GAUGES = {
    "ledgermq_raft_role", "ledgermq_raft_term", "ledgermq_raft_has_leader", "ledgermq_raft_is_leader",
    "ledgermq_raft_last_index", "ledgermq_raft_commit_index", "ledgermq_raft_applied_index",
    "ledgermq_raft_proposals_pending", "ledgermq_raft_failed", "ledgermq_raft_follower_lag_entries",
    "ledgermq_log_end_position_bytes", "ledgermq_node_info", "ledgermq_raft_suspect", "ledgermq_raft_members",
    "ledgermq_raft_learners", "ledgermq_log_first_index", "ledgermq_log_kept_bytes", "ledgermq_log_holds",
    "ledgermq_disk_use_ratio", "ledgermq_message_ids",
}  # fmt: skip
COUNTERS = {
    "ledgermq_messages_in", "ledgermq_bytes_in", "ledgermq_messages_out", "ledgermq_bytes_out",
    "ledgermq_produce_duplicates", "ledgermq_produce_refusals", "ledgermq_raft_leader_changes_seen",
    "ledgermq_raft_losses_accepted", "ledgermq_raft_refused_messages", "ledgermq_log_dropped_bytes",
}  # fmt: skip
HISTOGRAMS = {
    "ledgermq_raft_commit_duration_seconds", "ledgermq_log_append_duration_seconds",
    "ledgermq_log_flush_duration_seconds", "ledgermq_event_loop_lag_seconds",
}  # fmt: skip


async def test_metrics_have_their_names_and_say_what_happened(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(3, flush_pages=0)
    await fleet.start()
    leader = await fleet.leader()
    topic = await fleet.create_topic()
    batch = sample_batch(topic, [b"x" * 100] * 10)
    assert error_of(await fleet.produce(leader, batch)) is None
    assert (await fleet.produce(leader, batch)).duplicate
    assert error_of(await fleet.produce(leader, sample_batch(topic, first_sequence=99))) is not None
    await fleet.fetch(leader, topic, 0)
    await fleet.level()

    async def flushed() -> bool:
        return (await scrape(fleet.http(leader)))["ledgermq_log_flush_duration_seconds_count"] > 0

    await eventually(flushed, "the log was flushed once")
    leading = await scrape(fleet.http(leader))
    follower = next(node for node in fleet.nodes if node != leader)
    following = await scrape(fleet.http(follower))
    status = await fleet.status(leader)

    for names, kind in ((GAUGES, "gauge"), (COUNTERS, "counter"), (HISTOGRAMS, "histogram")):
        assert {name: leading.kinds.get(name) for name in names} == dict.fromkeys(names, kind)
    assert leading.of("ledgermq_messages_in_total", topic="topic") == 10
    assert leading.of("ledgermq_bytes_in_total", topic="topic") == len(batch)
    assert leading.of("ledgermq_messages_out_total", topic="topic") == 10
    assert leading.of("ledgermq_bytes_out_total", topic="topic") == len(batch)
    assert leading["ledgermq_produce_duplicates_total"] == 1
    assert leading.of("ledgermq_produce_refusals_total", code="SEQUENCE_GAP") == 1
    assert leading["ledgermq_raft_commit_duration_seconds_count"] == 1
    assert leading["ledgermq_log_append_duration_seconds_count"] >= 3  # a no-op, a topic, a batch
    assert 0 < leading["ledgermq_raft_commit_duration_seconds_sum"] < 5
    assert following["ledgermq_messages_in_total"] == 0
    for each in (leading, following):
        assert each["ledgermq_raft_term"] == status.term
        assert each["ledgermq_raft_has_leader"] == 1
        assert each["ledgermq_raft_failed"] == 0
        assert each["ledgermq_node_ready"] == each["ledgermq_node_takes_writes"] == 1
        assert 0 < each["ledgermq_disk_free_bytes"] < each["ledgermq_disk_size_bytes"]
        assert each["ledgermq_raft_proposals_failed_total"] == 0
        assert each["ledgermq_raft_proposals_pending"] == 0
        assert each["ledgermq_raft_suspect"] == each["ledgermq_raft_losses_accepted_total"] == 0
        assert (each["ledgermq_raft_members"], each["ledgermq_raft_learners"]) == (3, 0)
        assert each["ledgermq_raft_role"] == 1
        assert each["ledgermq_grpc_requests_total"] >= 3  # entries and heartbeats, or their acknowledgements
        assert each["ledgermq_grpc_request_bytes_total"] > len(batch)
        assert each["ledgermq_raft_leader_changes_seen_total"] >= 1
        assert each["ledgermq_log_end_position_bytes"] == status.end_position
        for name in ("last_index", "commit_index", "applied_index"):
            assert each[f"ledgermq_raft_{name}"] == status.last_index
    assert leading.of("ledgermq_raft_role", shard="0", role="leader") == 1
    assert following.of("ledgermq_raft_role", shard="0", role="follower") == 1
    assert (leading["ledgermq_raft_is_leader"], following["ledgermq_raft_is_leader"]) == (1, 0)
    assert leading.of("ledgermq_raft_follower_lag_entries", shard="0", peer=str(follower)) == 0
    assert (
        leading.of(
            "ledgermq_node_info", cluster="test", node=str(leader), version=VERSION, flush="async", write="direct"
        )
        == 1
    )

    async def lag_is_told() -> bool:
        return (await scrape(fleet.http(leader)))["ledgermq_event_loop_lag_seconds_count"] > 0

    await eventually(lag_is_told, "the lag of the loop was measured")


async def test_each_remembered_message_id_is_counted(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(1)
    await fleet.start()
    await fleet.create_topic()
    async with AsyncProducer(fleet.bootstrap) as producer:
        for message_id in ("a", "b", "b"):
            await producer.send("topic", b"hello", message_id=message_id)
    assert (await scrape(fleet.http(1)))["ledgermq_message_ids"] == 2


async def test_a_stopped_follower_shows_as_lag(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(3)
    await fleet.start()
    leader = await fleet.leader()
    topic = await fleet.create_topic()
    await fleet.level()
    stopped = await fleet.follower()
    await fleet.stop(stopped)
    for number in range(5):
        assert error_of(await fleet.produce(leader, sample_batch(topic, first_sequence=2 * number))) is None
    lag = (await scrape(fleet.http(leader))).of("ledgermq_raft_follower_lag_entries", shard="0", peer=str(stopped))
    assert lag >= 5

    async def is_silent() -> bool:
        now = await scrape(fleet.http(leader))
        silent_s = {
            peer: now.of("ledgermq_raft_peer_last_contact_seconds", shard="0", peer=str(peer))
            for peer in fleet.nodes
            if peer != leader
        }
        return silent_s.pop(stopped) > 0.5 > min(silent_s.values())

    await eventually(
        is_silent, "the leader has not heard the stopped follower for half a second, and has heard the other"
    )


async def test_healthy_without_a_leader_but_not_ready(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(3)
    await fleet.start(1)
    assert (await get(fleet.http(1), "/healthz"))[0] == 200
    status, body = await get(fleet.http(1), "/readyz")
    assert status == 503
    assert "waits for the first start" in body

    await fleet.start(2, 3)

    async def ready() -> bool:
        return not await not_ready(fleet.http(1))

    await eventually(ready, "node 1 is ready")
    await fleet.stop(2, 3)
    await reason_not_ready(fleet.http(1), "no leader")
    assert (await get(fleet.http(1), "/healthz"))[0] == 200
    await fleet.start(2)
    await eventually(ready, "node 1 is ready again")


async def test_a_node_without_an_http_port(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(1, http="")
    await fleet.start()
    assert await fleet.leader() == 1


async def test_a_node_that_is_only_busy_stays_ready(make_fleet: MakeFleet) -> None:
    """A node with a few entries left to apply is ready."""
    fleet = make_fleet(3)
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic(queues=4)
    await fleet.level()
    async with AsyncProducer(fleet.bootstrap, batch_bytes=1024) as producer:
        sending = asyncio.create_task(producer.send_many("topic", [bytes(100)] * 20_000))
        while not sending.done():
            for node in fleet.nodes:
                assert not await not_ready(fleet.http(node))
        await sending
