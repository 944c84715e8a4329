"""Tests the first start of a cluster. Every voter answers that it is empty, in any order of starts. A node that is
wiped later does not take part again."""

from __future__ import annotations

import shutil

import pytest

from tests.cluster.fleet import Fleet, MakeFleet, error_of, sample_batch
from tests.cluster.scrape import not_ready
from tests.cluster.waiter import eventually, until


def told(caplog: pytest.LogCaptureFixture, *parts: str) -> bool:
    """Return whether one line of the logs contains all of these words."""
    return any(all(part in record.getMessage() for part in parts) for record in caplog.records)


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
async def test_nodes_may_start_in_any_order(make_fleet: MakeFleet, order: tuple[int, ...]) -> None:
    fleet = make_fleet(3)
    first, second, third = order
    await fleet.start(first)
    await fleet.start(second)
    assert {(await fleet.status(node)).role for node in (first, second)} == {"waiting"}  # no majority begins alone
    await fleet.start(third)
    leader = await fleet.leader()
    topic = await fleet.create_topic()
    assert error_of(await fleet.produce(leader, sample_batch(topic))) is None
    await fleet.level()


async def test_before_the_first_start_a_node_says_so(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(3)
    await fleet.start(1, 2)
    for node in (1, 2):
        error = error_of(await fleet.produce(node, sample_batch(1)))
        assert error is not None
        assert error.retriable
        error = error_of(await fleet.fetch(node, 1, 0))
        assert error is not None
        assert error.retriable
        assert await not_ready(fleet.http(node))


async def test_who_is_missing_is_told(
    make_fleet: MakeFleet, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.node.formation.first_start.TELL_EVERY", 1)
    caplog.set_level("INFO")
    fleet = make_fleet(3)
    await fleet.start(1, 2)
    await until(lambda: told(caplog, "waiting for", f"node 3 at {fleet.address(3)}"), "node 1 says whom it waits for")


@pytest.mark.parametrize(
    ("wiped", "restarted"),
    [(1, False), (1, True), (3, False)],
    ids=["asker", "asker, all restarted", "another"],
)
async def test_a_wiped_node_takes_no_part_and_the_others_go_on(
    make_fleet: MakeFleet, caplog: pytest.LogCaptureFixture, wiped: int, restarted: bool
) -> None:
    """The wiped node must not form a new cluster, must not vote, and its acknowledgements must not count."""
    caplog.set_level("INFO")
    fleet = make_fleet(3)
    await fleet.start()
    await fleet.leader()
    topic = await fleet.create_topic()
    await fleet.level()
    others = [node for node in fleet.nodes if node != wiped]

    await fleet.stop(*(fleet.nodes if restarted else [wiped]))
    shutil.rmtree(fleet.data(wiped))
    await fleet.start(*([wiped, *others] if restarted else [wiped]))

    await until(lambda: told(caplog, "takes no part until it is added again"), "the logs say why")
    running = Two(fleet, others)
    leader = await eventually(running.leader, "the other two have a leader")
    answer = await fleet.produce(leader, sample_batch(topic))
    assert error_of(answer) is None
    status = await fleet.status(wiped)
    assert (status.role, status.last_index, status.commit) == ("waiting", 0, 0)

    async def disowned() -> bool:
        return "has another data directory" in await not_ready(fleet.http(wiped))

    await eventually(disowned, "the others were there, and mean another directory")

    # It does not count: with one of the other two gone there is no majority.
    await fleet.stop(leader)
    (alone,) = (node for node in others if node != leader)

    async def leaderless() -> bool:
        return (await fleet.status(alone)).leader == 0

    await eventually(leaderless, "the one that is left has no leader")
    refused = error_of(await fleet.produce(alone, sample_batch(topic, first_sequence=2)))
    assert refused is not None
    assert refused.retriable
    await fleet.start(leader)
    leader = await eventually(running.leader, "two of three lead again")
    assert error_of(await fleet.produce(leader, sample_batch(topic, first_sequence=2))) is None


class Two:
    """The running nodes of a fleet."""

    def __init__(self, fleet: Fleet, nodes: list[int]) -> None:
        self._fleet, self._nodes = fleet, nodes

    async def leader(self) -> int:
        """Return the leader, or 0 if the nodes do not agree on a leader or the leader does not accept proposals
        yet."""
        statuses = [await self._fleet.status(node) for node in self._nodes]
        leader = statuses[0].leader
        settled = all(each.leader == leader and each.applied == each.last_index for each in statuses)
        return leader if leader in self._nodes and settled else 0


async def test_peers_that_differ_are_refused_with_a_sentence(
    make_fleet: MakeFleet, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = make_fleet(3)
    others = {node: fleet.address(node) for node in (1, 2)}
    fleet.override(2, peers=others)
    await fleet.start()
    await until(
        lambda: told(
            caplog, "cannot form the shard", "the settings `peers` differ: node 2 has [1, 2], node 1 has [1, 2, 3]"
        ),
        "node 1 says how they differ",
    )
    assert {status.role for status in (await fleet.statuses()).values()} == {"waiting"}
    assert all([await not_ready(fleet.http(node)) for node in fleet.nodes])

    await fleet.stop(1, 2)
    fleet.override(2)
    await fleet.start(1, 2)  # corrected, it begins
    await fleet.leader()


async def test_sizes_that_differ_are_refused_with_a_sentence(
    make_fleet: MakeFleet, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = make_fleet(3)
    fleet.override(3, segment_bytes=4 << 20)
    await fleet.start()
    await until(
        lambda: told(caplog, "cannot form the shard", "the sizes differ: node 3"), "node 1 says how they differ"
    )


async def test_a_node_of_another_cluster_is_refused(make_fleet: MakeFleet, caplog: pytest.LogCaptureFixture) -> None:
    fleet = make_fleet(3)
    fleet.override(2, cluster="other")
    await fleet.start()
    await until(
        lambda: told(caplog, "cannot form the shard", "node 2 belongs to cluster 'other', not to cluster 'test'"),
        "node 1 says which",
    )


async def test_addresses_that_are_mixed_up_are_refused(make_fleet: MakeFleet, caplog: pytest.LogCaptureFixture) -> None:
    fleet = make_fleet(3)
    mixed_up = {1: fleet.address(1), 2: fleet.address(3), 3: fleet.address(2)}
    fleet.override(1, peers=mixed_up)
    await fleet.start()
    await until(
        lambda: told(caplog, "cannot form the shard", "answers there: correct `peers`"),
        "node 1 says which",
    )
