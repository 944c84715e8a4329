"""Tests how the leader carries out or refuses an operator's requests: members, leadership transfers, and recovery.

The driver is a fake that only records its calls.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.broker.feature_level import FeatureLevel
from ledger.broker.members.handover import begin_transfer, successors
from ledger.broker.members.members import CAUGHT_UP_BYTES, LOST_TIMEOUTS, Introduction, MemberChanges
from ledger.broker.members.membership import Membership
from ledger.broker.placement.keeper import PlacementKeeper
from ledger.broker.placement.view import PlacedReplica, PlacedShard
from ledger.broker.replicas import Replicas
from ledger.broker.rpc.operations import OperationsService, changed
from ledger.broker.topics.topic_deletion import TopicDeletion
from ledger.errors import (
    ChangeInProgressError,
    InvalidArgumentError,
    LastVoterError,
    LedgerError,
    NodeBehindError,
    NodeExistsError,
    NodeRefusedError,
    NotLeaderError,
    NotSuspectError,
    RecoveryRefusedError,
    ShardShortError,
    TransferRefusedError,
    UnknownNodeError,
    from_wire,
)
from ledger.state import State
from ledger.state.command_encoding import encode_command
from ledger.state.commands import Command, PinLeader, RaiseFeatureLevel, UnpinLeader
from ledger.state.feature_levels import PINNED_LEADERS
from ledger.state.pinned_leader import PinnedLeader
from ledger.state.placement_table import MoveReason, PlacementTable, ReplicaMove
from ledger.v1 import operations_pb2
from raft.configuration_entry import ShardConfiguration, decode_configuration
from raft.core import ChangeInProgress, ChangeRefused, Configuration, FollowerProgress, TransferRefused
from raft.core.progress import Mode
from store import Suspect
from tests.ledger.broker.test_broker_membership import configuration

ONE, TWO, THREE, FOUR = (str(node).encode() * 16 for node in (1, 2, 3, 4))
SHARD = configuration({1: ONE, 2: TWO}, {3: THREE})
COMMIT = 100


class Driver:
    """Stands for the Raft driver of node 1, which leads. The fake records changes and transfers."""

    def __init__(self) -> None:
        progress = {node: FollowerProgress(COMMIT + 1) for node in (2, 3)}
        for each in progress.values():
            each.match, each.mode = COMMIT, Mode.REPLICATE
        self.raft = SimpleNamespace(
            node=1, leader=1, commit=COMMIT, progress=progress, configuration=Configuration((1, 2), (3,)),
            log=SimpleNamespace(holds=lambda index, term: True), is_suspect=False, term=5, transferring_to=0,
            hears=lambda node, within=1: self.silent.get(node, 0) < within,
        )  # fmt: skip
        self.leads = True
        # Node -> for how many election timeouts this leader has not heard it.
        self.silent: dict[int, int] = {}
        # Errors to raise: key 0 for a change of members, a node's number for a transfer to that node.
        self.refuses: dict[int, Exception] = {}
        self.changes: list[tuple[ShardConfiguration, Configuration]] = []
        self.transfers: list[int] = []
        self.proposal: Any = None

    def change(self, proposal: Any, core: Configuration) -> None:
        if 0 in self.refuses:
            raise self.refuses[0]
        self.changes.append((decode_configuration(proposal.draft.body), core))
        self.proposal = proposal
        proposal.appended(SimpleNamespace(index=COMMIT + 1, term=5))

    def transfer(self, to: int) -> None:
        if to in self.refuses:
            raise self.refuses[to]
        self.transfers.append(to)


class Site:
    """Stands for the other nodes and for this node's recovery. `answer` is what every new node says of itself."""

    def __init__(self) -> None:
        self.answer: Introduction | None = None
        self.lost: Suspect | None = None
        self.accepted = False

    async def ask_introduction(self, node: int, address: str, configuration: ShardConfiguration) -> Introduction | None:
        return self.answer

    def suspect(self) -> Suspect | None:
        return self.lost

    async def accept_loss(self) -> None:
        self.accepted = True


