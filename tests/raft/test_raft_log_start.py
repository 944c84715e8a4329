"""The log start, and replicas that lack earlier entries (section 7). The drivers use real CommitLogs."""

from __future__ import annotations

from pathlib import Path

import pytest

from raft import log_start
from raft.configuration_entry import ConfiguredMember as GroupMember
from raft.configuration_entry import ShardConfiguration, encode_configuration
from raft.core import Mode, SnapshotChunk
from raft.driver import TRY_AGAIN_TICKS
from raft.errors import CutFailedError
from raft.log_start import log_start_draft
from raft.snapshot_piece import SnapshotPiece
from store import DiskFailedError, EntryKind, NoSpaceError, OutOfFilesError, Snapshot
from store.disk.memory_disk import Killed
from tests.raft.driver_cluster import SEGMENT_BYTES, DriverCluster, Member, TestProposal


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make snapshot pieces small, so that a snapshot of a few kilobytes needs several pieces."""
    monkeypatch.setattr(log_start, "PIECE_BYTES", 40_000)


def propose(
    cluster: DriverCluster, leader: Member, draft_body: bytes, kind: EntryKind = EntryKind.COMMAND
) -> TestProposal:
    proposal = TestProposal(draft_body, kind)
    leader.driver.check_room(len(draft_body))
    leader.driver.propose(proposal)
    cluster.run()
    return proposal


def fill(cluster: DriverCluster, leader: Member, segments: int) -> None:
    for number in range(3 * segments):
        propose(cluster, leader, b"%d" % number * 10_000)
    cluster.tick(2)


def move(cluster: DriverCluster, leader: Member) -> int:
    """Move the log start as far as possible. Return the index after which the log begins."""
    assert leader.driver.log_start
    index = leader.driver.log_start.candidates()[-1]
    propose(cluster, leader, log_start_draft(index).body, EntryKind.LOG_START)
    cluster.tick(2)
    return index


def change(cluster: DriverCluster, leader: Member, voters: list[int], learners: list[int]) -> None:
    members = {node: GroupMember(bytes([node]) * 16) for node in (*voters, *learners)}
    configuration = ShardConfiguration(
        "test",
        {node: members[node] for node in voters},
        SEGMENT_BYTES,
        SEGMENT_BYTES,
        {node: members[node] for node in learners},
    )
    proposal = TestProposal(encode_configuration(configuration), EntryKind.CONFIGURATION)
    leader.driver.change(proposal, configuration.core)
    cluster.run()
    cluster.tick(2)
    assert proposal.outcome is True


@pytest.fixture
def moved() -> tuple[DriverCluster, Member, int]:
    """Return three nodes whose log begins after the given index."""
    cluster = DriverCluster(3)
    leader = cluster.elect()
    fill(cluster, leader, 4)
    return cluster, leader, move(cluster, leader)


def agree(cluster: DriverCluster, *nodes: int) -> None:
    """Check that these nodes have the same log and the same state."""
    members = [cluster[node] for node in nodes]
    assert len({member.log.tail.chain for member in members}) == 1
    assert len({member.bytes_of_log() for member in members}) == 1
    assert len({tuple(member.machine.applied) for member in members}) == 1


def test_the_log_start_moves_by_an_entry_on_all_replicas(moved: tuple[DriverCluster, Member, int]) -> None:
    cluster, leader, index = moved
    for member in cluster.members.values():
        assert member.log.first_index == index + 1
        assert member.machine.starts == [index]
    agree(cluster, 1, 2, 3)
    propose(cluster, leader, b"after")
    cluster.tick(2)
    agree(cluster, 1, 2, 3)


def test_a_restarted_replica_begins_with_the_state_at_the_base(moved: tuple[DriverCluster, Member, int]) -> None:
    cluster, leader, index = moved
    follower = cluster.restart(next(node for node in cluster.nodes if node != leader.node))
    assert follower.machine.restored == [index]
    assert follower.driver.applied == index
    cluster.tick(8)
    agree(cluster, 1, 2, 3)


def test_a_replica_without_a_base_there_keeps_more() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    fill(cluster, leader, 4)
    follower = next(member for member in cluster.members.values() if member is not leader)
    for candidate in follower.snapshots.candidates():
        follower.disk.unlink(follower.snapshots._path(candidate))
    move(cluster, leader)
    assert follower.log.first_index == 1
    assert follower.driver.applied == leader.driver.applied


def test_a_start_keeps_anew_what_a_power_loss_may_have_damaged() -> None:
    """The state of this start is older than the snapshot. No checkpoint waited for it."""
    cluster = DriverCluster(3)
    leader = cluster.elect()
    fill(cluster, leader, 4)
    follower = next(member for member in cluster.members.values() if member is not leader)
    (*_, last) = follower.snapshots.candidates()
    follower.disk.flip(follower.snapshots._path(last), 60)
    assert follower.snapshots.candidate(last) is None
    again = cluster.restart(follower.node)
    cluster.tick(8)
    assert again.snapshots.candidate(last) == leader.snapshots.candidate(last)


def test_a_snapshot_that_does_not_fit_on_the_disk_does_not_hold_up_the_log_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Behind the start of a segment waits the entry that frees space."""
    cluster = DriverCluster(3)
    leader = cluster.elect()
    fill(cluster, leader, 4)
    follower = next(member for member in cluster.members.values() if member is not leader)
    kept = follower.snapshots.candidates()

    def keep(snapshot: Snapshot) -> None:
        raise NoSpaceError(Path(f"/snapshots/{snapshot.index}"))

    monkeypatch.setattr(follower.snapshots, "keep", keep)
    fill(cluster, leader, 2)
    assert leader.driver.log_start
    assert len(leader.driver.log_start.candidates()) > len(kept), "another segment has begun"
    assert follower.snapshots.candidates() == kept
    propose(cluster, leader, log_start_draft(kept[-1]).body, EntryKind.LOG_START)
    cluster.tick(2)
    assert (follower.driver.failure, follower.driver.applied) == (None, leader.driver.applied)
    assert follower.log.first_index == leader.log.first_index == kept[-1] + 1
    assert "is not kept, so the log of this node cannot begin there" in caplog.text
    agree(cluster, 1, 2, 3)


