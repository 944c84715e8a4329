"""Tests of drivers whose logs contradict each other: a majority is put back to an old copy of its data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from raft.configuration_entry import ShardConfiguration, decode_configuration, encode_configuration
from raft.core import Append, AppendResponse, CommittedEntry, Diverged, InvalidMessage, SnapshotChunk
from raft.snapshot_piece import SnapshotPiece
from store import EntryKind, Flaw, ForkedError, MemoryDisk, SnapshotOffer
from store.log.entry import HEADER_SIZE
from tests.raft.driver_cluster import LOG_DIRECTORY, DriverCluster, Member, TestProposal


class PutBackCluster(DriverCluster):
    """Three nodes. Nodes 1 and 2 can be put back to an old copy of their disks."""

    def __init__(self) -> None:
        super().__init__(3)
        self.copies: dict[int, MemoryDisk] = {}

    def copy(self) -> None:
        self.copies = {node: self[node].disk.after_kill() for node in (1, 2)}

    def put_back(self) -> Member:
        """Start nodes 1 and 2 on their old copies, and let one of them lead. Node 3 is cut off."""
        self.mail.clear()
        self.cut_off = {3}
        for node in (1, 2):
            self.members[node] = Member(self, node, self.copies[node])
        self.restart(3)
        return self.elect()

    def _hand_over(self, message, beside) -> None:  # type: ignore[no-untyped-def]
        try:
            super()._hand_over(message, beside)
        except ForkedError:  # the transport breaks the stream, and the leader notices
            self[message.sender].driver.unreachable(message.receiver)


def write(cluster: DriverCluster, leader: Member, *values: bytes) -> list[TestProposal]:
    """Let the leader commit these entries one by one, so that each tells that the earlier ones are committed."""
    proposals = []
    for value in values:
        proposals.append(TestProposal(value))
        leader.driver.check_room(len(value))
        leader.driver.propose(proposals[-1])
        cluster.run()
        cluster.tick(2)
    return proposals


def removal(leader: Member, node: int) -> tuple[TestProposal, ShardConfiguration]:
    configuration = decode_configuration(leader.driver.configuration()).without(node)
    return TestProposal(encode_configuration(configuration), EntryKind.CONFIGURATION), configuration


@pytest.mark.parametrize("own_term", [True, False], ids=["other terms", "the same term"])
def test_both_sides_refuse_entries_until_one_side_is_removed(own_term: bool) -> None:
    """In the same term, the leader of the old copies and the leader before it have entries with equal index and term
    and other bytes. The chain proves it."""
    cluster = PutBackCluster()
    cluster.copy()  # of term 1, so these two begin the same term again
    first = cluster.elect()
    if own_term:
        cluster.copy()
    write(cluster, first, b"m1", b"m2", b"m3")
    leader = cluster.put_back()
    assert (leader.driver.raft.term == cluster[3].log.tail.term) is not own_term
    done = write(cluster, leader, b"other 1", b"other 2", b"other 3", b"other 4", b"other 5")
    assert [proposal.outcome for proposal in done] == [True] * 5, "nobody knows better"

    cluster.cut_off = set()
    cluster.tick(30)
    third = cluster[3]
    leader = cluster.elect()
    assert leader is not third, "a majority agrees against node 3"
    assert list(leader.driver.raft.divergences) == [3]
    assert leader.node in third.driver.raft.divergences
    assert leader.machine.divergences[-1] == leader.driver.raft.divergences
    with pytest.raises(Diverged, match="on node 3"):
        leader.driver.check_room(1)
    assert third.driver.failure is leader.driver.failure is None

    proposal, configuration = removal(leader, 3)
    leader.driver.change(proposal, configuration.core)
    cluster.tick(4)
    assert proposal.outcome is True
    assert not leader.driver.raft.divergences
    assert leader.machine.divergences[-1] == {}
    (more,) = write(cluster, leader, b"more")
    assert more.outcome is True
    assert b"other 5" in third.bytes_of_log() or b"m3" in third.bytes_of_log(), "node 3 keeps what it has"


def test_a_leader_whose_log_ends_before_the_commit_index_of_a_follower_notes_the_divergence() -> None:
    """Both logs have entries of the same index and term and other bytes. The follower names an entry that the leader
    has too."""
    cluster = PutBackCluster()
    cluster.copy()
    write(cluster, cluster.elect(), b"m1", b"m2", b"m3", b"m4")
    leader, third = cluster.put_back(), cluster[3]
    write(cluster, leader, b"other 1")
    assert leader.driver.raft.term == third.log.tail.term
    assert leader.log.last_index < third.log.last_index
    cluster.cut_off = set()
    cluster.tick(30)
    assert leader.driver.leads
    assert list(leader.driver.raft.divergences) == [3]
    with pytest.raises(Diverged, match="on node 3"):
        leader.driver.check_room(1)


def led() -> tuple[DriverCluster, Member, Member]:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    write(cluster, leader, b"m1", b"m2")
    return cluster, leader, next(member for member in cluster.members.values() if member is not leader)


def claim(leader: Member, follower: Member, entry: CommittedEntry) -> AppendResponse:
    return AppendResponse(follower.node, leader.node, leader.driver.raft.term, rejected=True, contradicted=entry)


def test_a_claim_that_the_leaders_log_does_not_prove_changes_nothing() -> None:
    _, leader, follower = led()
    raft = leader.driver.raft
    term, last = raft.term, raft.log.last_index
    leader.driver.receive(claim(leader, follower, CommittedEntry(last, term, leader.log.chain(last))))  # an equal entry
    leader.driver.receive(claim(leader, follower, CommittedEntry(last + 1, term, 7)))  # an entry it does not have
    for impossible in (CommittedEntry(last, term), CommittedEntry(0, 1, 7), CommittedEntry(last, term + 1)):
        with pytest.raises(InvalidMessage):
            leader.driver.receive(claim(leader, follower, impossible))
    assert not raft.divergences
    assert leader.driver.leads


def test_a_range_whose_chain_is_damaged_in_transit_is_no_divergence() -> None:
    """The checksum of an entry does not cover its chain. A range that is sent again has other bits damaged."""
    _, leader, follower = led()
    raft, last = leader.driver.raft, leader.log.last_index + 1
    leader.driver.propose(TestProposal(b"m3"))
    leader.driver._end_turn()
    append = Append(leader.node, follower.node, raft.term, last - 1, raft.term, (), last, raft.commit)
    for bit in (1, 2, 4):
        damaged = bytearray(leader.log.view_range(last, last))
        damaged[HEADER_SIZE - 1] ^= bit
        with pytest.raises(ForkedError):
            follower.driver.receive_append(append, bytes(damaged))
        assert not follower.driver.raft.divergences
    follower.driver.receive_append(append, bytes(leader.log.view_range(last, last)))
    assert follower.log.last_index == last


def test_a_claim_of_an_equal_term_counts_if_the_chains_differ() -> None:
    _, leader, follower = led()
    entry = CommittedEntry(3, leader.driver.raft.term, leader.log.chain(3) ^ 1)
    leader.driver.receive(claim(leader, follower, entry))
    assert list(leader.driver.raft.divergences) == [follower.node]
    assert "other bytes" in str(leader.driver.raft.divergences[follower.node])


def test_a_node_that_is_no_member_is_refused_and_not_noted() -> None:
    """An operator could not remove it, so the shard would take no writes for ever."""
    cluster, _, follower = led()
    raft, last = follower.driver.raft, follower.log.last_index
    follower.driver.receive_append(Append(77, follower.node, raft.term + 1, 2, 1, (), 2, 2), b"")
    assert not raft.divergences
    assert follower.log.last_index == last
    leader = cluster.elect()
    write(cluster, leader, b"more")


def test_a_snapshot_that_ends_with_another_entry_than_the_committed_one_is_a_divergence() -> None:
    cluster, leader, follower = led()
    raft = follower.driver.raft
    chunk = SnapshotChunk(leader.node, follower.node, raft.term + 1, 2, 0)
    offer = SnapshotOffer(index=2, term=raft.log.term(2) + 1, size=1, crc=0)
    follower.driver.receive_snapshot(chunk, SnapshotPiece(offer, b"x", 0))
    assert list(raft.divergences) == [leader.node]
    answer = next(message for message, _ in cluster.mail if isinstance(message, AppendResponse))
    assert answer.contradicted == CommittedEntry(2, raft.log.term(2))


def test_a_range_with_other_bytes_in_its_middle_is_a_divergence() -> None:
    """Its first entries are equal, so its chain continues this log."""
    cluster, leader, follower = led()
    last = leader.log.last_index
    write(cluster, leader, b"m3")
    cluster.cut_off = {follower.node}
    range_of_leader = leader.log.reading.read_range(last + 1, last + 1)
    term = leader.driver.raft.term
    other = PutBackCluster()
    same = other.elect()
    assert same.driver.raft.term == term
    write(other, same, b"m1", b"M2", b"m3")
    received = same.log.reading.read_range(3, last + 1)
    assert len(received) > len(range_of_leader)
    append = Append(leader.node, follower.node, term, 2, term, (), 2, last)
    follower.driver.receive_append(append, received)
    assert list(follower.driver.raft.divergences) == [leader.node]
    assert follower.log.last_index == last + 1


def test_a_leader_that_diverges_from_one_follower_leads_the_others_and_changes_members() -> None:
    cluster, leader, follower = led()
    entry = CommittedEntry(3, leader.driver.raft.term, leader.log.chain(3) ^ 1)
    leader.driver.receive(claim(leader, follower, entry))
    cluster.tick(20)
    assert leader.driver.leads
    with pytest.raises(Diverged):
        leader.driver.check_room(1)
    proposal, configuration = removal(leader, follower.node)
    leader.driver.change(proposal, replace(configuration).core)
    cluster.tick(4)
    assert proposal.outcome is True
    write(cluster, leader, b"more")


def test_a_leader_that_cannot_append_what_it_accepted_stops_leading() -> None:
    """The state machine has given the entry an offset. If this leader went on, it would give the next entry the offset
    after it, and no replica could apply that entry."""
    cluster, leader, follower = led()
    proposal = TestProposal(b"m3")
    leader.driver.check_room(2)
    leader.driver.propose(proposal)
    leader.driver.receive(claim(leader, follower, CommittedEntry(3, leader.driver.raft.term, leader.log.chain(3) ^ 1)))
    assert leader.driver.leads
    leader.turns.popleft()()
    assert (proposal.header, proposal.outcome) == (None, False)
    assert leader.node not in [node for node, member in cluster.members.items() if member.driver.leads]
    assert cluster.elect().driver.leads


@pytest.mark.parametrize("offset", [0, 8, HEADER_SIZE - 1], ids=["magic", "size", "chain"])
def test_a_damaged_entry_before_a_range_that_is_sent_again_is_no_divergence(offset: int) -> None:
    """The damage is in this node's own log. The node works, and takes the range again after a repair."""
    cluster, leader, follower = led()
    write(cluster, leader, b"m3")
    driver, last, found = follower.driver, leader.log.last_index, list[Flaw]()
    follower.log.reading.on_damage = found.append
    before = follower.bytes_of_log()
    again = leader.log.reading.read_range(last - 1, last)
    append = Append(leader.node, follower.node, driver.raft.term, last - 2, driver.raft.term, (), last, last)
    follower.disk.flip(LOG_DIRECTORY / f"{0:020}", follower.log.reading.position(last - 2) + offset, bit=4)
    for _ in range(2):  # a fork is believed when it is seen twice
        driver.receive_append(append, again)
    assert [flaw.index for flaw in found] == [last - 2] * 2
    assert not driver.raft.divergences
    assert driver.failure is None
    follower.disk.flip(LOG_DIRECTORY / f"{0:020}", follower.log.reading.position(last - 2) + offset, bit=4)
    driver.receive_append(append, again)
    write(cluster, leader, b"m4")
    assert follower.bytes_of_log() == leader.bytes_of_log() != before


def test_a_damaged_entry_in_the_middle_of_a_range_that_is_sent_again_is_no_divergence() -> None:
    cluster, leader, follower = led()
    write(cluster, leader, b"m3")
    driver, last = follower.driver, leader.log.last_index
    range_of_leader = leader.log.reading.read_range(2, last - 1)
    append = Append(leader.node, follower.node, driver.raft.term, 1, leader.log.term(1), (), last - 1, last)
    at = follower.log.reading.position(last - 1) + HEADER_SIZE - 1
    follower.disk.flip(LOG_DIRECTORY / f"{0:020}", at)
    driver.receive_append(append, range_of_leader)
    assert not driver.raft.divergences