class Leader:
    """Stands for the leading replica of shard 0, with only the members that these tests use."""

    def __init__(self) -> None:
        self.shard = 0
        self.driver = Driver()
        reading = SimpleNamespace(span=lambda first, last: (last - first + 1) << 20)
        self.log = SimpleNamespace(first_index=1, last_index=COMMIT, reading=reading)
        self.membership = Membership(1, ONE, {})
        self.membership.applied(1, SHARD)
        self.newest = SHARD
        self.state = State()
        self.proposed: list[Command] = []
        self.feature_level = FeatureLevel(self)  # type: ignore[arg-type]

    def check_leads(self, size: int) -> None:
        """This replica always leads."""

    @property
    def knows_the_end(self) -> bool:
        return False  # so that nobody waits for a higher feature level

    def propose_checked(self, command: Command) -> asyncio.Future[object]:
        """Apply the command at once."""
        self.proposed.append(command)
        applied = asyncio.get_running_loop().create_future()
        applied.set_result(self.state.apply_command(encode_command(command), 0, index=COMMIT + 1))
        return applied

    def newest_configuration(self) -> ShardConfiguration:
        return self.newest

    def not_leading(self) -> LedgerError:
        return NotLeaderError("not here", leader=2, leader_address="n2:1")

    def refusal(self, trouble: Exception) -> LedgerError:
        assert isinstance(trouble, ChangeInProgress)
        return ChangeInProgressError("wait")


@pytest.fixture
def leader() -> Leader:
    return Leader()


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def members(leader: Leader, site: Site) -> MemberChanges:
    return MemberChanges(leader, site.ask_introduction)  # type: ignore[arg-type]


async def test_a_node_with_an_older_program_is_refused(leader: Leader, site: Site, members: MemberChanges) -> None:
    leader.state.apply_command(encode_command(RaiseFeatureLevel(1)), 0, index=3)
    site.answer = Introduction(4, FOUR, empty=True, refusal="", feature_level=0)
    with pytest.raises(NodeRefusedError, match="it supports feature level 0, and shard 0 has level 1; install"):
        await members.add(4, "n4:1")
    assert not leader.driver.changes
    site.answer = Introduction(4, FOUR, empty=True, refusal="", feature_level=1)
    await members.add(4, "n4:1")
    assert leader.driver.changes


async def test_a_new_node_becomes_a_learner(leader: Leader, site: Site, members: MemberChanges) -> None:
    site.answer = Introduction(4, FOUR, empty=True, refusal="")
    change = await members.add(4, "n4:1")
    assert change is not None
    ((written, core),) = leader.driver.changes
    assert (written.learners[4].incarnation, written.learners[4].address) == (FOUR, "n4:1")
    assert core == Configuration((1, 2), (3, 4))


async def test_to_add_a_member_once_more_changes_nothing(leader: Leader, site: Site, members: MemberChanges) -> None:
    site.answer = Introduction(3, THREE, empty=False, refusal="it has data")
    assert await members.add(3, "n3:1") is None
    with pytest.raises(NodeExistsError, match="a member already, at n3:1"):
        await members.add(3, "moved:1")
    assert leader.driver.changes == []


@pytest.mark.parametrize(
    ("node", "address", "answer", "error", "sentence"),
    [
        (4, "n4:1", None, NodeRefusedError, "no node answers at n4:1"),
        (4, "n4:1", Introduction(4, FOUR, False, ""), NodeRefusedError, "node 4 has data already"),
        (4, "n4:1", Introduction(5, FOUR, True, ""), NodeRefusedError, "at n4:1 is node 5, not node 4"),
        (4, "n4:1", Introduction(4, FOUR, True, "of another cluster"), NodeRefusedError, "of another cluster"),
        (2, "x:1", Introduction(2, FOUR, True, ""), NodeExistsError, "node 2 is a member already"),
        (4, "n2:1", Introduction(4, FOUR, True, ""), NodeExistsError, "n2:1 is the address of node 2"),
    ],
)
async def test_a_node_that_cannot_be_added(
    leader: Leader,
    site: Site,
    members: MemberChanges,
    node: int,
    address: str,
    answer: Introduction | None,
    error: type[LedgerError],
    sentence: str,
) -> None:
    site.answer = answer
    with pytest.raises(error, match=sentence):
        await members.add(node, address)
    assert leader.driver.changes == []


