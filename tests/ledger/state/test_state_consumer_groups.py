"""Tests the table of consumer groups: members join and leave, queues change owners, epochs increase, and limits
hold.
"""

from __future__ import annotations

import pytest

from ledger.consumer_groups import (
    MAX_CONFIGURED,
    MAX_CONSUMER_GROUPS,
    MAX_MEMBERS,
    MAX_QUEUES,
    MAX_SUBSCRIPTIONS,
)
from ledger.errors import (
    GroupConflictError,
    GroupFullError,
    GroupNotEmptyError,
    InvalidArgumentError,
    InvalidGroupNameError,
    UnknownMemberError,
)
from ledger.state import State
from ledger.state.consumer_group_table import (
    ConsumerGroup,
    ConsumerGroupTable,
    MemberDetails,
    OwnedQueue,
    TopicQueueId,
)
from ledger.v1 import command_pb2


def told(
    member: str, *subscriptions: tuple[int, int], configured: tuple[TopicQueueId, ...] = (), room: str = ""
) -> MemberDetails:
    return MemberDetails(member, f"client of {member}", room, 10_000, subscriptions, configured)


class Group:
    """The consumer group "billing", which consumes topic 1. Each change has the index of the next entry."""

    def __init__(self) -> None:
        self.table = ConsumerGroupTable()
        self.index = 0

    @property
    def state(self) -> ConsumerGroup:
        group = self.table.get("billing")
        assert group is not None
        return group

    def next(self) -> int:
        self.index += 1
        return self.index

    def join(self, *members: str, queues: int = 4, strategy: str = "average") -> None:
        for member in members:
            self.table.join("billing", strategy, told(member, (1, queues)), self.next())

    def assign(self, targets: str) -> None:
        """Set the target of each queue of topic 1; "." means no target."""
        wanted = {TopicQueueId(1, at): member.strip(".") for at, member in enumerate(targets)}
        self.state.assign(wanted, self.next())

    def release(self, member: str, *queues: int, epoch: int | None = None) -> bool:
        keys = [TopicQueueId(1, queue) for queue in queues]
        epochs = [self.state.shares[key].epoch if epoch is None else epoch for key in keys]
        return self.state.release(member, list(zip(keys, epochs, strict=True)), self.next())

    def leave(self, *members: str) -> bool:
        return self.table.leave("billing", members, self.next())

    def owners(self) -> str:
        return "".join(share.owner or "." for _, share in sorted(self.state.shares.items()))

    def epochs(self) -> list[int]:
        return [share.epoch for _, share in sorted(self.state.shares.items())]

    def versions(self) -> dict[str, int]:
        return {name: member.version for name, member in self.state.members.items()}


@pytest.fixture
def group() -> Group:
    """A consumer group in which member a owns all four queues since entry 2."""
    group = Group()
    group.join("a")
    group.assign("aaaa")
    return group


# --- owners of queues


def test_a_free_queue_goes_to_its_target_at_once(group: Group) -> None:
    assert group.owners() == "aaaa"
    assert group.epochs() == [2] * 4
    assert group.state.view("a") == [OwnedQueue(TopicQueueId(1, at), 2, is_leaving=False) for at in range(4)]


def test_an_owner_keeps_a_queue_until_it_releases_it(group: Group) -> None:
    group.join("b")
    group.assign("aabb")
    assert group.owners() == "aaaa"
    assert [each.is_leaving for each in group.state.view("a")] == [False, False, True, True]
    assert group.state.view("b") == []
    assert group.release("a", 2)
    assert group.owners() == "aaba"
    assert group.epochs() == [2, 2, group.index, 2]
    assert group.state.view("b") == [OwnedQueue(TopicQueueId(1, 2), group.index, is_leaving=False)]


def test_what_a_member_is_to_keep_it_cannot_release(group: Group) -> None:
    assert not group.release("a", 0)
    assert group.owners() == "aaaa"


def test_neither_a_stranger_nor_an_old_epoch_releases(group: Group) -> None:
    group.join("b")
    group.assign("bbbb")
    assert not group.release("b", 0)
    assert not group.release("a", 0, epoch=1)
    assert not group.state.release("a", [(TopicQueueId(1, 9), 2)], group.next())
    assert group.owners() == "aaaa"