def test_a_move_of_the_log_start_that_the_state_machine_could_not_finish_is_finished_later() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    fill(cluster, leader, 4)
    follower = next(member for member in cluster.members.values() if member is not leader)
    log_starts, failures = follower.machine.log_starts, [OutOfFilesError(Path("/queue"))]

    def fail_once(snapshot: Snapshot) -> None:
        if failures:
            raise failures.pop()
        log_starts(snapshot)

    follower.machine.log_starts = fail_once  # type: ignore[method-assign]
    index = move(cluster, leader)
    found = [follower.driver.failure]
    cluster.tick(TRY_AGAIN_TICKS + 5)
    found.append(follower.driver.failure)
    assert [type(failure) for failure in found] == [OutOfFilesError, type(None)]
    assert (follower.machine.starts, follower.files.tidied) == ([index], 1)
    propose(cluster, cluster.elect(), b"after")
    cluster.tick(2)
    agree(cluster, 1, 2, 3)


@pytest.mark.parametrize("operation", ["open", "read", "sync", "rename", "sync_directory", "list", "unlink"])
@pytest.mark.parametrize("after", [0, 1])
def test_a_move_of_the_log_start_that_the_disk_refused_at_any_step_is_finished_later(
    operation: str, after: int
) -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    fill(cluster, leader, 4)
    follower = next(member for member in cluster.members.values() if member is not leader)
    log_start, size = follower.driver.log_start, leader.log.start
    follower.disk.fail(operation, OutOfFilesError(Path("/")), after=after, times=1)
    index = move(cluster, leader)
    follower.disk.heal()
    cluster.tick(TRY_AGAIN_TICKS + 5)
    assert log_start is not None
    assert log_start.snapshot is not None
    assert log_start.snapshot.index + 1 == follower.log.first_index == index + 1
    assert (follower.machine.starts, follower.driver.failure) == ([index], None)
    assert log_start.dropped_bytes == leader.log.start - size
    again = cluster.restart(follower.node)
    cluster.tick(8)
    assert again.log.first_index == index + 1
    agree(cluster, 1, 2, 3)