async def test_an_address_that_contradicts_the_settings_of_the_leader(leader: Leader, site: Site) -> None:
    leader.membership = Membership(1, ONE, {4: "old:1"})
    leader.membership.applied(1, SHARD)
    site.answer = Introduction(4, FOUR, empty=True, refusal="")
    with pytest.raises(NodeExistsError, match="says that node 4 is at old:1"):
        await MemberChanges(leader, site.ask_introduction).add(4, "n4:1")  # type: ignore[arg-type]


async def test_a_learner_that_keeps_up_is_promoted(leader: Leader, site: Site, members: MemberChanges) -> None:
    site.answer = Introduction(3, THREE, empty=False, refusal="")
    assert await members.promote(3) is not None
    assert leader.driver.changes[0][1] == Configuration((1, 2, 3))
    assert await members.promote(2) is None, "node 2 is a voter already"


async def test_a_learner_that_lags_is_not_promoted(leader: Leader, site: Site, members: MemberChanges) -> None:
    site.answer = Introduction(3, THREE, empty=False, refusal="")
    progress = leader.driver.raft.progress[3]
    lag = (CAUGHT_UP_BYTES >> 20) + 1
    progress.match = COMMIT - lag
    with pytest.raises(NodeBehindError, match=rf"node 3 lacks {lag} committed entries \({lag * 1.048576:.1f} MB\)"):
        await members.promote(3)
    progress.match = COMMIT - lag + 1
    assert await members.promote(3) is not None


@pytest.mark.parametrize("trouble", ["probes", "suspect", "silent", "another"])
async def test_a_learner_that_is_not_there_is_not_promoted(
    leader: Leader, site: Site, members: MemberChanges, trouble: str
) -> None:
    site.answer = Introduction(3, THREE, empty=False, refusal="")
    progress = leader.driver.raft.progress[3]
    if trouble == "probes":
        progress.restart()
    elif trouble == "suspect":
        progress.suspect(7, COMMIT, 1)
    else:
        site.answer = None if trouble == "silent" else Introduction(3, FOUR, empty=False, refusal="")
    with pytest.raises(NodeBehindError):
        await members.promote(3)
    assert leader.driver.changes == []


async def test_removal(leader: Leader, members: MemberChanges) -> None:
    change = members.remove(1)
    assert leader.driver.changes[0][1] == Configuration((2,), (3,))
    leader.driver.raft.commit = COMMIT + 1
    change.settled(committed=False)  # a leader that removed itself has stopped leading before it applied the change
    assert await change.future == COMMIT + 1


async def test_a_removal_that_would_leave_the_shard_short_is_refused(leader: Leader, members: MemberChanges) -> None:
    with pytest.raises(ShardShortError, match="shard 0 would have 1 of 2 replicas without node 2: add a node first"):
        members.remove(2, placement=PlacementTable(replicas=2))
    members.remove(3, placement=PlacementTable(replicas=2))  # a learner
    leader.driver.silent = {2: 1}
    with pytest.raises(ShardShortError, match="shard 0 would have 1 of 2 replicas without node 2"):
        members.remove(2, placement=PlacementTable(replicas=2))
    leader.driver.silent = {2: LOST_TIMEOUTS}
    with pytest.raises(ShardShortError, match="of its other voters 2, only none would answer with the whole log"):
        members.remove(1)
    members.remove(2, placement=PlacementTable(replicas=2))  # it is lost already
    leader.driver.silent = {}
    leader.driver.raft.progress[2].mode = Mode.PROBE
    with pytest.raises(ShardShortError, match="would take no writes without node 1"):
        members.remove(1)
    members.remove(1, force=True)


async def removed(service: OperationsService, node: int) -> operations_pb2.ChangeResponse:
    answer = await service.RemoveNode(operations_pb2.RemoveNodeRequest(node=node), None)  # type: ignore[arg-type]
    if answer.HasField("error"):
        raise from_wire(answer.error)
    return answer


