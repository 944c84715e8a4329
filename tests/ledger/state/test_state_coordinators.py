"""The places of coordinators: fixed once, moved with numbers that rise, and epochs that never fall."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import CoordinatedElsewhereError, GroupConflictError, GroupFullError, InvalidArgumentError
from ledger.state import State, TopicQueueId
from ledger.state import coordinator_table as tables
from ledger.state.command_checks import check_command
from ledger.state.command_encoding import encode_command
from ledger.state.commands import (
    AddShard,
    AssignQueues,
    CloseGroup,
    Command,
    CreateConsumerGroup,
    CreateTopic,
    DeleteTopic,
    ForgetConsumerGroup,
    HostGroup,
    JoinConsumerGroup,
    PlaceCoordinator,
    QueueTarget,
    RaiseFeatureLevel,
)
from ledger.state.consumer_group_table import MemberDetails
from ledger.state.coordinator_table import EPOCHS_OF_A_NUMBER, CoordinatorPlace, CoordinatorTable, least_loaded
from ledger.state.feature_levels import PLACED_COORDINATORS
from ledger.state.group_modes import GroupMode

QUEUE = TopicQueueId(1, 0)


class Shard:
    """The state of one shard, and its next index."""

    def __init__(self, level: int = PLACED_COORDINATORS, index: int = 0) -> None:
        self.state = State()
        self.index = index
        self.apply(RaiseFeatureLevel(level))

    def apply(self, command: Command) -> object:
        self.index += 1
        return self.state.apply_command(encode_command(command), 0, index=self.index)

    def join(self, number: int = 0, member: str = "a", name: str = "billing") -> object:
        details = MemberDetails(member, "c", "", 10_000, ((1, 1),))
        return self.apply(JoinConsumerGroup(name, "average", details, number=number))

    def assigned(self, member: str = "a", name: str = "billing") -> int:
        """Assign the queue, and return its epoch."""
        group = self.state.consumption.groups.get(name)
        assert group is not None
        assert self.apply(AssignQueues(name, group.generation, (QueueTarget(QUEUE, member),))) is True
        return group.shares[QUEUE].epoch

    @property
    def members(self) -> list[str]:
        group = self.state.consumption.groups.get("billing")
        return [] if group is None else [*group.members]


def shard_0(shards: int = 3) -> Shard:
    shard = Shard()
    for number in range(1, shards):
        shard.apply(AddShard(number, (1,), (b"1" * 16,)))
    return shard


def test_a_group_is_placed_once() -> None:
    first = shard_0()
    place = first.apply(PlaceCoordinator("billing", 2, only_new=True))
    assert place == CoordinatorPlace(2, 1, first.index)
    assert first.apply(PlaceCoordinator("billing", 1, only_new=True)) == place
    assert first.state.coordinators.counts() == {2: 1}


def test_an_old_group_with_members_stays_until_an_operator_moves_it() -> None:
    first = shard_0()
    assert first.join() is True
    assert first.apply(PlaceCoordinator("billing", 2, only_new=True)) is None
    assert first.members == ["a"]
    assert first.apply(PlaceCoordinator("billing", 2)) == CoordinatorPlace(2, 1, first.index)
    assert first.members == []
    refused = first.join(1)
    assert isinstance(refused, CoordinatedElsewhereError)
    assert "is coordinated in shard 2" in str(refused)


def test_epochs_rise_with_each_move_also_to_a_shard_with_a_short_log() -> None:
    first, second = shard_0(), Shard(index=5)
    first.index = 1_000_000
    first.join()
    before = first.assigned()
    place = first.apply(PlaceCoordinator("billing", 2))
    assert isinstance(place, CoordinatorPlace)
    assert second.apply(HostGroup("billing", place.number, place.placed_at)) is True
    assert second.join(place.number) is True
    between = second.assigned()
    assert between > before
    assert second.index < first.index, "the index alone would have fallen"
    back = first.apply(PlaceCoordinator("billing", 0))
    assert isinstance(back, CoordinatorPlace)
    assert second.apply(CloseGroup("billing", place.number)) is True
    assert second.members == []
    assert first.join(back.number) is True
    assert first.assigned() > between


def test_a_join_under_an_older_number_is_refused() -> None:
    second = Shard()
    second.apply(HostGroup("billing", 1, 10))
    assert second.join(1) is True
    assert second.apply(HostGroup("billing", 3, 20)) is True
    assert second.members == [], "they have epochs of the earlier number"
    assert isinstance(second.join(1), CoordinatedElsewhereError)
    assert second.apply(HostGroup("billing", 2, 15)) is False
    assert second.join(3) is True
    assert second.apply(CloseGroup("billing", 1)) is False
    assert second.members == ["a"]


def test_a_deleted_group_that_comes_back_has_higher_epochs_in_any_shard() -> None:
    first, second = shard_0(), Shard(index=50_000)
    first.apply(PlaceCoordinator("billing", 2))
    second.apply(HostGroup("billing", 1, first.index))
    second.join(1)
    before = second.assigned()
    assert second.apply(ForgetConsumerGroup("billing")) is not None
    second.apply(CloseGroup("billing", 1))
    first.apply(ForgetConsumerGroup("billing"))
    assert first.state.coordinators.get("billing") is None
    assert first.join(first.state.coordinators.number("billing")) is True
    assert first.assigned() > before, "in shard 0, without a place"
    first.state.consumption.groups.remove("billing")
    place = first.apply(PlaceCoordinator("billing", 1, only_new=True))
    assert isinstance(place, CoordinatorPlace)
    assert place.number * EPOCHS_OF_A_NUMBER > before


def test_a_group_in_another_shard_keeps_topics_that_this_shard_does_not_know() -> None:
    second = Shard()
    second.apply(CreateTopic("later", 1))
    second.apply(DeleteTopic(1))
    assert second.state.topics.was_deleted(1), "only because no topic with this id is open here"
    second.apply(HostGroup("billing", 1, 10))
    second.join(1)
    group = second.state.consumption.groups.get("billing")
    assert group is not None
    assert group.queues == {1: 1}


def test_shared_groups_and_queue_groups_exclude_each_other() -> None:
    first = shard_0()
    first.apply(CreateConsumerGroup(GroupMode("shared", is_shared=True)))
    assert isinstance(first.apply(PlaceCoordinator("shared", 1)), GroupConflictError)
    first.apply(PlaceCoordinator("billing", 1))
    assert isinstance(first.apply(CreateConsumerGroup(GroupMode("billing", is_shared=True))), GroupConflictError)


def test_below_the_level_nothing_is_placed_and_joins_are_as_before() -> None:
    old = Shard(PLACED_COORDINATORS - 1)
    for command in (PlaceCoordinator("billing", 0), HostGroup("billing", 1, 1), CloseGroup("billing", 1)):
        refused = old.apply(command)
        assert isinstance(refused, InvalidArgumentError)
        assert "need level 6" in str(refused)
    assert old.join(7) is True


@pytest.mark.parametrize(
    ("command", "shard", "why"),
    [
        (PlaceCoordinator("billing", 1), 1, "is for shard 0, and not for shard 1"),
        (PlaceCoordinator("billing", 64), 0, "There can be no shard 64"),
        (PlaceCoordinator("bil ling", 1), 0, "is not a valid consumer group name"),
        (HostGroup("billing", 1, 1), 0, "is for the other shards"),
        (HostGroup("billing", 0, 1), 1, "No coordinator can have the number 0"),
        (CloseGroup("billing", tables.MAX_NUMBER + 1), 1, "No coordinator can have the number"),
    ],
)
def test_impossible_commands_are_refused(command: Command, shard: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_command(command, shard)


def test_a_shard_that_does_not_exist_gets_no_group() -> None:
    assert isinstance(shard_0().apply(PlaceCoordinator("billing", 3)), InvalidArgumentError)


def test_the_limits_of_places_and_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    table = CoordinatorTable(retired=tables.MAX_NUMBER)
    with pytest.raises(GroupFullError, match=f"the limits are {tables.MAX_PLACES} and {tables.MAX_NUMBER}"):
        table.place("billing", 1, 5)
    monkeypatch.setattr(tables, "MAX_PLACES", 1)
    table = CoordinatorTable()
    table.place("billing", 1, 5)
    with pytest.raises(GroupFullError):
        table.place("other", 1, 6)
    assert table.place("billing", 2, 7).number == 2, "a known group still moves"
    highest = tables.MAX_NUMBER * EPOCHS_OF_A_NUMBER + (EPOCHS_OF_A_NUMBER - 1)
    assert highest < 1 << 63


NAMES = st.sampled_from(["a", "billing", "x" * 63])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("place"), NAMES, st.integers(0, 63)),
        st.tuples(st.just("host"), NAMES, st.integers(1, 9)),
        st.tuples(st.just("forget"), NAMES, st.just(0)),
    ),
    max_size=20,
)


@given(STEPS)
def test_a_table_comes_back_from_its_bytes_and_numbers_never_fall(steps: list[tuple[str, str, int]]) -> None:
    table, highest = CoordinatorTable(), 0
    for index, (kind, name, value) in enumerate(steps, 1):
        if kind == "place":
            place = table.place(name, value, index)
            known = table.get(name)
            assert known == place
            highest = max(highest, place.number)
        elif kind == "host":
            table.host(name, value, index)
        else:
            table.forget(name)
        twin = CoordinatorTable.decode(table.encode())
        assert twin.encode() == table.encode()
        assert [twin.number(each) for each in ("a", "billing", "new")] == [
            table.number(each) for each in ("a", "billing", "new")
        ]


def test_damaged_tables_are_refused() -> None:
    table = CoordinatorTable()
    table.place("billing", 1, 5)
    data = table.encode()
    for end in range(len(data)):
        with pytest.raises(Exception, match=r".*"):
            CoordinatorTable.decode(data[:end])
    with pytest.raises(ValueError, match="its content ends at"):
        CoordinatorTable.decode(data + b"x")


def test_a_new_group_goes_where_there_are_fewest() -> None:
    assert least_loaded([0, 1, 2], {0: 1, 1: 1}, [0, 1, 2]) == 2
    assert least_loaded([0, 1, 2], {2: 1}, [0, 1, 2]) == 0
    assert least_loaded([0, 1, 2], {0: 5, 1: 4}, [0, 1]) == 1, "shard 2 has no leader"
    assert least_loaded([0, 1], {}, []) == 0
