"""The driver's order of duties: group writes, acknowledgements, applying, and failures of the disk."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from raft.applier import APPLY_ENTRIES_PER_TURN, COMMAND_WEIGHT
from raft.configuration_entry import ShardConfiguration, encode_configuration
from raft.core import Append, Busy, ChangeRefused, Crowded, NotLeader, Transferring
from raft.driver import TRY_AGAIN_TICKS
from raft.errors import CutFailedError
from store import (
    CommitLog,
    CorruptRangeError,
    DiskFailedError,
    EntryDraft,
    EntryKind,
    ForkedError,
    Header,
    LogDamagedError,
    LogSettings,
    MemoryDisk,
    NoSpaceError,
    OutOfFilesError,
    Readable,
    StoreError,
)
from tests.raft.driver_cluster import LOG_DIRECTORY, SEGMENT_BYTES, DriverCluster, Member, TestProposal


def propose(member: Member, *bodies: bytes) -> list[TestProposal]:
    proposals = [TestProposal(body) for body in bodies]
    for proposal in proposals:
        member.driver.check_room(len(proposal.draft.body))
        member.driver.propose(proposal)
    return proposals


def fill_segment(cluster: DriverCluster, leader: Member) -> None:
    """Fill the segment, so that the next message of this size needs a new segment. A full disk refuses new segments."""
    for _ in range(3):
        propose(leader, b"." * 20_000)
        cluster.run()


def bodies(member: Member) -> list[bytes]:
    return [body for _, body in member.machine.applied if body.startswith(b"m")]


def test_what_is_proposed_in_one_turn_is_one_write_and_one_message_to_each_follower() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    leader.sent_ranges.clear()

    proposals = propose(leader, b"m1", b"m2", b"m3")
    assert [proposal.header for proposal in proposals] == [None] * 3
    cluster.run()

    ranges = [append for append in leader.sent_ranges if append.last_index > append.prev_index]
    assert [append.last_index - append.prev_index for append in ranges] == [3, 3]
    assert [proposal.outcome for proposal in proposals] == [True] * 3


def test_a_group_write_takes_one_turn_of_the_loop() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    propose(leader, b"m1")
    (turn,) = leader.turns
    leader.turns.clear()
    turn()
    assert not leader.turns


class Following(TestProposal):
    """A proposal that makes another proposal when it is appended."""

    def __init__(self, member: Member, body: bytes) -> None:
        super().__init__(body)
        self.member = member
        self.next: list[TestProposal] = []

    def appended(self, header: Header) -> None:
        super().appended(header)
        self.next = propose(self.member, b"m2")


def test_what_is_proposed_in_the_middle_of_a_group_write_has_a_turn_of_its_own() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    first = Following(leader, b"m1")
    leader.driver.propose(first)
    cluster.run()
    assert [proposal.outcome for proposal in (first, *first.next)] == [True, True]


def test_the_ranges_of_a_turn_go_to_all_followers_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are equal for several followers are then encoded once."""
    monkeypatch.setattr("raft.core.leader.MAX_APPEND_BYTES", 1)
    cluster = DriverCluster(3)
    leader = cluster.elect()
    together: list[list[tuple[int, int]]] = []
    replicate = leader.replicate

    def recorded(ranges: Iterable[tuple[Append, Readable]]) -> None:
        drawn = list(ranges)
        together.append([(append.receiver, append.last_index) for append, entries in drawn if entries])
        replicate(drawn)

    monkeypatch.setattr(leader, "replicate", recorded)
    first = leader.log.last_index + 1
    propose(leader, b"m1", b"m2", b"m3")
    cluster.run()
    others = [member for member in cluster.members if member != leader.node]
    assert together[0] == [(other, index) for other in others for index in range(first, first + 3)]