async def test_a_move_may_take_a_replica_of_a_shard_that_has_fewer_than_three(
    leader: Leader, service: OperationsService
) -> None:
    """Shard 0 stands for a shard with the voter 1, which moves to node 2."""
    with pytest.raises(ShardShortError, match="would have 1 of 3 replicas without node 1"):
        await removed(service, 1)
    leader.state.placement.begin(ReplicaMove(0, 2, 1, MoveReason.BALANCE))
    with pytest.raises(ShardShortError, match="would have 1 of 3 replicas without node 2"):
        await removed(service, 2)  # an operator wants that, not the move
    leader.driver.silent = {2: 1}
    with pytest.raises(ShardShortError, match="would take no writes without node 1"):
        await removed(service, 1)
    leader.driver.silent = {}
    leader.state.placement.set_replicas(2)
    with pytest.raises(ShardShortError, match="would have 1 of 2 replicas without node 1"):
        await removed(service, 1)
    leader.state.placement.set_replicas(0)
    assert (await removed(service, 1)).index == COMMIT + 1
    assert [core for _, core in leader.driver.changes] == [Configuration((2,), (3,))]


async def test_a_change_that_was_not_committed_ends_in_an_error(leader: Leader, members: MemberChanges) -> None:
    change = members.remove(2)
    change.settled(committed=False)
    with pytest.raises(NotLeaderError):
        await changed(change, wait=True)
    assert (await changed(change, wait=False)).index == COMMIT + 1


async def test_what_the_core_refuses(leader: Leader, members: MemberChanges) -> None:
    with pytest.raises(UnknownNodeError, match="its members are 1, 2, 3"):
        members.remove(9)
    leader.driver.refuses[0] = ChangeRefused("a shard needs a voter")
    with pytest.raises(LastVoterError):
        members.remove(2)
    leader.driver.refuses[0] = ChangeInProgress("wait")
    with pytest.raises(ChangeInProgressError):
        members.remove(2)
    leader.driver.leads = False
    with pytest.raises(NotLeaderError):
        members.remove(2)


def test_the_first_to_take_over_is_who_holds_most(leader: Leader) -> None:
    raft: Any = leader.driver.raft
    raft.configuration = Configuration((1, 2, 3))
    assert successors(raft) == [2, 3]
    raft.progress[2].match = COMMIT - 1
    assert successors(raft) == [3, 2]
    raft.progress[3].suspect(7, COMMIT, 1)
    assert successors(raft) == [2]


def test_a_successor_that_does_not_answer_is_passed_over(leader: Leader) -> None:
    leader.driver.raft.configuration = Configuration((1, 2, 3))
    leader.driver.refuses[2] = TransferRefused("node 2 does not answer")
    assert begin_transfer(leader) == 3  # type: ignore[arg-type]
    with pytest.raises(TransferRefusedError, match="node 2 does not answer; node 1 continues to lead"):
        begin_transfer(leader, 2)  # type: ignore[arg-type]
    leader.driver.leads = False
    with pytest.raises(NotLeaderError):
        begin_transfer(leader)  # type: ignore[arg-type]


# -- the service


class OtherShards:
    """Stands for the calls of a keeper to the leaders of shards. Shard 1 has a replica on node 2."""

    def __init__(self) -> None:
        self.answers = True

    def rooms(self) -> dict[int, str]:
        return {}

    async def placed_shard(self, shard: int) -> PlacedShard:
        nodes = (1, 2) if shard else (1, 2, 3)
        return PlacedShard(shard, 1, {node: PlacedReplica(node, is_voter=True, answers=self.answers) for node in nodes})


def service_of(site: Site, replicas: Replicas, calls: OtherShards | None = None) -> OperationsService:
    keeper = PlacementKeeper(replicas, cast(Any, calls or OtherShards()), lambda: 0.0, replace_after_s=0)
    return OperationsService(1, "test", {0: site}, replicas, TopicDeletion(replicas, cast(Any, None)), keeper)


@pytest.fixture
def service(leader: Leader, site: Site) -> OperationsService:
    replicas = Replicas()
    replicas.add(leader)  # type: ignore[arg-type]
    return service_of(site, replicas)


async def test_a_node_that_serves_another_shard_stays_in_shard_0(leader: Leader, site: Site) -> None:
    replicas, calls = Replicas(), OtherShards()
    replicas.add(leader)  # type: ignore[arg-type]
    leader.state.shards.add(1, (1, 2), (ONE, TWO))
    service = service_of(site, replicas, calls)

    async def error_of(**request: Any) -> str:
        answer = await service.RemoveNode(operations_pb2.RemoveNodeRequest(node=2, **request), None)  # type: ignore[arg-type]
        return str(answer.error.message)

    assert (await error_of()).startswith("node 2 serves shards 1, and would be no node of the cluster any more")
    assert leader.newest.voters.keys() == {1, 2}
    calls.answers = False
    assert "serves" not in await error_of()
    calls.answers = True
    assert await error_of(force=True) == ""