def test_a_new_node_gets_the_base_and_then_the_log(moved: tuple[DriverCluster, Member, int]) -> None:
    cluster, leader, index = moved
    newcomer = cluster.join(4)
    change(cluster, leader, [1, 2, 3], [4])
    cluster.tick(20)
    assert newcomer.machine.restored == [index]
    assert newcomer.log.first_index == index + 1
    agree(cluster, leader.node, 4)
    assert newcomer.driver.raft.configuration.learners == (4,)


def test_a_follower_that_was_cut_off_while_the_log_start_moved_gets_the_base() -> None:
    cluster = DriverCluster(3)
    leader = cluster.elect()
    late = next(node for node in cluster.nodes if node != leader.node)
    propose(cluster, leader, b"before")
    cluster.cut_off = {late}
    fill(cluster, leader, 4)
    index = move(cluster, leader)
    assert leader.driver.raft.progress[late].match < index
    cluster.cut_off.clear()
    cluster.tick(30)
    assert cluster[late].machine.restored == [index]
    agree(cluster, 1, 2, 3)


def test_pieces_that_are_lost_are_sent_again(moved: tuple[DriverCluster, Member, int]) -> None:
    cluster, leader, index = moved
    newcomer = cluster.join(4)
    deliver, seen = cluster.deliver, 0

    def lossy(message: object, beside: object) -> None:
        nonlocal seen
        seen += isinstance(message, SnapshotChunk)
        if not isinstance(message, SnapshotChunk) or seen % 2:
            deliver(message, beside)  # type: ignore[arg-type]

    cluster.deliver = lossy  # type: ignore[method-assign]
    change(cluster, leader, [1, 2, 3], [4])
    cluster.tick(40)
    assert seen > 3
    assert newcomer.machine.restored == [index]
    agree(cluster, leader.node, 4)


def test_a_damaged_piece_does_not_count(moved: tuple[DriverCluster, Member, int]) -> None:
    cluster, leader, _ = moved
    newcomer = cluster.join(4)
    deliver, damaged = cluster.deliver, 0

    def noisy(message: object, beside: object) -> None:
        nonlocal damaged
        if isinstance(beside, SnapshotPiece) and not damaged:
            damaged += 1
            beside = SnapshotPiece(beside.offer, beside.data[:-1] + b"?", beside.crc)
        deliver(message, beside)  # type: ignore[arg-type]

    cluster.deliver = noisy  # type: ignore[method-assign]
    change(cluster, leader, [1, 2, 3], [4])
    cluster.tick(40)
    assert damaged == 1
    agree(cluster, leader.node, 4)
    assert newcomer.machine.restored


def test_a_transfer_goes_on_where_a_kill_of_the_receiver_cut_it_off(moved: tuple[DriverCluster, Member, int]) -> None:
    cluster, leader, index = moved
    cluster.join(4)
    pieces: list[int] = []
    send = leader.send_snapshot

    def watched(chunk: SnapshotChunk, piece: SnapshotPiece) -> None:
        pieces.append(chunk.offset)
        if len(pieces) == 3:
            cluster.cut_off = {4}
        send(chunk, piece)

    leader.send_snapshot = watched  # type: ignore[method-assign]
    change(cluster, leader, [1, 2, 3], [4])
    assert len(pieces) >= 3
    cluster.restart(4)
    cluster.cut_off.clear()
    pieces.clear()
    cluster.tick(30)
    assert cluster[4].machine.restored == [index]
    assert pieces, "it goes on"
    agree(cluster, leader.node, 4)


