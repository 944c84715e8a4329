"""A snapshot that cannot be of this shard is refused before it replaces log or state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import google_crc32c
import pytest

from raft.configuration_entry import decode_configuration, encode_configuration
from raft.core import InvalidMessage, SnapshotChunk
from raft.snapshot_installation import MAX_SNAPSHOT_BYTES
from raft.snapshot_piece import SnapshotPiece
from store import Snapshot, SnapshotOffer
from tests.raft.driver_cluster import DriverCluster, Member
from tests.raft.test_raft_log_start import agree, fill, move, propose


@pytest.fixture
def cluster() -> DriverCluster:
    """Return three nodes whose log begins after a snapshot."""
    cluster = DriverCluster(3)
    leader = cluster.elect()
    fill(cluster, leader, 4)
    move(cluster, leader)
    return cluster


def roles(cluster: DriverCluster) -> tuple[Member, Member]:
    """Return the leader and a follower."""
    leader = next(member for member in cluster.members.values() if member.driver.leads)
    return leader, next(member for member in cluster.members.values() if member is not leader)


def genuine(leader: Member) -> Snapshot:
    """Return a snapshot of this shard at an index that no node has yet."""
    snapshot = leader.snapshots.snapshot
    assert snapshot is not None
    return replace(snapshot, index=leader.log.last_index + 1000, end=snapshot.end * 1000)


def send(leader: Member, victim: Member, snapshot: Snapshot, **offered: Any) -> None:
    """Let the victim handle the whole snapshot as one piece, in the leader's name."""
    data = snapshot.encode()
    offer = SnapshotOffer(**{"index": snapshot.index, "term": snapshot.term, **_described(data), **offered})
    chunk = SnapshotChunk(leader.node, victim.node, leader.driver.raft.term, snapshot.index, 0)
    victim.driver.receive_snapshot(chunk, SnapshotPiece(offer, data, google_crc32c.value(data)))


def _described(data: bytes) -> dict[str, int]:
    return {"size": len(data), "crc": google_crc32c.value(data)}


def refused(cluster: DriverCluster, snapshot: Snapshot, why: str, **offered: Any) -> None:
    leader, victim = roles(cluster)
    log, applied = victim.bytes_of_log(), list(victim.machine.applied)
    with pytest.raises(InvalidMessage, match=why):
        send(leader, victim, snapshot, **offered)
    assert (victim.bytes_of_log(), victim.machine.applied, victim.machine.restored) == (log, applied, [])
    propose(cluster, leader, b"after")
    cluster.tick(8)
    agree(cluster, 1, 2, 3)
    cluster.restart(victim.node)
    cluster.tick(8)
    agree(cluster, 1, 2, 3)


def test_the_same_snapshot_without_a_flaw_is_installed(cluster: DriverCluster) -> None:
    """Otherwise the tests below would pass for another reason."""
    leader, victim = roles(cluster)
    send(leader, victim, genuine(leader))
    assert victim.machine.restored == [genuine(leader).index]


@pytest.mark.parametrize("change", [{"segment_bytes": 1 << 20}, {"max_entry_bytes": 1}], ids=str)
def test_a_snapshot_of_another_shard_is_refused(cluster: DriverCluster, change: dict[str, Any]) -> None:
    snapshot = genuine(roles(cluster)[0])
    other = encode_configuration(replace(decode_configuration(snapshot.configuration), **change))
    refused(cluster, replace(snapshot, configuration=other), "this shard has segments of")


@pytest.mark.parametrize("configuration", [b"", b"\xff" * 9], ids=["empty", "no protobuf"])
def test_a_snapshot_with_an_impossible_configuration_is_refused(cluster: DriverCluster, configuration: bytes) -> None:
    snapshot = replace(genuine(roles(cluster)[0]), configuration=configuration)
    refused(cluster, snapshot, "a snapshot with an impossible configuration")


def test_a_snapshot_whose_state_cannot_be_read_is_refused(cluster: DriverCluster) -> None:
    refused(cluster, replace(genuine(roles(cluster)[0]), state=b"}{"), "whose state cannot be read")


@pytest.mark.parametrize("newer", [-1, 1])
def test_a_snapshot_has_a_term_up_to_the_leaders_term(cluster: DriverCluster, newer: int) -> None:
    leader = roles(cluster)[0]
    term = leader.driver.raft.term + 1 if newer > 0 else 0
    refused(cluster, replace(genuine(leader), term=term), f"a snapshot of term {term} from a leader of term")


@pytest.mark.parametrize("end", [0, 4, (1 << 20) + 1, 1 << 63, (1 << 64) - 8])
def test_a_snapshot_that_ends_where_no_entry_can_end_is_refused(cluster: DriverCluster, end: int) -> None:
    refused(cluster, replace(genuine(roles(cluster)[0]), end=end), f"whose last entry ends at position {end}")


def test_a_snapshot_that_contradicts_this_log_is_refused(cluster: DriverCluster) -> None:
    """The follower has entries that are not committed, and the forged snapshot ends with one of them."""
    leader, victim = roles(cluster)
    other = next(member.node for member in cluster.members.values() if member not in (leader, victim))
    cluster.cut_off = {other}
    victim.files.holds_back = leader.files.holds_back = True
    propose(cluster, leader, b"not committed")
    assert victim.log.last_index > victim.driver.raft.commit
    tail = victim.log.tail
    snapshot = replace(genuine(leader), index=tail.index, term=tail.term, chain=tail.chain ^ 1, end=tail.end)
    log = victim.bytes_of_log()
    with pytest.raises(InvalidMessage, match=f"a snapshot whose chain at entry {tail.index} is"):
        send(leader, victim, snapshot)
    assert victim.bytes_of_log() == log


@pytest.mark.parametrize("size", [-1, MAX_SNAPSHOT_BYTES + 1])
def test_a_snapshot_of_an_impossible_size_is_refused_with_its_first_piece(cluster: DriverCluster, size: int) -> None:
    refused(cluster, genuine(roles(cluster)[0]), f"a snapshot of {size} bytes", size=size)