def test_an_unreadable_range_keeps_no_other_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raft.core.leader.MAX_APPEND_BYTES", 1)
    cluster = DriverCluster(3)
    leader = cluster.elect()
    view_range, first = leader.log.view_range, leader.log.last_index + 1

    def damaged(start: int, last: int) -> memoryview:
        if start == first:
            raise DiskFailedError(Path("segment"), "Input/output error")
        return view_range(start, last)

    monkeypatch.setattr(leader.log, "view_range", damaged)
    leader.sent_ranges.clear()
    propose(leader, b"m1", b"m2")
    cluster.run()
    assert [append.last_index for append in leader.sent_ranges if append.last_index > append.prev_index] == [
        first + 1,
        first + 1,
    ]
    assert leader.driver.failure is not None


def test_replicas_end_with_the_same_bytes_and_apply_the_same_entries() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    for number in range(20):
        propose(leader, b"m%d" % number, b"m" * 700)
        cluster.run()
    cluster.tick()

    logs = {member.bytes_of_log() for member in cluster.members.values()}
    assert len(logs) == 1
    assert len({tuple(member.machine.applied) for member in cluster.members.values()}) == 1
    assert len(bodies(leader)) == 40


def test_a_proposal_is_settled_only_when_a_majority_has_it() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    cluster.cut_off = set(cluster.nodes) - {leader.node}
    (alone,) = propose(leader, b"m1")
    cluster.run()
    assert alone.header is not None
    assert alone.outcome is None

    cluster.cut_off = {cluster.cut_off.pop()}
    cluster.tick(5)  # the leader asks the follower again, because the range was lost
    assert alone.outcome is True


def test_who_loses_the_lead_tells_those_who_wait_and_takes_over_the_new_leaders_log() -> None:
    cluster = DriverCluster(3)
    old = cluster.elect()
    cluster.cut_off = {old.node}
    (lost,) = propose(old, b"m-lost")
    cluster.run()
    new = cluster.elect()
    assert new is not old
    assert lost.outcome is False  # the leader stepped down, because it heard no majority
    assert (old.driver.given_up, new.driver.given_up) == (1, 0)
    propose(new, b"m-kept")
    cluster.run()

    cluster.cut_off = set()
    cluster.tick(10)
    assert old.bytes_of_log() == new.bytes_of_log()
    assert bodies(old) == [b"m-kept"]


def test_a_follower_refuses_proposals_and_names_the_leader() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    follower = cluster[next(node for node in cluster.nodes if node != leader.node)]
    with pytest.raises(NotLeader) as refusal:
        follower.driver.check_room(1)
    assert refusal.value.leader == leader.node


def test_the_uncommitted_tail_is_bounded_and_a_busy_leader_appends_nothing() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    cluster.cut_off = set(cluster.nodes) - {leader.node}
    propose(leader, b"m" * 20_000)
    with pytest.raises(Busy):
        leader.driver.check_room(20_000)  # a queued proposal counts too
    cluster.run()
    last = leader.log.last_index
    with pytest.raises(Busy):
        leader.driver.check_room(20_000)
    cluster.run()
    assert leader.log.last_index == last


def test_proposals_and_reads_that_wait_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raft.driver.MAX_PROPOSALS", 3)
    monkeypatch.setattr("raft.reads.MAX_READS", 2)
    cluster = DriverCluster(3)
    leader = cluster.elect()
    cluster.cut_off = set(cluster.nodes) - {leader.node}
    for _ in range(3):
        propose(leader, b"m")
    with pytest.raises(Crowded, match="3 proposals wait"):
        leader.driver.check_room(1)
    answers: list[bool] = []
    leader.driver.read_index(answers.append)
    leader.driver.read_index(answers.append)
    with pytest.raises(Crowded, match="2 reads wait"):
        leader.driver.read_index(answers.append)
    cluster.cut_off = set()
    cluster.run()
    cluster.tick(5)
    assert answers == [True, True]
    leader.driver.check_room(1)


def test_in_sync_mode_nothing_counts_before_it_is_flushed() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    for member in cluster.members.values():
        member.files.holds_back = True
    (proposal,) = propose(leader, b"m1")
    cluster.run()
    assert all(member.log.last_index == leader.log.last_index for member in cluster.members.values())
    assert proposal.outcome is None

    leader.files.finish()
    cluster.run()
    assert proposal.outcome is None  # one node of three is not a majority
    follower = next(member for member in cluster.members.values() if member is not leader)
    follower.files.finish()
    cluster.run()
    assert proposal.outcome is True