def test_a_release_is_applied_once(group: Group) -> None:
    group.join("b")
    group.assign("baaa")
    assert group.release("a", 0)
    group.assign("aaaa")
    assert group.release("b", 0)
    assert group.owners() == "aaaa"
    assert not group.release("a", 0, epoch=2)  # a repeats its first release
    assert group.owners() == "aaaa"


def test_the_queues_of_who_leaves_go_to_their_targets_and_the_others_wait(group: Group) -> None:
    group.join("b")
    group.assign("aabb")
    assert group.leave("a")
    assert group.owners() == "..bb"
    group.assign("bbbb")
    assert group.owners() == "bbbb"
    assert group.epochs() == [group.index, group.index, group.index - 1, group.index - 1]


def test_several_leave_at_once_and_none_of_them_inherits(group: Group) -> None:
    group.join("b", "c")
    group.assign("abbc")
    assert group.leave("a", "b", "nobody")
    assert group.owners() == "...c"
    assert group.state.view("c") == [OwnedQueue(TopicQueueId(1, 3), group.index, is_leaving=False)]


def test_a_queue_whose_target_has_gone_waits_when_it_is_released(group: Group) -> None:
    group.join("b")
    group.assign("aaab")
    group.leave("b")
    assert group.release("a", 3)
    assert group.owners() == "aaa."
    group.assign("aaaa")
    assert group.owners() == "aaaa"


def test_queues_that_are_not_wanted_any_more_are_released_and_forgotten(group: Group) -> None:
    group.assign("aa..")
    assert group.owners() == "aaaa"
    assert [each.is_leaving for each in group.state.view("a")] == [False, False, True, True]
    assert group.release("a", 2, 3)
    assert sorted(group.state.shares) == [TopicQueueId(1, 0), TopicQueueId(1, 1)]


def test_each_new_owner_has_a_larger_epoch(group: Group) -> None:
    group.join("b")
    epochs = [group.epochs()[0]]
    for owner, target in ("ab", "ba", "ab"):
        group.assign(target * 4)
        group.release(owner, 0, 1, 2, 3)
        epochs.append(group.epochs()[0])
    assert epochs == sorted(set(epochs))


def test_epochs_rise_also_where_the_consumer_group_had_gone(group: Group) -> None:
    group.leave("a")
    assert group.table.get("billing") is None
    assert len(group.table) == 0
    group.join("a")
    group.assign("aaaa")
    assert group.epochs() == [group.index] * 4


# --- versions and generations


def test_a_renewed_queue_stays_with_its_owner_by_a_new_epoch(group: Group) -> None:
    group.join("b")
    group.assign("aabb")  # b waits until a releases its two queues
    group.release("a", 3)
    before, versions = group.epochs(), group.versions()
    assert group.state.renew([TopicQueueId(1, 0), TopicQueueId(1, 2), TopicQueueId(1, 9)], group.next())
    assert group.owners() == "aaab"
    assert group.epochs() == [group.index, before[1], group.index, before[3]]
    assert group.versions() == {"a": group.index, "b": versions["b"]}
    assert group.state.view("a")[2].is_leaving
    assert not group.state.renew([TopicQueueId(7, 0)], group.next())


def test_a_version_changes_where_the_view_does_and_nowhere_else(group: Group) -> None:
    group.join("b", "c")
    before = group.versions()
    group.assign("aaab")  # a must release a queue, and b owns nothing yet
    assert group.versions() == before | {"a": group.index}
    before = group.versions()
    group.assign("aaac")  # a must release the same queue, so a's view does not change
    assert group.versions() == before
    group.release("a", 3)
    assert group.versions() == before | {"a": group.index, "c": group.index}
    before = group.versions()
    group.assign("aaac")
    assert group.versions() == before
    group.leave("b")
    assert group.versions() == {name: before[name] for name in "ac"}
    group.leave("a")
    assert group.versions() == {"c": before["c"]}  # c was not the target of a's queues


def test_the_generation_rises_with_members_and_subscriptions_alone(group: Group) -> None:
    assert (group.state.generation, group.state.assigned) == (1, 1)
    group.join("a")  # a is a member already, and nothing changes
    assert group.state.generation == 1
    group.join("a", queues=6)
    assert group.state.generation == group.index
    assert group.state.queues == {1: 6}
    group.join("b", queues=5)
    assert group.state.queues == {1: 6}
    group.leave("a")
    assert (group.state.generation, group.state.queues) == (group.index, {1: 5})
    generation = group.state.generation
    group.leave("a")
    group.assign("bbbbb")
    assert (group.state.generation, group.state.assigned) == (generation, generation)


