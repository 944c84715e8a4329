"""Tests the progress of consumer groups: claims and fencing, offsets that never decrease, settled messages, and
limits.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import (
    BusyError,
    ConsumerFencedError,
    GroupFullError,
    InvalidGroupNameError,
    LedgerError,
    OffsetBeyondEndError,
    UnknownQueueError,
    UnknownTopicError,
)
from ledger.state import CommittedBatch, State
from ledger.state.consumption import ProgressResult
from ledger.state.progress_table import MAX_CONSUMED_QUEUES, MAX_SETTLED, ConsumedQueue, ProgressTable, QueueProgress
from ledger.v1 import command_pb2

KEY = ConsumedQueue("billing", 1, 0)
END = 100


def claimed(epoch: int = 5, offset: int = 10) -> ProgressTable:
    table = ProgressTable()
    table.claim(KEY, epoch, offset)
    return table


def progress(table: ProgressTable) -> QueueProgress:
    found = table.get(KEY)
    assert found is not None
    return found


def settle(table: ProgressTable, epoch: int, offset: int, *, resets: int = 0) -> QueueProgress:
    """Settle the message if the table allows it: the leader checks first, and the applied entry then settles it."""
    if table.may_settle(KEY, epoch, resets, offset):
        table.settle(KEY, offset)
    return progress(table)


# --- claims and fences


def test_the_first_claim_decides_where_to_begin() -> None:
    table = claimed(offset=10)
    assert progress(table) == QueueProgress(5, 10)
    table.claim(KEY, 6, 70)
    assert progress(table) == QueueProgress(6, 10)


def test_a_claim_fences_all_earlier_ones() -> None:
    table = claimed(epoch=5)
    table.claim(KEY, 8, 0)
    for late in (5, 7):
        with pytest.raises(ConsumerFencedError, match="another member of consumer group 'billing' owns it"):
            table.claim(KEY, late, 0)
        with pytest.raises(ConsumerFencedError):
            table.acknowledge(KEY, late, 0, 20, end=END)
        with pytest.raises(ConsumerFencedError):
            settle(table, late, 20)
    assert progress(table) == QueueProgress(8, 10)
    assert table.acknowledge(KEY, 8, 0, 20, end=END).offset == 20


def test_nobody_acknowledges_by_an_epoch_that_was_not_claimed() -> None:
    table = claimed(epoch=5)
    with pytest.raises(ConsumerFencedError):
        table.acknowledge(KEY, 6, 0, 20, end=END)
    with pytest.raises(ConsumerFencedError):
        table.acknowledge(ConsumedQueue("billing", 1, 1), 5, 0, 20, end=END)
    assert progress(table).offset == 10


def test_the_same_claim_once_more_changes_nothing() -> None:
    table = claimed(epoch=5)
    table.acknowledge(KEY, 5, 0, 30, end=END)
    assert table.claim(KEY, 5, 10) == QueueProgress(5, 30)


def test_consumer_groups_do_not_see_each_other() -> None:
    table = claimed(epoch=5)
    other = ConsumedQueue("audit", 1, 0)
    table.claim(other, 2, 0)
    table.acknowledge(other, 2, 0, 50, end=END)
    assert progress(table) == QueueProgress(5, 10)
    assert [key for key, _ in table] == [other, KEY]


# --- offsets


def test_an_offset_never_falls() -> None:
    table = claimed()
    assert table.acknowledge(KEY, 5, 0, 30, end=END).offset == 30
    assert table.acknowledge(KEY, 5, 0, 20, end=END).offset == 30
    assert table.acknowledge(KEY, 5, 0, -1, end=END).offset == 30


def test_nothing_is_acknowledged_or_set_beyond_the_end() -> None:
    table = claimed()
    with pytest.raises(OffsetBeyondEndError) as error:
        table.acknowledge(KEY, 5, 0, END + 1, end=END)
    assert error.value.end_offset == END
    with pytest.raises(OffsetBeyondEndError):
        table.reset(KEY, END + 1, end=END)
    assert progress(table) == QueueProgress(5, 10)
    assert table.acknowledge(KEY, 5, 0, END, end=END).offset == END


# --- settled messages


def test_what_is_settled_is_passed_over() -> None:
    table = claimed(offset=10)
    for offset in (13, 11, 12, 15):
        settle(table, 5, offset)
    assert progress(table) == QueueProgress(5, 10, settled=[11, 12, 13, 15])
    assert table.acknowledge(KEY, 5, 0, 11, end=END) == QueueProgress(5, 14, settled=[15])
    assert settle(table, 5, 14) == QueueProgress(5, 16)


def test_settling_twice_or_what_is_consumed_changes_nothing() -> None:
    table = claimed(offset=10)
    for offset in (12, 12, 9):
        settle(table, 5, offset)
    assert progress(table) == QueueProgress(5, 10, settled=[12])
    assert [progress(table).has_settled(offset) for offset in (9, 10, 11, 12, 13)] == [
        True, False, False, True, False,
    ]  # fmt: skip


def test_who_claims_a_queue_finds_what_was_settled() -> None:
    table = claimed(offset=10)
    settle(table, 5, 12)
    assert table.claim(KEY, 6, 0) == QueueProgress(6, 10, settled=[12])


ACTIONS = st.lists(st.tuples(st.sampled_from(["acknowledge", "settle"]), st.integers(0, 25)), max_size=40)


@given(ACTIONS)
def test_the_offset_is_the_first_that_is_neither_consumed_nor_settled(actions: list[tuple[str, int]]) -> None:
    table = claimed(offset=0)
    done: set[int] = set()
    for action, offset in actions:
        if action == "settle":
            settle(table, 5, offset)
            done.add(offset)
        else:
            table.acknowledge(KEY, 5, 0, offset, end=30)
            done |= set(range(offset))
        first = next(offset for offset in range(40) if offset not in done)
        assert progress(table).offset == first
        assert progress(table).settled == sorted(offset for offset in done if offset > first)


# --- resets by an operator


def test_after_a_reset_even_the_owner_claims_again() -> None:
    table = claimed(offset=10)
    settle(table, 5, 12)
    table.reset(KEY, 3, end=END)
    with pytest.raises(ConsumerFencedError, match="or its offset was reset"):
        table.acknowledge(KEY, 5, 0, 20, end=END)
    with pytest.raises(ConsumerFencedError):
        settle(table, 5, 20)
    with pytest.raises(ConsumerFencedError):
        table.claim(KEY, 4, 0)
    assert table.claim(KEY, 5, 99) == QueueProgress(5, 3, resets=1)
    assert table.acknowledge(KEY, 5, 1, 20, end=END).offset == 20


def test_what_was_sent_before_a_reset_counts_no_more_though_the_owner_has_claimed_again() -> None:
    table = claimed(offset=10)
    table.reset(KEY, 3, end=END)
    table.claim(KEY, 5, 0)
    with pytest.raises(ConsumerFencedError):
        table.acknowledge(KEY, 5, 0, 20, end=END)
    with pytest.raises(ConsumerFencedError):
        settle(table, 5, 12)
    assert settle(table, 5, 12, resets=1) == QueueProgress(5, 3, resets=1, settled=[12])


def test_a_reset_decides_where_a_consumer_group_begins_that_has_not() -> None:
    table = ProgressTable()
    table.reset(KEY, 40, end=END)
    assert table.claim(KEY, 5, 0) == QueueProgress(5, 40, resets=1)


def test_a_queue_that_nobody_has_claimed_is_nobodys_behind_a_reset_too() -> None:
    table = ProgressTable()
    table.reset(KEY, 40, end=END)
    with pytest.raises(ConsumerFencedError):
        table.acknowledge(KEY, 0, 1, 50, end=END)


def test_a_consumer_group_is_forgotten_with_all_its_queues() -> None:
    table = claimed()
    other = ConsumedQueue("audit", 1, 0)
    table.claim(ConsumedQueue("billing", 2, 3), 5, 0)
    table.claim(other, 5, 0)
    assert table.forget("billing") == 2
    assert [key for key, _ in table] == [other]
    assert table.forget("billing") == 0
    assert table.claim(KEY, 1, 7) == QueueProgress(1, 7)


# --- limits


def test_only_so_many_are_settled_behind_one_that_is_not_consumed() -> None:
    table, end = claimed(offset=0), 3 * MAX_SETTLED
    for offset in range(1, MAX_SETTLED + 1):
        settle(table, 5, offset)
    with pytest.raises(BusyError, match="finish that message first"):
        settle(table, 5, MAX_SETTLED + 5)
    assert settle(table, 5, 7).offset == 0  # this message is settled already
    assert table.acknowledge(KEY, 5, 0, 1, end=end) == QueueProgress(5, MAX_SETTLED + 1)
    settle(table, 5, MAX_SETTLED + 5)


def test_even_at_the_bound_the_first_one_can_be_settled() -> None:
    """The limit on settled messages never applies to the first unconsumed message. Otherwise one failing message could
    block its queue for ever.
    """
    table = claimed(offset=0)
    for offset in range(1, MAX_SETTLED + 1):
        settle(table, 5, offset)
    assert settle(table, 5, 0) == QueueProgress(5, MAX_SETTLED + 1)


def test_only_so_many_queues_are_known() -> None:
    known = ((ConsumedQueue("many", 1, queue), QueueProgress(1, 0)) for queue in range(MAX_CONSUMED_QUEUES))
    table = ProgressTable(known)
    with pytest.raises(GroupFullError, match="delete consumer groups"):
        table.claim(KEY, 5, 0)
    with pytest.raises(GroupFullError):
        table.reset(KEY, 0, end=END)
    assert table.claim(ConsumedQueue("many", 1, 7), 2, 0).epoch == 2
    table.forget("many")
    assert table.claim(KEY, 5, 0).epoch == 5


# --- commands


def made() -> State:
    """Return a state with topic 1, which has two queues. Queue 0 ends at offset 20."""
    state = State()
    create = command_pb2.Command(create_topic=command_pb2.CreateTopic(name="orders", queues=2))
    state.apply_command(create.SerializeToString(), 10, index=1)
    state.apply_batch(CommittedBatch(
        topic_id=1, queue=0, base_offset=0, count=20, append_time_ms=10, index=2, term=1,
        producer_id=1, epoch=0, first_sequence=0,
    ))  # fmt: skip
    return state


def claim_command(*queues: tuple[int, int, int, int], consumer_group: str = "billing") -> bytes:
    """Encode a command that claims the queues, each given as (topic id, queue, epoch, start offset)."""
    wanted = [
        command_pb2.ClaimedQueue(topic_id=topic_id, queue=queue, epoch=epoch, start_offset=start)
        for topic_id, queue, epoch, start in queues
    ]
    of = command_pb2.ClaimQueues(consumer_group=consumer_group, queues=wanted)
    return command_pb2.Command(claim_queues=of).SerializeToString()


def claim(state: State, *queues: tuple[int, int, int, int]) -> list[ProgressResult | LedgerError]:
    results = state.apply_command(claim_command(*queues), 10, index=3)
    assert isinstance(results, list)
    return results


def acknowledge(state: State, *offsets: tuple[int, int, int, int]) -> list[ProgressResult | LedgerError]:
    """Apply a command that acknowledges offsets, each given as (topic id, queue, epoch, offset). Returns the
    results.
    """
    wanted = [
        command_pb2.AcknowledgedOffset(topic_id=topic_id, queue=queue, epoch=epoch, offset=offset)
        for topic_id, queue, epoch, offset in offsets
    ]
    of = command_pb2.AcknowledgeOffsets(consumer_group="billing", offsets=wanted)
    results = state.apply_command(command_pb2.Command(acknowledge_offsets=of).SerializeToString(), 10, index=4)
    assert isinstance(results, list)
    return results


@pytest.mark.parametrize(("start", "offset"), [(-5, 0), (0, 0), (7, 7), (20, 20), (21, 20), (2**62, 20)])
def test_a_consumer_group_begins_within_the_queue(start: int, offset: int) -> None:
    assert claim(made(), (1, 0, 5, start)) == [ProgressResult(offset, ())]


@pytest.mark.parametrize("name", ["", "a b", "x" * 64])
def test_only_what_may_be_a_consumer_group_has_progress(name: str) -> None:
    state = made()
    result = state.apply_command(claim_command((1, 0, 5, 0), consumer_group=name), 10, index=3)
    assert isinstance(result, InvalidGroupNameError)
    assert len(state.consumption.progress) == 0


def test_each_queue_of_a_command_has_its_own_answer() -> None:
    state = made()
    answers = claim(state, (1, 0, 5, 3), (1, 1, 5, 3), (1, 2, 5, 0), (9, 0, 5, 0), (1, 0, 4, 0))
    assert answers[:2] == [ProgressResult(3, ()), ProgressResult(0, ())]
    assert [type(each) for each in answers[2:]] == [UnknownQueueError, UnknownTopicError, ConsumerFencedError]
    answers = acknowledge(state, (1, 0, 5, 8), (1, 1, 5, 1), (1, 0, 4, 20), (9, 0, 5, 0), (1, 0, 5, 20))
    assert [type(each) for each in answers] == [
        ProgressResult, OffsetBeyondEndError, ConsumerFencedError, UnknownTopicError, ProgressResult,
    ]  # fmt: skip
    assert answers[-1] == ProgressResult(20, ())
    assert len(state.consumption.progress) == 2


class Watched(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Watched.compared += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def test_the_progress_of_one_group_is_found_without_a_look_at_other_groups() -> None:
    """A user can let the own group be described, deleted and created again all the time."""
    table = ProgressTable()
    for number in range(1_000):
        table.claim(ConsumedQueue(Watched(f"other-{number}"), 1, 0), 1, 0)
    table.claim(ConsumedQueue("mine", 1, 0), 1, 0)
    Watched.compared = 0
    assert len(table.of("mine")) == 1
    assert table.forget("mine") == 1
    assert table.of("mine") == []
    assert Watched.compared < 10
