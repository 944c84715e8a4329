"""Adds and removes members, and transfers leadership, with real processes and under load: no acknowledged message is
lost. Each step uses the command line or `Admin`, as an operator does. Each step comes after a random number of
acknowledged messages. A failed test shows its random seed.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.local.plan import DevError
from cluster.local.ports import choose_ports
from cluster.local.processes import DevCluster, NodeState
from ledger.errors import (
    LastVoterError,
    NodeBehindError,
    NodeExistsError,
    NodeRefusedError,
    NotSuspectError,
    TransferRefusedError,
    UnknownNodeError,
)
from ledgermq import AsyncAdmin, Members
from store.directory.boot import BootRecord
from tests.cluster.acknowledged_load import Load, assert_every_replica_holds
from tests.cluster.scrape import not_ready, scrape
from tests.cluster.waiter import eventually, until

pytestmark = pytest.mark.real

SEGMENT_BYTES = 6 << 20
SEED = int(os.environ.get("LEDGERMQ_TEST_SEED", time.time_ns() & 0xFFFF_FFFF))
MISSING = "127.0.0.1:1"


@pytest.fixture
def rng() -> random.Random:
    print(f"LEDGERMQ_TEST_SEED={SEED} repeats the draws of this run")
    return random.Random(SEED)


def started(directory: Path, nodes: int) -> DevCluster:
    """Start a cluster, and leave free ports after its ports for a few more nodes."""
    cluster = DevCluster(directory)
    for base in random.SystemRandom().sample(range(24_000, 25_900, 20), 30):
        try:
            choose_ports(8, base)
        except DevError:
            continue
        cluster.start(nodes, base_port=base, segment_bytes=SEGMENT_BYTES)
        return cluster
    raise AssertionError("no free ports")


@pytest.fixture(scope="module")
def growing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """A cluster that has one node at first."""
    cluster = started(tmp_path_factory.mktemp("growing"), 1)
    yield cluster
    cluster.purge()


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """A cluster of three nodes. After each test these three nodes run, and no other node does."""
    cluster = started(tmp_path_factory.mktemp("three"), 3)
    yield cluster
    cluster.purge()


def admin(cluster: DevCluster, **options: int) -> AsyncAdmin:
    return AsyncAdmin(cluster.bootstrap, **options)  # type: ignore[arg-type]


async def members(cluster: DevCluster) -> Members:
    async with admin(cluster) as client:
        return await client.members()


async def create_topic(cluster: DevCluster, name: str) -> None:
    async with admin(cluster) as client:
        await client.create_topic(name, 2)


async def ledgermq(cluster: DevCluster, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command of the command line to its end, and check its exit status."""
    command = [sys.executable, "-m", "ledgermq", *arguments, "--bootstrap", cluster.bootstrap]
    ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == status, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended


def in_sync(cluster: DevCluster) -> bool:
    states = cluster.status()
    return len({(state.last_index, state.applied) for state in states}) == 1 and states[0].applied > 0


async def assert_logs_are_the_same_bytes(cluster: DevCluster) -> None:
    async def same() -> bool:
        return await asyncio.to_thread(in_sync, cluster)

    await eventually(same, "all replicas are level")
    logs = [state.data / "shard-0" / "log" for state in cluster.status()]
    async with admin(cluster) as client:
        (end,) = {status.shards[0].end_position for status in await client.cluster(timeout_ms=20_000)}
    for base in range(0, end, SEGMENT_BYTES):
        first, *others = [(log / f"{base:020}").read_bytes() for log in logs]
        assert all(other == first for other in others), f"the segments at {base} differ"


async def test_one_node_grows_to_three_under_load(growing: DevCluster, rng: random.Random) -> None:
    async with admin(growing) as client:
        with pytest.raises(LastVoterError):
            await client.remove_node(1, force=True)
        with pytest.raises(TransferRefusedError, match="no other voter"):
            await client.transfer_leadership()
    await create_topic(growing, "grow")
    async with Load(growing.bootstrap, "grow", rng, writers=1) as load:
        await load.more(rng.randrange(1, 2000))
        for _ in range(2):
            await asyncio.to_thread(growing.add_node)
            await load.more(rng.randrange(1, 1500))
        found = await members(growing)
        assert [(one.node, one.voter, one.suspect) for one in found.members] == [(n, True, False) for n in (1, 2, 3)]
        await asyncio.to_thread(growing.kill, found.leader)  # the ones that came later carry on
        await load.more(500)
        await asyncio.to_thread(growing.start)  # the nodes that were added are started again like the first one
    await assert_logs_are_the_same_bytes(growing)
    await assert_every_replica_holds(growing.bootstrap, "grow", load.acknowledged)


