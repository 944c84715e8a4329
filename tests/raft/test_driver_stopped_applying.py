"""A replica that cannot apply a committed entry: it applies nothing more, does not lead, and still holds entries."""

from __future__ import annotations

from raft.core import Role
from tests.raft.driver_cluster import DriverCluster, Member, TestProposal


def propose(member: Member, *bodies: bytes) -> None:
    for body in bodies:
        proposal = TestProposal(body)
        member.driver.check_room(len(body))
        member.driver.propose(proposal)


def bodies(member: Member) -> list[bytes]:
    return [body for _, body in member.machine.applied if body.startswith(b"m")]


def test_a_follower_applies_nothing_more_and_still_counts_for_the_majority() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    old, other = (cluster[node] for node in (1, 2, 3) if node != leader.node)
    old.machine.unknown = (b"m2",)
    propose(leader, b"m1", b"m2", b"m3")
    cluster.run()  # this would not end if the stopped replica scheduled another turn
    cluster.tick(5)
    assert bodies(old) == [b"m1"]
    assert [reason.index for reason in old.machine.stopped] == [old.driver.applied + 1]
    assert old.driver.cannot_apply is not None

    cluster.cut_off = {other.node}
    propose(leader, b"m4")
    cluster.tick(5)
    assert bodies(leader) == [b"m1", b"m2", b"m3", b"m4"], "the leader and the stopped replica are a majority"
    assert bodies(old) == [b"m1"]
    assert len(old.machine.stopped) == 1, "told once"


def test_a_stopped_replica_votes_and_does_not_stand() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    old, other = (cluster[node] for node in (1, 2, 3) if node != leader.node)
    old.machine.unknown = (b"m1",)
    propose(leader, b"m1")
    cluster.tick(5)
    cluster.cut_off = {leader.node}
    cluster.tick(60)
    assert other.driver.leads
    assert old.driver.raft.leader == other.node


def test_a_leader_hands_over_when_it_cannot_apply() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    leader.machine.unknown = (b"m1",)
    propose(leader, b"m1")
    cluster.tick(30)
    assert not leader.driver.leads
    (leading,) = [cluster[node] for node in (1, 2, 3) if cluster[node].driver.leads]
    assert bodies(leading) == [b"m1"]


def test_without_another_node_that_can_apply_there_is_no_leader() -> None:
    cluster = DriverCluster(1)
    only = cluster.elect()
    only.machine.unknown = (b"m1",)
    propose(only, b"m1")
    cluster.tick(60)
    assert only.driver.raft.role is Role.FOLLOWER