def test_a_base_that_is_not_news_is_answered_and_changes_nothing(moved: tuple[DriverCluster, Member, int]) -> None:
    cluster, leader, index = moved
    follower = next(member for member in cluster.members.values() if member is not leader)
    assert leader.driver.log_start
    chunk = SnapshotChunk(leader.node, follower.node, leader.driver.raft.term, index, 0)
    before = follower.bytes_of_log()
    cluster.deliver(chunk, leader.driver.log_start.piece(0))
    cluster.run()
    assert follower.bytes_of_log() == before
    assert follower.machine.restored == []
    assert leader.driver.raft.progress[follower.node].mode is Mode.REPLICATE


def test_another_leader_takes_over_in_the_middle(moved: tuple[DriverCluster, Member, int]) -> None:
    cluster, leader, index = moved
    newcomer = cluster.join(4)
    change(cluster, leader, [1, 2, 3], [4])
    cluster.mail.clear()
    cluster.cut_off = {leader.node}
    successor = cluster.elect()
    assert successor is not leader
    cluster.tick(30)
    assert newcomer.machine.restored == [index]
    agree(cluster, successor.node, 4)


def test_two_replicas_are_replaced_one_after_the_other(moved: tuple[DriverCluster, Member, int]) -> None:
    cluster, leader, _ = moved
    old = [node for node in cluster.nodes if node != leader.node]
    voters = [1, 2, 3]
    for gone, new in zip(old, (4, 5), strict=True):
        cluster.cut_off.add(gone)
        cluster.join(new)
        change(cluster, leader, voters, [new])
        cluster.tick(20)
        change(cluster, leader, sorted([*voters, new]), [])
        voters = sorted([*(node for node in voters if node != gone), new])
        change(cluster, leader, voters, [])
    propose(cluster, leader, b"the last one")
    cluster.tick(4)
    agree(cluster, *voters)
    assert cluster[5].machine.applied[-1][1] == b"the last one"


@pytest.mark.long
def test_a_kill_at_any_step_of_an_installation_is_made_good() -> None:
    """The follower is killed after n written bytes, for many n, and is started again on its disk."""
    kills = 0
    for budget in [*range(0, 400, 7), *range(400, 200_000, 4_001)]:
        cluster = DriverCluster(3)
        leader = cluster.elect()
        fill(cluster, leader, 3)
        index = move(cluster, leader)
        disk = cluster.join(4).disk
        disk.kill_after(budget)
        try:
            change(cluster, leader, [1, 2, 3], [4])
            cluster.tick(20)
        except Killed:
            kills += 1
            cluster.restart(4)
            cluster.tick(30)
        assert cluster[4].log.first_index == index + 1
        agree(cluster, leader.node, 4)
        if not disk.is_dead:
            break
    assert kills > 20


def test_a_disk_that_fails_during_an_installation_ends_the_node(moved: tuple[DriverCluster, Member, int]) -> None:
    cluster, leader, index = moved
    newcomer = cluster.join(4)
    newcomer.disk.fail("rename", DiskFailedError(Path("/base.next"), "EIO"))
    with pytest.raises(Exception, match="could not be cut"):
        change(cluster, leader, [1, 2, 3], [4])
    cluster.restart(4)
    cluster.tick(30)
    assert cluster[4].machine.restored[-1] == index
    agree(cluster, leader.node, 4)


def test_an_installation_that_the_state_machine_could_not_finish_ends_the_node(
    moved: tuple[DriverCluster, Member, int],
) -> None:
    """The snapshot has replaced the log, and the state is still the old one. A start restores the state."""
    cluster, leader, index = moved
    newcomer = cluster.join(4)

    def fail(snapshot: Snapshot) -> None:
        raise OutOfFilesError(Path("/queues"))

    newcomer.machine.restore = fail  # type: ignore[method-assign]
    with pytest.raises(CutFailedError):
        change(cluster, leader, [1, 2, 3], [4])
    assert (newcomer.driver.applied, newcomer.log.first_index) == (0, index + 1)
    cluster.restart(4)
    cluster.tick(30)
    agree(cluster, leader.node, 4)


