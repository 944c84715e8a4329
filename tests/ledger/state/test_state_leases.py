"""Leases of shared consumer groups in the state of a shard: who has which message, and what the state refuses."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.errors import (
    ConsumerFencedError,
    GroupConflictError,
    InvalidArgumentError,
    LedgerError,
    UnknownQueueError,
    UnknownTopicError,
)
from ledger.shared import MAX_LEASE_MS
from ledger.state import CommittedBatch, State, Topic, TopicQueueId
from ledger.state.command_checks import MAX_LEASE_CHANGES, check_command
from ledger.state.command_encoding import encode_command
from ledger.state.commands import (
    ChangeLeases,
    ClaimedQueue,
    ClaimQueues,
    Command,
    CreateConsumerGroup,
    CreateTopic,
    DeleteTopic,
    ForgetConsumerGroup,
    JoinConsumerGroup,
    QueueLeases,
    RaiseFeatureLevel,
    ResetOffset,
    ResetOffsets,
)
from ledger.state.consumer_group_table import MemberDetails
from ledger.state.feature_levels import SHARED_GROUPS, TIMED
from ledger.state.group_modes import MAX_ATTEMPTS, GroupMode
from ledger.state.lease_table import MAX_LEASE_TIME_MS, ChangeKind, LeaseChange, LeaseResults
from ledger.state.lease_window import MAX_WINDOW, Lease, LeaseWindow

NOW_MS = 1_700_000_000_000
QUEUE = TopicQueueId(1, 0)
MEMBER = MemberDetails("m", "c", "", 10_000, ((1, 1),))


class Shard:
    """The state of shard 0 with one topic of one queue, the index of the next entry, and the lease time."""

    def __init__(self, messages: int = 0, level: int = SHARED_GROUPS) -> None:
        self.state = State()
        self.index = 0
        self.time_ms = 0
        self.apply(RaiseFeatureLevel(level))
        assert isinstance(self.apply(CreateTopic("orders", 1)), Topic)
        if messages:
            self.append(messages)

    def apply(self, command: Command) -> object:
        self.index += 1
        return self.state.apply_command(encode_command(command), NOW_MS, index=self.index)

    def append(self, count: int) -> None:
        self.index += 1
        end = self.state.next_offset(1, 0)
        self.state.apply_batch(CommittedBatch(1, 0, end, count, NOW_MS, self.index, 1, 7, 0, end))

    def change(self, *changes: LeaseChange, created: int = 1, group: str = "work") -> tuple[int, ...]:
        result = self.refusal(*changes, created=created, group=group)
        assert not isinstance(result, LedgerError), result
        return result

    def refusal(
        self, *changes: LeaseChange, created: int = 1, group: str = "work", queue: TopicQueueId = QUEUE, start: int = 0
    ) -> tuple[int, ...] | LedgerError:
        results = self.apply(ChangeLeases((QueueLeases(group, created, queue, start, changes),), self.time_ms))
        assert isinstance(results, LeaseResults), results
        (result,) = results.queues
        return result

    @property
    def window(self) -> LeaseWindow:
        window = self.state.shared.leases.window("work", QUEUE)
        assert window is not None
        return window


def lease(first: int, count: int = 1, *, ms: int = 1000, receipt: int = 5) -> LeaseChange:
    return LeaseChange(ChangeKind.LEASE, first, count, duration_ms=ms, receipt=receipt)


def acknowledge(first: int, count: int, lease: int, resets: int = 0) -> LeaseChange:
    return LeaseChange(ChangeKind.ACKNOWLEDGE, first, count, lease, resets)


# -- leases


def test_a_lease_is_refused_until_the_lease_before_it_has_ended() -> None:
    shard = Shard(messages=3)
    assert shard.change(lease(0, 2, ms=1000)) == (2,)
    shard.time_ms += 999
    assert shard.change(lease(1), lease(2)) == (0, 1)
    shard.time_ms += 1
    assert shard.change(lease(0, 2)) == (2,)
    slot = shard.window.slot(1)
    assert slot is not None
    assert (int(slot["attempts"]), int(slot["lease"]), int(slot["receipt"])) == (2, shard.index, 5)


def test_the_lease_time_comes_from_the_entries_and_never_goes_back() -> None:
    shard = Shard(messages=1)
    leases = shard.state.shared.leases
    shard.time_ms = 5_000
    assert shard.change(lease(0, ms=1_000)) == (1,)
    shard.time_ms = 4_000  # of a leader with a fault
    results = shard.apply(ChangeLeases((), shard.time_ms))
    assert isinstance(results, LeaseResults)
    assert (results.queues, results.time_ms, leases.time_ms) == ((), 5_000, 5_000)
    assert shard.change(lease(0)) == (0,)
    shard.apply(ChangeLeases((), 6_000))
    assert shard.change(lease(0, ms=1_000)) == (1,), "the lease time of the state has moved"
    slot = shard.window.slot(0)
    assert slot is not None
    assert int(slot["free_ms"]) == 7_000
    assert State.decode(shard.state.encode()).shared.leases.time_ms == 6_000


def test_a_lease_at_the_largest_lease_time() -> None:
    shard = Shard(messages=1)
    shard.time_ms = MAX_LEASE_TIME_MS
    assert shard.change(lease(0, ms=MAX_LEASE_MS)) == (1,)
    assert shard.change(lease(0)) == (0,)
    assert State.decode(shard.state.encode()).encode() == shard.state.encode()


def test_leases_and_delays_run_until_they_end_or_all_messages_are_settled() -> None:
    def runs() -> bool:
        twin = State.decode(shard.state.encode()).shared.leases
        assert twin.has_running_leases == shard.state.shared.leases.has_running_leases
        return twin.has_running_leases

    shard = Shard(messages=2)
    assert not runs()
    shard.change(lease(0, 2, ms=1_000))
    held = shard.index
    assert runs()
    shard.change(LeaseChange(ChangeKind.PUT_OFF, 0, 1, held, duration_ms=2_000), acknowledge(1, 1, held))
    shard.time_ms = 1_999
    shard.change()
    assert runs()
    shard.time_ms = 2_000
    shard.change()
    assert not runs()
    shard.change(lease(0, ms=1_000))
    assert runs()
    shard.change(acknowledge(0, 1, shard.index))
    assert not runs()


def test_a_lease_of_several_messages_is_refused_whole_if_one_is_not_free() -> None:
    shard = Shard(messages=4)
    shard.change(lease(2))
    assert shard.change(lease(0, 4)) == (0,)
    assert shard.change(lease(0, 2)) == (2,)


def test_messages_before_a_lease_wait() -> None:
    shard = Shard(messages=5)
    shard.change(lease(3))
    assert (shard.window.begin, shard.window.end) == (0, 4)
    assert shard.window.open_messages() == 4
    assert shard.change(lease(0, 3)) == (3,)


def test_the_window_moves_past_what_is_settled() -> None:
    shard = Shard(messages=6)
    shard.change(lease(0, 4))
    held = shard.index
    assert shard.change(acknowledge(1, 2, held)) == (2,)
    assert (shard.window.begin, len(shard.window)) == (0, 4)
    assert shard.change(acknowledge(0, 1, held)) == (1,)
    assert (shard.window.begin, len(shard.window)) == (3, 1)
    assert shard.change(acknowledge(0, 4, held)) == (1,), "messages that are settled are not counted again"
    assert (shard.window.begin, len(shard.window)) == (4, 0)
    assert shard.state.shared.leases.open_offsets == 0


def test_an_acknowledgement_counts_until_another_receive_has_the_message() -> None:
    shard = Shard(messages=2)
    shard.change(lease(0, 2))
    first = shard.index
    shard.time_ms += 5000
    assert shard.change(acknowledge(0, 1, first)) == (1,), "late, but nobody has the message"
    shard.change(lease(1))
    assert shard.change(acknowledge(1, 1, first)) == (0,)
    assert shard.change(acknowledge(1, 1, shard.index - 1)) == (1,)


def test_lease_0_is_no_lease() -> None:
    shard = Shard(messages=2)
    shard.change(lease(1))
    assert shard.change(acknowledge(0, 1, 0)) == (0,)


def test_a_message_that_is_put_off_is_free_after_its_delay() -> None:
    shard = Shard(messages=1)
    shard.change(lease(0, ms=60_000))
    assert shard.change(LeaseChange(ChangeKind.PUT_OFF, 0, 1, shard.index, 0, 300)) == (1,)
    shard.time_ms += 299
    assert shard.change(lease(0)) == (0,)
    shard.time_ms += 1
    assert shard.change(lease(0)) == (1,)
    assert int(shard.window.slots["attempts"][0]) == 2


def test_a_message_that_is_given_back_is_free_at_once_and_its_attempt_does_not_count() -> None:
    shard = Shard(messages=1)
    shard.change(lease(0, ms=60_000))
    assert shard.change(LeaseChange(ChangeKind.GIVE_BACK, 0, 1, shard.index)) == (1,)
    assert shard.change(lease(0)) == (1,)
    assert int(shard.window.slots["attempts"][0]) == 1


def test_a_lease_can_be_extended_by_its_owner_only() -> None:
    shard = Shard(messages=1)
    shard.change(lease(0, ms=1000))
    held = shard.index
    assert shard.change(LeaseChange(ChangeKind.EXTEND, 0, 1, held + 1, 0, 90_000)) == (0,)
    shard.time_ms += 500
    assert shard.change(LeaseChange(ChangeKind.EXTEND, 0, 1, held, 0, 1000)) == (1,)
    shard.time_ms += 999
    assert shard.change(lease(0)) == (0,)
    shard.time_ms += 1
    assert shard.change(lease(0)) == (1,)


def test_skipped_messages_are_settled_however_many_they_are() -> None:
    shard = Shard(messages=10 * MAX_WINDOW)
    far = 9 * MAX_WINDOW
    assert shard.change(LeaseChange(ChangeKind.SKIP, 0, far), lease(far)) == (far, 1)
    assert (shard.window.begin, len(shard.window)) == (far, 1)
    assert shard.change(LeaseChange(ChangeKind.SKIP, far + 1, 3), lease(far + 4)) == (3, 1)
    assert shard.window.open_messages() == 2
    assert shard.change(LeaseChange(ChangeKind.SKIP, 0, far + 2)) == (1,), "also of what is leased"


def test_no_change_reaches_over_the_end_of_the_queue_or_of_the_window() -> None:
    shard = Shard(messages=MAX_WINDOW + 10)
    assert shard.change(lease(MAX_WINDOW + 9, 2), LeaseChange(ChangeKind.SKIP, 0, MAX_WINDOW + 11)) == (0, 0)
    assert shard.change(lease(1, MAX_WINDOW), lease(0, MAX_WINDOW)) == (0, MAX_WINDOW)
    assert shard.change(LeaseChange(ChangeKind.SKIP, MAX_WINDOW, 1)) == (0,)
    held = shard.index - 1
    assert shard.change(acknowledge(0, 1, held), lease(MAX_WINDOW)) == (1, 1), "room that the entry itself makes counts"


# -- groups


def test_a_group_that_was_created_again_begins_anew_and_fences_the_old_one() -> None:
    shard = Shard(messages=4)
    shard.change(lease(0, 2), created=3)
    assert shard.change(lease(0, 2), created=9) == (2,)
    refused = shard.refusal(lease(2), created=3)
    assert isinstance(refused, ConsumerFencedError)


def test_a_queue_group_cannot_lease_and_a_shared_group_cannot_claim() -> None:
    shard = Shard(messages=4)
    shard.apply(ClaimQueues("mixed", (ClaimedQueue(1, 0, 3, 0),)))
    assert isinstance(shard.refusal(lease(0), group="mixed"), GroupConflictError)
    shard.change(lease(0))
    assert isinstance(shard.apply(ClaimQueues("work", (ClaimedQueue(1, 0, 3, 0),))), GroupConflictError)


def test_the_mode_of_a_group_is_fixed_by_its_creation() -> None:
    shard = Shard()
    created = shard.apply(CreateConsumerGroup(GroupMode("work", is_shared=True, by_key=True)))
    assert created == GroupMode("work", is_shared=True, by_key=True, created=shard.index)
    assert shard.apply(CreateConsumerGroup(GroupMode("work", is_shared=True, by_key=True))) == created
    refused = shard.apply(CreateConsumerGroup(GroupMode("work", is_shared=True)))
    assert isinstance(refused, GroupConflictError)
    assert "a shared group with order by key" in str(refused)
    assert isinstance(shard.apply(JoinConsumerGroup("work", "average", MEMBER)), GroupConflictError)
    shard.apply(ForgetConsumerGroup("work"))
    assert shard.apply(JoinConsumerGroup("work", "average", MEMBER)) is True
    assert isinstance(shard.apply(CreateConsumerGroup(GroupMode("work", is_shared=True))), GroupConflictError)


def test_a_queue_group_can_be_created_too() -> None:
    shard = Shard()
    assert isinstance(shard.apply(CreateConsumerGroup(GroupMode("old", is_shared=False))), GroupMode)
    assert shard.apply(JoinConsumerGroup("old", "average", MEMBER)) is True
    assert isinstance(shard.apply(CreateConsumerGroup(GroupMode("old", is_shared=True))), GroupConflictError)


def test_below_the_feature_level_there_are_no_shared_groups() -> None:
    shard = Shard(messages=1, level=TIMED)
    for command in (
        CreateConsumerGroup(GroupMode("work", is_shared=True)),
        ChangeLeases((QueueLeases("work", 1, QUEUE, 0, (lease(0),)),), 0),
    ):
        before = shard.state.digest()
        refused = shard.apply(command)
        assert isinstance(refused, InvalidArgumentError)
        assert "need level 4" in str(refused)
        assert shard.state.digest() == before


def test_a_reset_ends_all_leases_of_the_queue() -> None:
    shard = Shard(messages=5)
    shard.change(lease(0, 4))
    held = shard.index
    shard.apply(ResetOffsets("work", (ResetOffset(1, 0, 2),)))
    assert shard.change(acknowledge(2, 1, held), lease(2)) == (0, 1)
    assert shard.change(acknowledge(2, 1, shard.index, 0), acknowledge(2, 1, shard.index, 1)) == (0, 1)
    assert isinstance(shard.apply(ResetOffsets("work", (ResetOffset(1, 0, 6),))), list)
    assert shard.window.resets == 1, "a reset beyond the end changes nothing"


def test_a_moved_message_is_settled() -> None:
    shard = Shard(messages=3)
    shard.change(lease(0, 3))
    shard.state.apply_move("work", 1, 0, 1)
    shard.state.apply_move("work", 1, 0, 7)
    assert shard.window.open_messages() == 2
    shard.state.apply_move("work", 1, 0, 0)
    assert shard.window.begin == 2
    assert shard.state.shared.leases.open_offsets == 1


def test_a_deleted_topic_and_a_forgotten_group_leave_nothing() -> None:
    shard = Shard(messages=3)
    shard.change(lease(0, 3))
    shard.change(lease(0, 3), group="other")
    assert shard.apply(ForgetConsumerGroup("other")) == 1
    shard.apply(DeleteTopic(1))
    assert shard.state.shared.leases.open_offsets == 0
    assert isinstance(shard.refusal(lease(0)), UnknownTopicError)


def test_a_queue_that_does_not_exist_is_refused_and_the_others_are_not() -> None:
    shard = Shard(messages=1)
    queues = (QueueLeases("work", 1, TopicQueueId(1, 9), 0), QueueLeases("work", 1, QUEUE, 0, (lease(0),)))
    result = shard.apply(ChangeLeases(queues, 0))
    assert isinstance(result, LeaseResults)
    assert isinstance(result.queues[0], UnknownQueueError)
    assert result.queues[1] == (1,)


def test_a_new_group_begins_at_its_start_offset_and_not_behind_the_end() -> None:
    shard = Shard(messages=4)
    assert shard.refusal(start=2) == ()
    assert shard.window.begin == 2
    shard.refusal(start=9, group="late")
    late = shard.state.shared.leases.window("late", QUEUE)
    assert late is not None
    assert late.begin == 4


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (ChangeLeases((), -1), "-1 is no lease time"),
        (ChangeLeases((), MAX_LEASE_TIME_MS + 1), "is no lease time"),
        (ChangeLeases((QueueLeases("a b", 1, QUEUE, 0),), 0), "not a valid consumer group name"),
        (ChangeLeases((QueueLeases("work", 1, QUEUE, -1),), 0), "No message can have the offset -1"),
        (ChangeLeases((QueueLeases("work", 1, QUEUE, 0, (lease(-1),)),), 0), "No message can have the offset -1"),
        (ChangeLeases((QueueLeases("work", 1, QUEUE, 0, (lease(0, 0),)),), 0), "No queue has 0 messages"),
        (ChangeLeases((QueueLeases("work", 1, QUEUE, 0, (lease(0, ms=MAX_LEASE_MS + 1),)),), 0), "cannot last"),
        (ChangeLeases((QueueLeases("work", 1, QUEUE, 0, (lease(0),) * (MAX_LEASE_CHANGES + 1)),), 0), "at most 20000"),
        (CreateConsumerGroup(GroupMode("work", is_shared=False, by_key=True)), "Only a shared group"),
        (CreateConsumerGroup(GroupMode("work", is_shared=True, max_attempts=MAX_ATTEMPTS + 1)), "choose 1 to 1000"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_impossible_value_is_refused(command: Command, why: str) -> None:
    with pytest.raises(LedgerError, match=why):
        check_command(command, 0)


# -- a model: one record for each message


@dataclass
class Known:
    free_ms: int = 0
    lease: int = 0
    attempts: int = 0
    is_settled: bool = False


class Model:
    """What every message of the queue is, without windows and arrays."""

    def __init__(self, messages: int) -> None:
        self.messages = [Known() for _ in range(messages)]

    def apply(self, change: LeaseChange, index: int, now_ms: int) -> int:
        chosen = self.messages[change.first : change.first + change.size]
        until_ms = now_ms + change.duration_ms
        if change.kind is ChangeKind.LEASE:
            if len(chosen) < change.size or any(each.is_settled or each.free_ms > now_ms for each in chosen):
                return 0
            for each in chosen:
                each.free_ms, each.lease, each.attempts = until_ms, index, each.attempts + 1
            return change.size
        if change.kind is ChangeKind.SKIP:
            if len(chosen) < change.size:
                return 0
            held = [each for each in chosen if not each.is_settled]
        else:
            held = [each for each in chosen if each.lease == change.lease > 0 and not each.is_settled]
        for each in held:
            match change.kind:
                case ChangeKind.ACKNOWLEDGE | ChangeKind.SKIP:
                    each.is_settled = True
                case ChangeKind.EXTEND:
                    each.free_ms = until_ms
                case ChangeKind.PUT_OFF:
                    each.free_ms, each.lease = until_ms, 0
                case ChangeKind.GIVE_BACK:
                    each.free_ms, each.lease, each.attempts = now_ms, 0, each.attempts - 1
        return len(held)


CHANGES = st.builds(
    LeaseChange,
    st.sampled_from(ChangeKind),
    st.integers(0, 13),
    st.integers(1, 5),
    st.integers(0, 30),
    st.just(0),
    st.sampled_from([0, 1, 3, 10]),
    st.integers(0, 3),
)


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.lists(CHANGES, min_size=1, max_size=4)), max_size=12))
def test_the_state_agrees_with_a_model_of_single_messages(entries: list[tuple[int, list[LeaseChange]]]) -> None:
    shard, model = Shard(messages=14), Model(14)
    for passed_ms, changes in entries:
        shard.time_ms += passed_ms
        expected = tuple([model.apply(each, shard.index + 1, shard.time_ms) for each in changes])
        assert shard.change(*changes) == expected
        window = shard.window
        settled = {offset for offset, each in enumerate(model.messages) if each.is_settled}
        assert all(offset in settled for offset in range(window.begin))
        assert not len(window) or window.begin not in settled
        for at, slot in enumerate(window.slots):
            known = model.messages[window.begin + at]
            assert bool(slot["is_settled"]) == known.is_settled
            if not known.is_settled:
                found = (int(slot["free_ms"]), int(slot["lease"]), int(slot["attempts"]))
                assert found == (known.free_ms, known.lease, known.attempts)
        assert shard.state.shared.leases.open_offsets == len(window)
        twin = State.decode(shard.state.encode())
        assert twin.encode() == shard.state.encode()


def test_a_window_that_grows_and_shrinks_by_single_messages_seldom_moves_its_slots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All replicas apply thousands of changes of one entry in one go."""
    moves = 0
    move = LeaseWindow._move

    def counted(window: LeaseWindow, room: int) -> None:
        nonlocal moves
        moves += 1
        move(window, room)

    monkeypatch.setattr(LeaseWindow, "_move", counted)
    window = LeaseWindow(7)
    for offset in range(7, 7 + MAX_WINDOW):
        assert window.lease(offset, 1, Lease(3, 1_000, 5), 0) == 1
    assert moves < 20
    for offset in range(7, 7 + MAX_WINDOW):
        assert window.acknowledge(offset, 1, 3) == 1
        window.changed()
        assert len(window._memory) <= max(4 * len(window), 16), "memory that is not needed is given back"
    assert moves < 40
    assert (window.begin, len(window)) == (7 + MAX_WINDOW, 0)


def test_slots_that_are_new_again_in_old_memory_are_empty() -> None:
    window = LeaseWindow(0)
    for first in range(0, 100, 10):
        assert window.lease(first, 10, Lease(3, 1_000, 5), 0) == 10
        assert window.acknowledge(first, 9, 3) == 9
        window.changed()
        assert window.slots["attempts"].tolist() == [1]
        assert window.acknowledge(first + 9, 1, 3) == 1
        window.changed()
        assert window.lease(first + 14, 1, Lease(4, 1_000, 5), 0) == 1
        assert window.slots["attempts"].tolist() == [0] * 4 + [1]
        window.reset(first + 10)
