"""Waiting messages in the state of a shard: the cursor, the open messages, and what both refuse."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.errors import InternalError, InvalidArgumentError, InvalidTopicNameError
from ledger.limits import MAX_OFFSET
from ledger.state import CommittedBatch, State, TimedCursor, TimedMessage, Topic, UndeliveredMessages
from ledger.state.command_checks import MAX_TIME_MS, MAX_TIMED_ITEMS, check_command
from ledger.state.command_encoding import encode_command
from ledger.state.commands import (
    AlterTopic,
    CancelTimed,
    Command,
    CreateTopic,
    DeleteTopic,
    OpenTopic,
    RaiseFeatureLevel,
    SettleTimed,
)
from ledger.state.encoding import VERSION_2, VERSION_3
from ledger.state.feature_levels import TIMED
from ledger.state.timed_table import MAX_OPEN, TimedTable
from ledger.timed import TIMED_TOPIC

NOW_MS = 1_700_000_000_000


class Shard:
    """The state of shard 0, which has a queue of waiting messages from level 3 on, and the index of the next entry."""

    def __init__(self, level: int = TIMED, waiting: int = 0) -> None:
        self.state = State()
        self.index = 0
        self.apply(RaiseFeatureLevel(level))
        if level >= TIMED:
            assert isinstance(self.apply(CreateTopic(TIMED_TOPIC, 1)), Topic)
        if waiting:
            self.wait(waiting)

    @property
    def open(self) -> dict[int, int]:
        return self.state.timed.open

    def apply(self, command: Command) -> object:
        self.index += 1
        return self.state.apply_command(encode_command(command), NOW_MS, index=self.index)

    def wait(self, count: int = 1) -> None:
        """Append messages to the queue of waiting messages. The state does not read their delivery times."""
        self.index += 1
        end = self.state.next_offset(1, 0)
        self.state.apply_batch(CommittedBatch(1, 0, end, count, NOW_MS, self.index, 1, 7, 0, end))

    def deliver(self, *messages: tuple[int, int]) -> None:
        """Apply what a batch says that delivers messages (identity, delivery time)."""
        self.index += 1
        identities, times = [identity for identity, _ in messages], [time_ms for _, time_ms in messages]
        self.state.apply_delivery(identities, times, self.index)

    def waits(self, *messages: tuple[int, int]) -> tuple[bool, ...]:
        """Return the answers of the state to a command that cancels messages (identity, delivery time)."""
        items = tuple(TimedMessage(*message) for message in messages)
        result = self.apply(CancelTimed(items))
        assert isinstance(result, UndeliveredMessages)
        assert result.items == items
        return result.may_wait


# -- the cursor and the open messages


def test_a_delivered_message_is_open_until_the_cursor_covers_it() -> None:
    shard = Shard(waiting=3)
    shard.deliver((0, 100), (2, 300))
    assert shard.open == {0: 100, 2: 300}
    assert shard.apply(SettleTimed(200, 1, 3)) == TimedCursor(200, 1, 3)
    assert shard.open == {2: 300}
    assert not shard.state.timed.is_settled(300, 2)
    assert shard.apply(SettleTimed(300, 2, 3)) == TimedCursor(300, 2, 3)
    assert shard.open == {}
    assert shard.state.timed.cursor == TimedCursor(300, 2, 3)


def test_a_message_behind_the_cursor_waits_until_a_turn_has_seen_it() -> None:
    shard = Shard(waiting=3)
    shard.apply(SettleTimed(300, 2, 3))
    shard.wait()
    late = (3, 50)
    assert shard.waits((0, 100), late) == (False, True)
    shard.deliver(late)
    assert shard.waits(late) == (False,)
    shard.apply(SettleTimed(300, 2, 4))
    assert shard.open == {}
    assert shard.waits(late) == (False,)


def test_messages_of_one_time_are_settled_in_the_order_of_their_identities() -> None:
    shard = Shard(waiting=4)
    shard.apply(SettleTimed(100, 1, 4))
    assert shard.waits((0, 100), (1, 100), (2, 100), (3, 99)) == (False, False, True, False)


def test_a_cancel_changes_nothing_in_the_state() -> None:
    shard = Shard(waiting=2)
    shard.deliver((0, 100))
    before = shard.state.digest()
    assert shard.waits((0, 100), (1, 100), (1, 100), (77, 5)) == (False, True, True, True)
    assert shard.state.digest() == before


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([(1, 100)], "message 1, which was delivered before"),
        ([(0, 100)], "message 0, which was delivered before"),
        ([(2, 300), (2, 300)], "one waiting message twice"),
        ([(3, 300), (9, 300)], "message 9, and %TIMED ends at 4"),
    ],
)
def test_a_batch_that_contradicts_the_state_changes_nothing(messages: list[tuple[int, int]], why: str) -> None:
    shard = Shard(waiting=4)
    shard.apply(SettleTimed(100, 0, 1))
    shard.deliver((1, 100))
    before = shard.state.digest()
    with pytest.raises(InternalError, match=why):
        shard.deliver((2, 200), *messages)
    assert shard.state.digest() == before
    with pytest.raises(InternalError, match="has 1 times"):
        shard.state.apply_delivery([2, 3], [200], 9)
    assert shard.state.digest() == before


def test_the_number_of_open_messages_has_a_bound() -> None:
    table = TimedTable()
    table.deliver(range(MAX_OPEN), [5] * MAX_OPEN)
    with pytest.raises(InternalError, match=f"while {MAX_OPEN} are open"):
        table.deliver([MAX_OPEN], [5])
    assert len(table.open) == MAX_OPEN
    table.settle(TimedCursor(5, MAX_OPEN, MAX_OPEN))
    table.deliver([MAX_OPEN], [5])


@pytest.mark.parametrize(
    ("turn", "why"),
    [
        (SettleTimed(99, 5, 3), "cannot go back from"),
        (SettleTimed(100, 0, 3), "cannot go back from"),
        (SettleTimed(101, 0, 1), "cannot go back from"),
        (SettleTimed(101, 0, 5), "ends at 4"),
        (SettleTimed(101, 0, 3, (2,)), "message 2 cannot be settled without delivery"),
        (SettleTimed(101, 0, 3, (1, 3)), "message 3 cannot be settled without delivery"),
    ],
)
def test_a_turn_that_cannot_be_is_refused_and_changes_nothing(turn: SettleTimed, why: str) -> None:
    shard = Shard(waiting=4)
    shard.apply(SettleTimed(100, 1, 2))
    shard.deliver((2, 200))
    before = shard.state.digest()
    refused = shard.apply(turn)
    assert isinstance(refused, InvalidArgumentError)
    assert why in str(refused)
    assert shard.state.digest() == before


def test_a_repeated_turn_changes_nothing() -> None:
    shard = Shard(waiting=4)
    shard.deliver((1, 60))
    for _ in range(2):
        assert shard.apply(SettleTimed(100, 1, 2, (0,))) == TimedCursor(100, 1, 2)
    assert (shard.state.timed.cursor, shard.open) == (TimedCursor(100, 1, 2), {})


# -- values and levels


ITEM = TimedMessage(0, 0)
IMPOSSIBLE: list[tuple[Command, str]] = [
    (SettleTimed(-1, 0, 0), "cannot be delivered at -1 ms"),
    (SettleTimed(MAX_TIME_MS + 1, 0, 0), "cannot be delivered at"),
    (SettleTimed(0, MAX_OFFSET + 1, 0), "No message can have the offset"),
    (SettleTimed(0, 0, MAX_OFFSET + 1), "No message can have the offset"),
    (SettleTimed(0, 0, 9, (3, 2)), "must rise"),
    (SettleTimed(0, 0, 9, (2, 2)), "must rise"),
    (SettleTimed(0, 0, 9, (2, MAX_OFFSET + 1)), "No message can have the offset"),
    (SettleTimed(0, 0, 9, tuple(range(MAX_TIMED_ITEMS + 1))), "at most 4096"),
    (CancelTimed(()), "0 waiting messages were given"),
    (CancelTimed((ITEM,) * (MAX_TIMED_ITEMS + 1)), "cancel 1 to 4096 at a time"),
    (CancelTimed((ITEM, TimedMessage(MAX_OFFSET + 1, 0))), "No message can have the offset"),
    (CancelTimed((ITEM, TimedMessage(0, -1))), "cannot be delivered at -1 ms"),
    (CancelTimed((ITEM, TimedMessage(0, MAX_TIME_MS + 1))), "cannot be delivered at"),
]


@pytest.mark.parametrize(("command", "why"), IMPOSSIBLE, ids=lambda value: str(value)[:40])
def test_an_impossible_value_is_refused_by_the_leader_and_by_every_replica(command: Command, why: str) -> None:
    with pytest.raises(InvalidArgumentError, match=why):
        check_command(command, 3)
    shard = Shard(waiting=4)
    before = shard.state.digest()
    refused = shard.apply(command)
    assert isinstance(refused, InvalidArgumentError)
    assert why in str(refused)
    assert shard.state.digest() == before


def test_the_largest_commands_are_allowed() -> None:
    check_command(SettleTimed(MAX_TIME_MS, MAX_OFFSET, MAX_OFFSET, tuple(range(MAX_TIMED_ITEMS))), 0)
    check_command(CancelTimed((TimedMessage(MAX_OFFSET, MAX_TIME_MS),) * MAX_TIMED_ITEMS), 1)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_below_level_3_there_are_no_waiting_messages(level: int) -> None:
    shard = Shard(level)
    before = shard.state.encode()
    for command in (SettleTimed(0, 0, 0), CancelTimed((ITEM,))):
        refused = shard.apply(command)
        assert isinstance(refused, InvalidArgumentError)
        assert f"has feature level {level}" in str(refused)
    assert isinstance(shard.apply(CreateTopic(TIMED_TOPIC, 1)), InvalidTopicNameError)
    with pytest.raises(InternalError, match="below feature level 3"):
        shard.deliver((0, 0))
    assert shard.state.encode() == before


@pytest.mark.parametrize(("level", "is_refused"), [(0, False), (1, True), (2, True), (3, False)])
def test_the_queue_of_waiting_messages_opens_in_another_shard_as_in_older_programs(
    level: int, is_refused: bool
) -> None:
    opened = Shard(level).apply(OpenTopic(5, TIMED_TOPIC, (0, 1), 0))
    assert isinstance(opened, InvalidTopicNameError if is_refused else Topic)


def test_the_topic_of_waiting_messages_cannot_be_deleted() -> None:
    shard = Shard(waiting=2)
    before = shard.state.digest()
    assert isinstance(shard.apply(DeleteTopic(1)), InvalidArgumentError)
    assert shard.state.digest() == before
    assert shard.state.topics.named(TIMED_TOPIC) is not None


def test_a_turn_of_a_shard_without_waiting_messages_has_seen_nothing() -> None:
    state = State()
    state.apply_command(encode_command(RaiseFeatureLevel(TIMED)), NOW_MS, index=1)
    assert state.apply_command(encode_command(SettleTimed(100, 0, 0)), NOW_MS, index=2) == TimedCursor(100, 0, 0)
    assert isinstance(state.apply_command(encode_command(SettleTimed(100, 0, 1)), NOW_MS, index=3), Exception)


def test_more_queues_of_the_topic_are_in_other_shards() -> None:
    shard = Shard(waiting=4)
    shard.state.shards.add(1, (1,), (b"1" * 16,))
    assert isinstance(shard.apply(AlterTopic(1, (0, 1))), Topic)
    assert shard.apply(SettleTimed(100, 0, 4)) == TimedCursor(100, 0, 4)


# -- bytes


def test_the_bytes_of_lower_levels_have_no_waiting_messages() -> None:
    shard = Shard(2)
    assert shard.state.encode()[4] == VERSION_2
    shard.apply(RaiseFeatureLevel(TIMED))
    assert shard.state.encode()[4] == VERSION_3
    assert State.decode(shard.state.encode()).timed.cursor == TimedCursor(0, 0, 0)


def test_a_decoded_state_goes_on_in_the_middle_of_a_turn() -> None:
    shard = Shard(waiting=9)
    shard.apply(SettleTimed(100, 3, 5))
    shard.deliver((7, 200), (5, 20), (6, 300))
    twin = State.decode(shard.state.encode())
    assert (twin.timed.cursor, twin.timed.open) == (TimedCursor(100, 3, 5), {5: 20, 6: 300, 7: 200})
    assert twin.digest() == shard.state.digest()
    with pytest.raises(InternalError):
        twin.apply_delivery([6], [300], 50)


def test_the_order_of_deliveries_within_a_turn_does_not_count() -> None:
    one, other = Shard(waiting=9), Shard(waiting=9)
    one.deliver((7, 200), (5, 20))
    one.deliver((6, 300))
    other.deliver((6, 300))
    other.deliver((5, 20), (7, 200))
    assert one.state.digest() == other.state.digest()


@pytest.mark.parametrize(
    "opened", [[(0, 100)], [(7, 200), (7, 200)], [(number, 200) for number in range(8, 9 + MAX_OPEN)]]
)
def test_open_messages_that_cannot_be_are_refused(opened: list[tuple[int, int]]) -> None:
    shard = Shard(waiting=9)
    shard.apply(SettleTimed(100, 3, 5))
    body = shard.state.encode()[:-8]  # without the number of open messages, which is 0, and without the CRC
    body += struct.pack("<I", len(opened)) + b"".join(struct.pack("<Qq", *message) for message in opened)
    with pytest.raises(InternalError):
        State.decode(body + struct.pack("<I", google_crc32c.value(body)))


# -- against a naive model


@dataclass
class Model:
    """Remembers every message, every delivery and every turn."""

    times: list[int] = field(default_factory=list)
    delivered: set[int] = field(default_factory=set)
    turns: list[SettleTimed] = field(default_factory=lambda: [SettleTimed(0, 0, 0)])

    def is_settled(self, identity: int, time_ms: int) -> bool:
        """A message is settled if any turn settled it."""
        for turn in self.turns:
            is_early = time_ms < turn.through_ms or (time_ms == turn.through_ms and identity <= turn.through_identity)
            if is_early and identity < turn.seen:
                return True
        return False

    def waits(self, identity: int, time_ms: int) -> bool:
        return identity not in self.delivered and not self.is_settled(identity, time_ms)

    def may_deliver(self, identities: list[int]) -> bool:
        return len(set(identities)) == len(identities) and all(
            identity < len(self.times) and self.waits(identity, self.times[identity]) for identity in identities
        )

    def may_settle(self, turn: SettleTimed) -> bool:
        last = self.turns[-1]
        goes_on = (turn.through_ms, turn.through_identity) >= (last.through_ms, last.through_identity)
        return (
            goes_on
            and last.seen <= turn.seen <= len(self.times)
            and not any(each >= turn.seen or each in self.open for each in turn.settled)
        )

    @property
    def open(self) -> dict[int, int]:
        found = {identity: self.times[identity] for identity in self.delivered}
        return {identity: time_ms for identity, time_ms in found.items() if not self.is_settled(identity, time_ms)}


Step = SettleTimed | tuple[str, list[int]]
TIMES, IDENTITIES = st.integers(0, 12), st.integers(0, 9)
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.builds(lambda times: ("wait", times), st.lists(TIMES, min_size=1, max_size=3))
    | st.builds(lambda identities: ("deliver", identities), st.lists(IDENTITIES, min_size=1, max_size=3))
    | st.builds(
        SettleTimed, TIMES, IDENTITIES, IDENTITIES, st.lists(IDENTITIES, max_size=2, unique=True).map(sorted).map(tuple)
    )
    | st.just(("restart", [])),
    max_size=40,
)


@settings(max_examples=400)
@given(STEPS)
def test_the_state_says_what_the_model_says(steps: list[Step]) -> None:
    """The other state is decoded from its bytes again and again, as after restarts, and has the same digests."""
    model, shard, other = Model(), Shard(), Shard()
    for step in steps:
        match step:
            case SettleTimed():
                results = [each.apply(step) for each in (shard, other)]
                cursor = TimedCursor(step.through_ms, step.through_identity, step.seen)
                assert (results == [cursor, cursor]) == model.may_settle(step)
                if model.may_settle(step):
                    model.turns.append(step)
            case ("wait", times):
                for each in (shard, other):
                    each.wait(len(times))
                model.times.extend(times)
            case ("deliver", identities):
                messages = [(each, model.times[each] if each < len(model.times) else 0) for each in identities]
                assert [delivers(each, messages) for each in (shard, other)] == [model.may_deliver(identities)] * 2
                if model.may_deliver(identities):
                    model.delivered.update(identities)
            case _:
                other.state = State.decode(other.state.encode())
        assert shard.open == model.open
        known = list(enumerate(model.times))
        if known:
            assert shard.waits(*known) == other.waits(*known) == tuple(model.waits(*each) for each in known)
        assert shard.state.digest() == other.state.digest()


def delivers(shard: Shard, messages: list[tuple[int, int]]) -> bool:
    try:
        shard.deliver(*messages)
    except InternalError:
        return False
    return True


@given(
    st.lists(
        st.builds(
            SettleTimed,
            st.integers(-(1 << 63), (1 << 63) - 1),
            st.integers(0, (1 << 64) - 1) | IDENTITIES,
            st.integers(0, (1 << 64) - 1) | IDENTITIES,
            st.lists(st.integers(0, (1 << 64) - 1), max_size=3).map(tuple),
        )
        | st.builds(
            lambda items: CancelTimed(tuple(TimedMessage(*item) for item in items)),
            st.lists(st.tuples(st.integers(0, (1 << 64) - 1), st.integers(-(1 << 63), (1 << 63) - 1)), max_size=3),
        ),
        max_size=8,
    )
)
def test_a_state_survives_every_command(commands: list[Command]) -> None:
    shard = Shard(waiting=5)
    for command in commands:
        shard.apply(command)
    assert State.decode(shard.state.encode()).digest() == shard.state.digest()