async def transfer(service: OperationsService, to: int, from_node: int) -> int:
    request = operations_pb2.TransferLeadershipRequest(to=to, from_node=from_node)
    answer = await service.TransferLeadership(request, None)  # type: ignore[arg-type]
    if answer.HasField("error"):
        raise from_wire(answer.error)
    return int(answer.to)


async def test_a_transfer_that_came_about_is_not_done_again(leader: Leader, service: OperationsService) -> None:
    assert await transfer(service, 0, 1) == 2
    assert await transfer(service, 1, 0) == 1, "node 1 leads already"
    assert await transfer(service, 0, 2) == 1, "node 2 does not lead any more"
    assert leader.driver.transfers == [2]


async def pin(service: OperationsService, node: int) -> None:
    answer = await service.PinLeader(operations_pb2.PinLeaderRequest(node=node), None)  # type: ignore[arg-type]
    if answer.HasField("error"):
        raise from_wire(answer.error)


async def test_a_voter_is_pinned_with_its_incarnation_and_unpinned(leader: Leader, service: OperationsService) -> None:
    leader.state.feature_level = PINNED_LEADERS
    await pin(service, 2)
    assert leader.state.pinned_leader == PinnedLeader(2, TWO)
    await pin(service, 0)
    await pin(service, 0)
    assert State.decode(leader.state.encode()).pinned_leader is None
    assert leader.proposed == [PinLeader(2, TWO), UnpinLeader()], "what is so already needs no entry"


@pytest.mark.parametrize(
    ("node", "level", "error", "why"),
    [
        (3, PINNED_LEADERS, InvalidArgumentError, "node 3 is a learner of shard 0, and only a voter can lead: promote"),
        (9, PINNED_LEADERS, UnknownNodeError, "node 9 is not a member of shard 0: its voters are 1, 2"),
        (2, PINNED_LEADERS - 1, InvalidArgumentError, "pinned leaders need level 6: some nodes run an older version"),
    ],
)
async def test_a_node_that_cannot_lead_is_not_pinned(
    leader: Leader, service: OperationsService, node: int, level: int, error: type[LedgerError], why: str
) -> None:
    leader.state.feature_level = level
    with pytest.raises(error, match=why):
        await pin(service, node)
    assert leader.proposed == []


async def recover(service: OperationsService, **request: Any) -> operations_pb2.RecoverNodeResponse:
    answer = await service.RecoverNode(operations_pb2.RecoverNodeRequest(**request), None)  # type: ignore[arg-type]
    if answer.HasField("error"):
        raise from_wire(answer.error)
    return answer


async def test_recovery(leader: Leader, site: Site, service: OperationsService) -> None:
    with pytest.raises(NotSuspectError):
        await recover(service, node=1, accept_loss=True)
    site.lost = Suspect("power loss", 5, 7)
    leader.driver.raft.is_suspect = True
    with pytest.raises(InvalidArgumentError, match="ask the suspect node itself"):
        await recover(service, node=2, accept_loss=True)
    leader.driver.raft.leader = 3
    with pytest.raises(RecoveryRefusedError, match="follows node 3"):
        await recover(service, node=1, accept_loss=True)
    leader.driver.raft.leader = 0
    explained = await recover(service, node=1)
    assert (explained.reason, explained.since_ms, explained.last_index) == ("power loss", 5, 7)
    assert not explained.recovered
    assert not site.accepted
    assert (await recover(service, node=1, accept_loss=True)).recovered
    assert site.accepted


async def test_another_shard_and_a_node_that_has_not_started(leader: Leader, site: Site) -> None:
    replicas = Replicas()
    service = service_of(site, replicas)
    request = operations_pb2.RemoveNodeRequest(shard=7, node=2)
    assert from_wire((await service.RemoveNode(request, None)).error).code == "UNAVAILABLE"  # type: ignore[arg-type]
    replicas.add(leader)  # type: ignore[arg-type]
    answer = await service.RemoveNode(request, None)  # type: ignore[arg-type]
    assert "no shard 7" in answer.error.message