@pytest.mark.parametrize("operation", ["open", "write", "rename", "sync_directory", "list", "unlink", "create"])
@pytest.mark.parametrize("after", range(6))
def test_an_installation_that_the_disk_refused_at_any_step_is_finished_at_once_or_by_the_next_start(
    moved: tuple[DriverCluster, Member, int], operation: str, after: int
) -> None:
    cluster, leader, index = moved
    newcomer = cluster.join(4)
    newcomer.disk.fail(operation, OutOfFilesError(Path("/")), after=after, times=1)
    try:
        change(cluster, leader, [1, 2, 3], [4])
        cluster.tick(30)
    except CutFailedError:
        cluster.restart(4)
    cluster.tick(30)
    newcomer = cluster[4]
    assert (newcomer.log.first_index, newcomer.driver.failure) == (index + 1, None)
    agree(cluster, leader.node, 4)


def test_an_installation_for_which_there_is_no_room_is_tried_again(
    moved: tuple[DriverCluster, Member, int],
) -> None:
    cluster, leader, index = moved
    newcomer = cluster.join(4)
    newcomer.disk.fail("create", NoSpaceError(Path("/base.next")))
    change(cluster, leader, [1, 2, 3], [4])
    cluster.tick(30)
    failures = [newcomer.driver.failure]
    assert newcomer.machine.restored == []
    newcomer.disk.heal()
    cluster.tick(60)
    failures.append(newcomer.driver.failure)
    assert [type(failure) for failure in failures] == [NoSpaceError, type(None)]
    assert newcomer.machine.restored == [index]
    agree(cluster, leader.node, 4)


def test_leadership_goes_to_one_that_began_with_a_base(moved: tuple[DriverCluster, Member, int]) -> None:
    cluster, leader, _ = moved
    newcomer = cluster.join(4)
    change(cluster, leader, [1, 2, 3], [4])
    cluster.tick(20)
    change(cluster, leader, [1, 2, 3, 4], [])
    leader.driver.transfer(4)
    cluster.run()
    assert newcomer.driver.leads
    propose(cluster, newcomer, b"by the new one")
    cluster.tick(4)
    agree(cluster, 1, 2, 3, 4)


def test_the_log_start_moves_on_while_a_base_is_sent(moved: tuple[DriverCluster, Member, int]) -> None:
    cluster, leader, first = moved
    newcomer = cluster.join(4)
    send, on_their_way = leader.send_snapshot, list[int]()
    leader.send_snapshot = lambda chunk, piece: on_their_way.append(chunk.index)  # type: ignore[method-assign]
    change(cluster, leader, [1, 2, 3], [4])
    assert set(on_their_way) == {first}
    fill(cluster, leader, 4)
    second = move(cluster, leader)
    assert second > first
    leader.send_snapshot = send  # type: ignore[method-assign]
    cluster.tick(30)
    assert newcomer.machine.restored == [second]
    agree(cluster, leader.node, 4)


def test_a_leader_whose_disk_is_slow_hears_that_it_holds_what_the_log_begins_behind() -> None:
    """Its followers held the entries earlier than the leader, and also the log start that removes them (stack seed
    17077)."""
    cluster = DriverCluster(3)
    leader = cluster.elect()
    leader.files.holds_back = True
    fill(cluster, leader, 4)
    index = move(cluster, leader)
    assert leader.log.first_index == index + 1
    leader.files.holds_back = False
    for done in leader.files.waiting:
        done()
    propose(cluster, leader, b"after")
    cluster.tick(2)
    agree(cluster, 1, 2, 3)