def test_a_lone_member_may_change_the_strategy_and_is_assigned_anew(group: Group) -> None:
    group.join("a", strategy="circle")
    assert (group.state.strategy, group.state.generation) == ("circle", group.index)
    group.join("b", strategy="circle")
    with pytest.raises(GroupConflictError, match="the strategy 'circle', not"):
        group.join("a", strategy="average")
    with pytest.raises(GroupConflictError):
        group.join("c", strategy="average")
    assert group.state.strategy == "circle"
    assert sorted(group.state.members) == ["a", "b"]


# --- limits


def refused(table: ConsumerGroupTable, name: str, membership: MemberDetails) -> str:
    with pytest.raises(GroupFullError) as error:
        table.join(name, "average", membership, 10**6)
    return str(error.value)


def test_there_are_only_so_many_consumer_groups() -> None:
    table = ConsumerGroupTable()
    for number in range(MAX_CONSUMER_GROUPS):
        table.join(f"group-{number}", "average", told("a"), number + 1)
    assert "which is the limit" in refused(table, "one-more", told("a"))
    assert table.join("group-7", "average", told("b"), 10**6)


def test_there_are_only_so_many_members() -> None:
    group = ConsumerGroup("billing", "average")
    for number in range(MAX_MEMBERS):
        group.join("average", told(f"m{number}"), number + 1)
    table = ConsumerGroupTable([group])
    assert "'billing' has 10000 members" in refused(table, "billing", told("one-more"))
    assert table.join("billing", "average", told("m7", (1, 1)), 10**6)  # m7 is a member already


def test_a_member_has_only_so_many_topics_and_configured_queues() -> None:
    table = ConsumerGroupTable()
    topics = tuple((topic, 1) for topic in range(1, MAX_SUBSCRIPTIONS + 2))
    assert "256 topics, not 257" in refused(table, "billing", told("a", *topics))
    queues = tuple(TopicQueueId(1, queue) for queue in range(MAX_CONFIGURED + 1))
    assert "1024 queues, not 1025" in refused(table, "billing", told("a", (1, 4), configured=queues))
    assert len(table) == 0
    assert table.join("billing", "average", told("a", *topics[1:], configured=queues[1:]), 1)


def test_a_consumer_group_has_only_so_many_queues() -> None:
    table = ConsumerGroupTable()
    table.join("billing", "average", told("a", (1, MAX_QUEUES - 10)), 1)
    assert f"more than {MAX_QUEUES} queues" in refused(table, "billing", told("b", (2, 11)))
    assert f"more than {MAX_QUEUES} queues" in refused(table, "billing", told("a", (1, MAX_QUEUES), (2, 1)))
    assert table.join("billing", "average", told("b", (2, 10)), 2)
    assert table.join("billing", "average", told("a", (3, MAX_QUEUES - 10)), 3)  # a replaces its own subscription


# --- commands


def command(state: State, index: int, **kind: object) -> object:
    return state.apply_command(command_pb2.Command(**kind).SerializeToString(), 1_000, index=index)  # type: ignore[arg-type]


def join_command(member: str, **fields: object) -> command_pb2.JoinConsumerGroup:
    wanted = {
        "consumer_group": "billing",
        "member": member,
        "strategy": "average",
        "session_timeout_ms": 10_000,
        "subscriptions": [command_pb2.QueueCount(topic_id=1, queues=2)],
    }
    return command_pb2.JoinConsumerGroup(**(wanted | fields))  # type: ignore[arg-type]


def assign_command(generation: int) -> command_pb2.AssignQueues:
    targets = [command_pb2.QueueTarget(topic_id=1, queue=queue, member="a") for queue in range(2)]
    return command_pb2.AssignQueues(consumer_group="billing", generation=generation, targets=targets)