def test_a_killed_node_comes_back_with_its_log_and_catches_up() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    propose(leader, b"m1")
    cluster.run()
    cluster.cut_off = {leader.node}
    new = cluster.elect()
    propose(new, b"m2")
    cluster.run()

    cluster.cut_off = set()
    back = cluster.restart(leader.node)
    cluster.tick(10)
    assert bodies(back) == [b"m1", b"m2"]
    assert back.bytes_of_log() == new.bytes_of_log()


def applied_in_one_turn(only: Member) -> int:
    """Let the only node of a cluster write, flush and commit its proposals. Return how many entries it applies in the
    turn of the commit."""
    only.turns.popleft()()  # written
    before = len(only.machine.applied)
    only.files.finish()
    only.turns.popleft()()
    return len(only.machine.applied) - before


def test_a_long_tail_is_applied_in_slices_so_that_no_turn_gets_long() -> None:
    cluster = DriverCluster(1)
    only = cluster.elect()
    only.files.holds_back = True
    count = APPLY_ENTRIES_PER_TURN * 2 + 10
    propose(only, *[b"m%d" % number for number in range(count)])
    applied_before = len(only.machine.applied)
    assert applied_in_one_turn(only) == APPLY_ENTRIES_PER_TURN
    cluster.run()
    assert len(only.machine.applied) - applied_before == count