async def test_two_of_three_are_replaced_under_load(growing: DevCluster, rng: random.Random) -> None:
    """The nodes are replaced one after another. One of them may be the leader."""
    while len(growing.status()) < 3:
        await asyncio.to_thread(growing.add_node)
    first = [state.id for state in growing.status()]
    await create_topic(growing, "replace")
    async with Load(growing.bootstrap, "replace", rng, writers=1) as load:
        for gone in rng.sample(first, 2):
            await load.more(rng.randrange(1, 1500))
            await asyncio.to_thread(growing.add_node)
            await load.more(rng.randrange(1, 500))
            await asyncio.to_thread(growing.remove_node, gone)
            assert not (growing.directory / f"node-{gone}").exists()
        await load.more(500)
    nodes = [state.id for state in growing.status()]
    assert [one.node for one in (await members(growing)).members] == nodes
    assert len(set(nodes) - set(first)) == 2
    await assert_logs_are_the_same_bytes(growing)
    await assert_every_replica_holds(growing.bootstrap, "replace", load.acknowledged, nodes)


async def test_leadership_moves_under_load(three: DevCluster, rng: random.Random) -> None:
    await create_topic(three, "transfer")
    async with Load(three.bootstrap, "transfer", rng, writers=1) as load:
        for _ in range(2):
            await load.more(rng.randrange(1, 1000))
            to = rng.choice([node for node in (1, 2, 3) if node != (await members(three)).leader])
            ended = await ledgermq(three, "cluster", "transfer-leader", "--to", str(to))
            assert f"Node {to} leads shard 0" in ended.stderr
            assert ended.stdout == ""
        before = (await members(three)).leader
        told = json.loads((await ledgermq(three, "cluster", "transfer-leader", "--format", "json")).stdout)
        assert told["complete"]
        assert told["leader"] != before
        await load.more(200)
    await assert_logs_are_the_same_bytes(three)
    await assert_every_replica_holds(three.bootstrap, "transfer", load.acknowledged)


async def test_a_leader_that_is_stopped_hands_over(three: DevCluster) -> None:
    leader = (await members(three)).leader
    term = (await members(three)).term
    node = three.node(leader)
    node.send(signal.SIGTERM)
    assert await asyncio.to_thread(node.wait_stopped, 10)
    states = [state for state in await asyncio.to_thread(three.status) if state.pid]
    assert {state.term for state in states} == {term + 1}, "one election, and it is over when the process ends"
    assert len({state.leader for state in states} - {0, leader}) == 1
    assert "handed leadership to node" in node.log_tail(30)
    await asyncio.to_thread(three.start)


