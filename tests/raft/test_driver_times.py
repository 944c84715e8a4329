"""The driver remembers when each replica wrote an entry, when followers acknowledged it, and when it was committed."""

from __future__ import annotations

from tests.raft.driver_cluster import DriverCluster, Member, TestProposal


def propose(member: Member, body: bytes) -> int:
    """Propose an entry, run the turn, and return the index of the entry."""
    proposal = TestProposal(body)
    member.driver.check_room(len(body))
    member.driver.propose(proposal)
    member.turns.popleft()()
    assert proposal.header is not None
    return proposal.header.index


def test_each_step_of_an_entry_has_its_time() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    near, far = (node for node in cluster.nodes if node != leader.node)
    leader.files.holds_back = True
    began_ms = cluster.steady_ms
    index = propose(leader, b"m")
    cluster.cut_off.add(far)
    cluster.steady_ms += 3
    cluster.hand_over_to(near)
    cluster.steady_ms += 4
    cluster.hand_over_to(leader.node)
    cluster.steady_ms += 5
    leader.files.finish()
    cluster.run()

    times = leader.driver.times
    assert times.written.time_of(index) == began_ms
    assert cluster[near].driver.times.written.time_of(index) == began_ms + 3
    assert times.acknowledged[near].time_of(index) == began_ms + 7
    assert times.held.time_of(index) == times.committed.time_of(index) == began_ms + 12
    assert times.applied.time_of(index) == began_ms + 12
    assert times.acknowledged[far].time_of(index) is None
    assert cluster[far].driver.times.written.time_of(index) is None


def test_nothing_is_known_of_entries_from_before_a_restart() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    index = propose(leader, b"m")
    cluster.run()
    follower = next(node for node in cluster.nodes if node != leader.node)
    member = cluster.restart(follower)
    assert member.driver.times.written.time_of(index) is None
    assert member.driver.times.written.forgotten == index
    cluster.tick(2)
    later = propose(leader, b"m2")
    cluster.run()
    assert member.driver.times.written.time_of(later) is not None
    assert member.driver.times.written.time_of(index) is None


def test_a_new_leader_forgets_the_acknowledgements_of_an_earlier_leadership() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    propose(leader, b"m")
    cluster.run()
    assert leader.driver.times.acknowledged
    cluster.cut_off.add(leader.node)
    cluster.tick(10)
    assert not leader.driver.leads
    assert not leader.driver.times.acknowledged