@pytest.mark.parametrize(("kind", "at_once"), [(EntryKind.COMMAND, 3), (EntryKind.BATCH, 10)])
def test_few_large_commands_are_applied_in_one_turn(
    kind: EntryKind, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command can name thousands of queues, each of which takes time. A batch of that size takes little."""
    monkeypatch.setattr("raft.applier.APPLY_BYTES_PER_TURN", 3 * COMMAND_WEIGHT * 1_000)
    cluster = DriverCluster(1)
    only = cluster.elect()
    only.files.holds_back = True
    for _ in range(10):
        only.driver.propose(TestProposal(b"x" * 1_000, kind))
    applied_before = len(only.machine.applied)
    assert applied_in_one_turn(only) == at_once
    cluster.run()
    assert len(only.machine.applied) - applied_before == 10


def test_a_read_index_waits_for_a_round_and_for_the_state() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    answers: list[bool] = []
    cluster.cut_off = set(cluster.nodes) - {leader.node}
    leader.driver.read_index(answers.append)
    cluster.run()
    assert answers == []
    cluster.cut_off = set()
    cluster.tick()
    assert answers == [True]


def test_a_read_of_a_leader_that_was_deposed_is_refused() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    answers: list[bool] = []
    cluster.cut_off = {leader.node}
    leader.driver.read_index(answers.append)
    cluster.elect()
    cluster.tick(5)
    assert answers == [False]


def test_a_leader_with_a_full_disk_makes_room_for_another_and_comes_back_by_itself() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    fill_segment(cluster, leader)
    leader.disk.fail("create", NoSpaceError(Path("/log")))
    (refused,) = propose(leader, b"." * 20_000)
    cluster.run()
    assert refused.outcome is False
    assert refused.header is None
    assert not leader.driver.leads
    with pytest.raises(NoSpaceError):
        leader.driver.check_room(1)

    other = cluster.elect()
    assert other is not leader
    propose(other, b"m2")
    cluster.run()
    leader.disk.heal()
    cluster.tick(TRY_AGAIN_TICKS + 5)
    assert leader.driver.failure is None
    assert leader.bytes_of_log() == other.bytes_of_log()
    assert bodies(leader) == [b"m2"]


def test_a_follower_that_cannot_write_is_not_sent_again_and_again_what_it_cannot_take() -> None:
    """The follower's log end differs from the leader's log (protocol seed 32379). A rejection of each range that does
    not continue the log would make the leader send all of them again, as fast as the network allows."""
    cluster = DriverCluster(3)
    old = cluster.elect()
    cluster.cut_off = {old.node}
    propose(old, *[b"lost"] * 12)
    cluster.run()
    leader = cluster.elect()
    fill_segment(cluster, leader)
    fill_segment(cluster, leader)  # the follower then needs several ranges
    old.driver.fail(DiskFailedError(Path("/log"), "Input/output error"))

    cluster.cut_off = set()
    cluster.tick(30)
    assert old.log.tail.term < leader.log.tail.term, "it could cut nothing"


def test_a_follower_with_a_full_disk_acknowledges_nothing_that_it_did_not_write() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    first, second = (member for member in cluster.members.values() if member is not leader)
    fill_segment(cluster, leader)
    first.disk.fail("create", NoSpaceError(Path("/log")))
    cluster.cut_off = {second.node}
    (waiting,) = propose(leader, b"." * 20_000)
    cluster.run()
    assert waiting.outcome is None
    assert isinstance(first.driver.failure, NoSpaceError)

    cluster.cut_off = set()
    cluster.tick(5)
    assert waiting.outcome is True


def test_an_index_that_cannot_be_written_does_not_make_the_loop_spin_and_applying_goes_on_later() -> None:
    cluster = DriverCluster(1)
    only = cluster.elect()
    applied, failures = only.machine.apply, [NoSpaceError(Path("/queue"))]

    def apply(header: Header, body: memoryview) -> None:
        if failures:
            raise failures[0]
        applied(header, body)

    only.machine.apply = apply  # type: ignore[method-assign]
    propose(only, b"m1")
    cluster.run()  # this would not end if each failure scheduled another turn
    assert len(only.machine.failures) == 1
    failures.clear()
    cluster.tick(TRY_AGAIN_TICKS + 20)
    assert bodies(only) == [b"m1"]


def test_a_failed_flush_ends_writing_for_good() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    leader.driver.fail(DiskFailedError(Path("/log"), "input/output error"))
    cluster.tick(TRY_AGAIN_TICKS + 5)
    assert leader.driver.failure is not None
    assert not leader.driver.leads
    assert cluster.elect() is not leader


@pytest.mark.parametrize("later", [OutOfFilesError(Path("/log")), LogDamagedError(Path("/log"), 0, "a flipped bit")])
def test_a_failure_that_needs_a_restart_is_not_replaced_by_a_later_one(later: StoreError) -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    failure = DiskFailedError(Path("/log"), "input/output error")
    leader.driver.fail(failure)
    leader.driver.fail(later)
    leader.driver.repaired(later)
    cluster.tick(TRY_AGAIN_TICKS + 10)
    assert leader.driver.failure is failure
    assert not leader.driver.leads


def test_a_failure_that_needs_a_restart_replaces_damage_that_is_being_repaired() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    damage, failure = LogDamagedError(Path("/log"), 0, "a flipped bit"), DiskFailedError(Path("/log"), "EIO")
    leader.driver.fail(damage)
    assert not leader.driver.needs_restart
    leader.driver.fail(failure)
    leader.driver.repaired(damage)
    assert leader.driver.failure is failure
    assert leader.driver.needs_restart


def range_on_its_way() -> tuple[Member, Append, bytearray]:
    """Return a follower, and the next range for it, which has not arrived."""
    cluster = DriverCluster(3)
    leader = cluster.elect()
    follower = next(member for member in cluster.members.values() if member is not leader)
    cluster.cut_off = {follower.node}
    propose(leader, b"m1")
    leader.sent_ranges.clear()
    cluster.run()
    append = next(append for append in leader.sent_ranges if append.receiver == follower.node)
    return follower, append, bytearray(leader.log.reading.read_range(append.prev_index + 1, append.last_index))


def test_a_damaged_range_is_refused_and_changes_nothing() -> None:
    follower, append, entries = range_on_its_way()
    entries[-8] ^= 1
    last = follower.log.last_index
    with pytest.raises(CorruptRangeError):
        follower.driver.receive_append(append, bytes(entries))
    assert follower.log.last_index == last


def test_a_range_that_comes_again_while_too_many_files_are_open_is_dropped() -> None:
    follower, append, entries = range_on_its_way()
    follower.driver.receive_append(append, bytes(entries))
    last = follower.log.last_index
    assert append.prev_index < last, "the header of the entry before the range is read from the log"
    follower.disk.fail("view", OutOfFilesError(Path("/log")), times=1)
    follower.driver.receive_append(append, bytes(entries))
    failures = [follower.driver.failure]
    for _ in range(TRY_AGAIN_TICKS):
        follower.driver.tick()
    failures.append(follower.driver.failure)
    assert [type(failure) for failure in failures] == [OutOfFilesError, type(None)]
    assert follower.log.last_index == last


def test_a_range_that_comes_again_behind_a_damaged_entry_is_dropped() -> None:
    follower, append, entries = range_on_its_way()
    follower.driver.receive_append(append, bytes(entries))
    follower.log.reading.mark_damaged(range(append.prev_index, append.prev_index + 1))
    follower.driver.receive_append(append, bytes(entries))
    assert follower.driver.failure is None, "scrub repair reports the damage itself"
    follower.log.reading.mark_whole()
    follower.driver.receive_append(append, bytes(entries))
    assert follower.log.last_index == append.prev_index + 1


def test_a_range_that_forks_twice_at_the_same_place_proves_a_divergence() -> None:
    follower, append, entries = range_on_its_way()
    entries[76] ^= 1  # the chain of its first entry, which no CRC covers
    with pytest.raises(ForkedError):
        follower.driver.receive_append(append, bytes(entries))
    assert not follower.driver.raft.divergences  # the first time it may be a transmission error
    last = follower.log.last_index
    follower.driver.receive_append(append, bytes(entries))
    assert list(follower.driver.raft.divergences) == [append.sender]
    assert follower.log.last_index == last


def test_a_cut_that_fails_ends_the_node_for_the_log_is_not_known_any_more() -> None:
    cluster = DriverCluster(3)
    old = cluster.elect()
    cluster.cut_off = {old.node}
    propose(old, b"m-lost")
    cluster.run()
    propose(cluster.elect(), b"m-kept")
    cluster.run()
    cluster.cut_off = set()
    old.disk.fail("write", DiskFailedError(Path("/log"), "input/output error"))
    with pytest.raises(CutFailedError):
        cluster.tick(10)


# -- members, transfer, pauses


def change(member: Member, cluster: DriverCluster, voters: tuple[int, ...]) -> TestProposal:
    configuration = ShardConfiguration(
        "test", {node: cluster.voters[node] for node in voters}, SEGMENT_BYTES, SEGMENT_BYTES
    )
    proposal = TestProposal(encode_configuration(configuration), EntryKind.CONFIGURATION)
    member.driver.change(proposal, configuration.core)
    return proposal


def test_a_change_is_an_entry_and_everyone_goes_by_it() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    leaves = next(node for node in cluster.nodes if node != leader.node)
    stay = tuple(node for node in cluster.nodes if node != leaves)
    proposal = change(leader, cluster, stay)
    assert leader.configured_with[-1].core.voters == stay, "at once"
    cluster.run()
    cluster.tick(2)
    assert proposal.outcome is True
    for node in stay:
        assert cluster[node].configured_with[-1].core.voters == stay
        assert cluster[node].driver.raft.configuration.voters == stay


def test_a_change_goes_behind_what_was_proposed_before() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    (before,) = propose(leader, b"m1")
    changed = change(leader, cluster, (1, 2, 3))
    (after,) = propose(leader, b"m2")
    cluster.run()
    headers = [proposal.header for proposal in (before, changed, after)]
    assert [header.index - headers[0].index for header in headers if header and headers[0]] == [0, 1, 2]


def test_a_configuration_is_flushed_whatever_the_mode_before_it_counts() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    for member in cluster.members.values():
        member.files.flushes = 0
    propose(leader, b"m1")
    cluster.run()
    assert [member.files.flushes for member in cluster.members.values()] == [0, 0, 0]
    change(leader, cluster, (1, 2, 3))
    cluster.run()
    assert [member.files.flushes for member in cluster.members.values()] == [1, 1, 1]


def test_a_refused_change_appends_nothing() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    last = leader.log.last_index
    with pytest.raises(ChangeRefused):
        change(leader, cluster, (leader.node,))
    assert leader.log.last_index == last


def test_a_disk_that_refuses_a_change_leaves_the_members_as_they_were() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    leader.disk.fail("write", DiskFailedError(Path("/log"), "EIO"))
    with pytest.raises(DiskFailedError):
        change(leader, cluster, (1, 2))
    assert leader.driver.raft.configuration.voters == (1, 2, 3)
    assert not leader.driver.leads
    leader.disk.heal()
    cluster.run()
    assert cluster.elect().node != leader.node


def test_a_transfer_moves_the_lead_and_proposals_are_refused_meanwhile() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    to = next(node for node in cluster.nodes if node != leader.node)
    leader.driver.transfer(to)
    with pytest.raises(Transferring):
        leader.driver.check_room(1)
    cluster.run()
    assert cluster[to].driver.leads


def test_a_handover_that_a_tick_begins_refuses_no_entry_that_was_accepted_before() -> None:
    """The state machine has given the entry an offset, and would give the next entry the offset after it."""
    cluster = DriverCluster(3)
    leader = cluster.elect()
    leader.driver.raft.room_changed(False)
    proposals: list[TestProposal] = []
    while not leader.driver.raft.transferring_to:
        cluster.run()
        proposals += propose(leader, b"m")
        for member in cluster.members.values():  # the turn of the proposal ends after the tick
            member.driver.tick()
        assert len(proposals) < 1_000, "no handover began"
    assert proposals[-1].header is not None
    cluster.run()
    cluster.tick(2)
    assert [proposal.outcome for proposal in proposals] == [True] * len(proposals)


def test_a_transfer_refuses_no_entry_that_was_accepted_before() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    (proposal,) = propose(leader, b"m1")
    leader.driver.transfer(next(node for node in cluster.nodes if node != leader.node))
    cluster.run()
    assert proposal.outcome is True


def test_a_leader_that_was_held_up_acknowledges_nothing_before_it_has_heard_a_majority() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    (proposal,) = propose(leader, b"m1")
    leader.turns.popleft()()  # the entry is written and sent
    for member in cluster.members.values():
        if member is not leader:
            cluster.hand_over_to(member.node)  # the acknowledgement waits for the leader
    leader.monotonic_ms += 60_000
    cluster.hand_over_to(leader.node)
    assert proposal.outcome is None
    cluster.run()
    assert proposal.outcome is True


def test_a_node_that_lacks_what_the_others_gave_up_does_not_go_on() -> None:
    """Two of three nodes lose their logs in a power cut and elect a leader among themselves, which breaks the rules of
    Raft. The third node holds committed entries. It refuses to follow and says why."""
    cluster = DriverCluster(3)
    leader = cluster.elect()
    propose(leader, b"m1")
    cluster.run()
    cluster.tick(2)
    witness = next(member for member in cluster.members.values() if member is not leader)
    conflict = Append(leader.node, witness.node, leader.driver.raft.term + 1, 1, 1, (), 1, 1)
    other = CommitLog.open(MemoryDisk(), LOG_DIRECTORY, LogSettings(segment_bytes=SEGMENT_BYTES))
    other.append([cluster.first_entry], term=1, commit=0, now_ms=0)
    other.append([EntryDraft(EntryKind.COMMAND, b"else")], term=conflict.term, commit=0, now_ms=0)
    witness.driver.receive_append(conflict, other.reading.read_range(2, 2))
    assert list(witness.driver.raft.divergences) == [leader.node]
    assert len(witness.machine.divergences) == 1
    assert bodies(witness) == [b"m1"], "what it has stays readable"


def test_a_driver_that_was_stopped_takes_nothing_and_writes_nothing_more() -> None:
    cluster = DriverCluster(1)
    leader = cluster.elect()
    (queued,) = propose(leader, b"queued")
    last = leader.log.last_index
    leader.driver.stop()
    with pytest.raises(NotLeader):
        leader.driver.check_room(1)
    with pytest.raises(NotLeader):
        leader.driver.read_index(lambda _: None)
    cluster.run()
    assert leader.log.last_index == last
    assert queued.outcome is None