def test_an_assignment_of_members_who_have_changed_meanwhile_is_void() -> None:
    state = State()
    assert command(state, 1, join_consumer_group=join_command("a")) is True
    assert command(state, 2, join_consumer_group=join_command("b")) is True
    assert command(state, 3, assign_queues=assign_command(1)) is False
    group = state.consumption.groups.get("billing")
    assert group is not None
    assert (group.shares, group.assigned) == ({}, 0)
    assert command(state, 4, assign_queues=assign_command(2)) is True
    assert len(group.view("a")) == 2
    assert group.assigned == 2
    leave = command_pb2.LeaveConsumerGroup(consumer_group="billing", members=["a", "b"])
    assert command(state, 5, leave_consumer_group=leave) is True
    assert command(state, 6, assign_queues=assign_command(2)) is False
    assert len(state.consumption.groups) == 0


def test_a_consumer_group_is_forgotten_once_nobody_is_in_it() -> None:
    state = State()
    command(state, 1, create_topic=command_pb2.CreateTopic(name="orders", queues=2))
    command(state, 2, join_consumer_group=join_command("a"))
    claim = command_pb2.ClaimQueues(
        consumer_group="billing",
        queues=[command_pb2.ClaimedQueue(topic_id=1, queue=queue, epoch=2) for queue in (0, 1)],
    )
    command(state, 3, claim_queues=claim)
    forget = command_pb2.ForgetConsumerGroup(consumer_group="billing")
    refusal = command(state, 4, forget_consumer_group=forget)
    assert isinstance(refusal, GroupNotEmptyError)
    assert len(state.consumption.progress) == 2
    command(state, 5, leave_consumer_group=command_pb2.LeaveConsumerGroup(consumer_group="billing", members=["a"]))
    assert command(state, 6, forget_consumer_group=forget) == 2
    assert command(state, 7, forget_consumer_group=forget) == 0


def test_the_room_of_a_raft_shard_is_what_a_member_told_last_and_a_new_one_asks_for_an_assignment() -> None:
    def rooms(**told: str) -> list[command_pb2.ShardRoom]:
        return [command_pb2.ShardRoom(shard=int(group[1:]), room=room) for group, room in told.items()]

    state = State()
    assert command(state, 1, join_consumer_group=join_command("a", rooms=rooms(g0="north", g1="south"))) is True
    assert command(state, 2, join_consumer_group=join_command("b", rooms=rooms(g1="east"))) is True
    group = state.consumption.groups.get("billing")
    assert group is not None
    assert group.rooms == {0: "north", 1: "east"}
    assert command(state, 3, join_consumer_group=join_command("a", rooms=rooms(g0="north", g1="east"))) is False
    assert group.generation == 2
    assert command(state, 4, join_consumer_group=join_command("a", rooms=rooms(g1=""))) is True
    assert (group.rooms, group.generation) == ({0: "north", 1: ""}, 4)
    assert State.decode(state.encode()).digest() == state.digest()
    assert State.decode(state.encode()).consumption.groups.get("billing").rooms == group.rooms  # type: ignore[union-attr]


def test_who_is_no_member_is_told_to_join_again() -> None:
    state = State()
    wanted = command_pb2.ReleaseQueues(consumer_group="billing", member="a")
    refusal = command(state, 1, release_queues=wanted)
    assert isinstance(refusal, UnknownMemberError)
    assert "joins again by itself" in str(refusal)
    command(state, 2, join_consumer_group=join_command("b"))
    assert isinstance(command(state, 3, release_queues=wanted), UnknownMemberError)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"consumer_group": "a b"}, InvalidGroupNameError),
        ({"consumer_group": "x" * 64}, InvalidGroupNameError),
        ({"member": ""}, InvalidArgumentError),
        ({"member": "x" * 128}, InvalidArgumentError),
        ({"client_id": "x" * 128}, InvalidArgumentError),
        ({"room": "ö" * 64}, InvalidArgumentError),
        ({"rooms": [command_pb2.ShardRoom(shard=0, room="x" * 128)]}, InvalidArgumentError),
        ({"rooms": [command_pb2.ShardRoom(shard=group) for group in range(1025)]}, InvalidArgumentError),
        ({"strategy": "random"}, InvalidArgumentError),
        ({"session_timeout_ms": 999}, InvalidArgumentError),
        ({"session_timeout_ms": 300_001}, InvalidArgumentError),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(fields: dict[str, object], kind: type[Exception]) -> None:
    state = State()
    digest = state.digest()
    wanted = join_command(**({"member": "a"} | fields))  # type: ignore[arg-type]
    assert isinstance(command(state, 1, join_consumer_group=wanted), kind)
    assert state.digest() == digest