async def test_what_cannot_be_done_is_refused_with_the_way_out(
    three: DevCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each refusal the same leader leads."""
    monkeypatch.setattr("ledger.client.admin.members_admin._STARTS_WITHIN_MS", 0)
    found = await members(three)
    dead, other = (node for node in (1, 2, 3) if node != found.leader)
    async with admin(three) as client:
        with pytest.raises(UnknownNodeError, match="node 9 is no node of the cluster: its nodes are 1, 2, 3"):
            await client.remove_node(9)
        with pytest.raises(UnknownNodeError):
            await client.promote_node(9)
        with pytest.raises(TransferRefusedError, match="node 9 is no voter"):
            await client.transfer_leadership(9)
        with pytest.raises(NodeRefusedError, match=f"no node answers at {MISSING}: start node 4 there with `join"):
            await client.add_node(4, MISSING)
        with pytest.raises(NodeExistsError, match="node 2"):
            await client.add_node(2, MISSING)
        with pytest.raises(NodeExistsError, match="is the address of node 2: give"):
            await client.add_node(4, three.node(2).address)
        with pytest.raises(NotSuspectError):
            await client.recover_node(other, accept_loss=True)
        assert await client.transfer_leadership(found.leader) == found.leader, "it leads already"
        await asyncio.to_thread(three.kill, dead)
        ended = await ledgermq(three, "cluster", "transfer-leader", "--to", str(dead), status=1)
        (sentence,) = ended.stderr.splitlines()  # refused at once, or it did not take over in time
        assert sentence.startswith("Error: ")
        assert f"node {dead}" in sentence
        after = await client.members()
    assert (after.leader, after.term) == (found.leader, found.term)
    assert after.configuration_index == found.configuration_index
    await asyncio.to_thread(three.start)


async def test_the_life_of_a_node(three: DevCluster, rng: random.Random) -> None:
    """A node joins as a learner, becomes a voter, and is removed. Then it sends no messages, and cannot join again
    with its old data."""
    await create_topic(three, "life")
    state = await asyncio.to_thread(lambda: three.add_node(promote=False))
    try:
        await learns(three, state)
        async with Load(three.bootstrap, "life", rng, writers=1) as load:
            await load.more(200)
            await is_removed(three, state.id)
            term = (await members(three)).term
            await load.more(1500)
        assert (await members(three)).term == term, "it disturbed nobody"
        async with admin(three) as client:
            with pytest.raises(NodeRefusedError, match=r"has data already.*remove its data directory"):
                await client.add_node(state.id, state.address)
    finally:
        await asyncio.to_thread(three.remove_node, state.id)


async def learns(cluster: DevCluster, state: NodeState) -> None:
    node, roles = cluster.node(state.id), await roles_in(cluster)
    assert roles[state.id] == "learner"
    metrics = await scrape(cluster.node((await members(cluster)).leader).http)
    assert (metrics["ledgermq_raft_members"], metrics["ledgermq_raft_learners"]) == (4, 1)
    async with admin(cluster) as client:
        with pytest.raises(TransferRefusedError, match="is no voter"):
            await client.transfer_leadership(state.id)
        await client.add_node(state.id, state.address)  # once more: no error
        node.send(signal.SIGSTOP)
        with pytest.raises(NodeBehindError, match=f"node {state.id} does not answer"):
            await client.promote_node(state.id)
        node.send(signal.SIGCONT)
        await client.promote_node(state.id)
        await client.promote_node(state.id)  # once more: no error
        found = (await client.members()).get(state.id)
        assert found is not None
        assert found.voter


async def is_removed(cluster: DevCluster, removed: int) -> None:
    node = cluster.node(removed)
    await ledgermq(cluster, "cluster", "remove-node", "--force", str(removed))

    async def says_so() -> bool:
        return "was removed from cluster" in await not_ready(node.http)

    await eventually(says_so, "the removed node is not ready, and says why")
    assert "was removed from cluster" in node.log_tail(5)
    assert (await roles_in(cluster))[removed] == "removed", "it was named as a bootstrap server"


async def roles_in(cluster: DevCluster) -> dict[int, str]:
    shown = json.loads((await ledgermq(cluster, "cluster", "info", "--format", "json")).stdout)
    return {row["node"]: row["role"] for row in shown["nodes"]}


async def test_what_a_suspect_lost_is_given_up_only_by_an_operator(three: DevCluster) -> None:
    """One voter is lost for good, and one voter is a suspect. The third voter alone is no majority."""
    await asyncio.to_thread(three.stop)
    suspect = three.node(2)
    shard = suspect.data / "shard-0"
    (shard / "clean").unlink()
    (shard / "boot").write_bytes(BootRecord("another run of this machine", "async").encode())
    for node in (1, 2):
        three.node(node).spawn()
    try:

        async def suspected() -> bool:
            states = [state.role for state in await asyncio.to_thread(three.status)]
            return "starting" not in states and await is_suspect()

        async def is_suspect() -> bool:
            async with admin(three) as client:
                return any(shard.suspect for node in await client.cluster() for shard in node.shards)

        await eventually(suspected, "the node says that it is suspect")
        assert ", suspect" in (await ledgermq(three, "cluster", "info")).stdout
        assert (await scrape(suspect.http))["ledgermq_raft_suspect"] == 1
        explained = await ledgermq(three, "cluster", "recover", "--node", "2", status=1)
        assert "recover --node 2 --accept-loss" in explained.stderr
        assert (shard / "suspect").exists()

        told = await ledgermq(three, "cluster", "recover", "--node", "2", "--accept-loss", "--format", "json")
        assert [doubt["accepted"] for doubt in json.loads(told.stdout)] == [True]
        assert not (shard / "suspect").exists()
        found = await members(three)
        assert found.leader in (1, 2)
        assert (await scrape(suspect.http))["ledgermq_raft_suspect"] == 0
        await ledgermq(three, "cluster", "recover", "--node", "2", "--accept-loss", status=1)
    finally:
        await asyncio.to_thread(three.start)
    assert await until(lambda: in_sync(three), "all are level again")
