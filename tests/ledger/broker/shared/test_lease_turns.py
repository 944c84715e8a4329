"""The turns in which a leader leases messages to the members of a shared group."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.batch import Batch
from ledger.batch.columns import BinaryColumn
from ledger.broker.consumer_groups.claims import QueueClaims
from ledger.broker.consumer_groups.moved_batch import MessageMove, moved_batch
from ledger.broker.produce.proposals import Committed
from ledger.broker.rpc.consumer_group_operations import ConsumerGroupOperations
from ledger.broker.shared import group_receives, lease_entry, lease_turns, stored_batches
from ledger.broker.shared.members import ChangeRequest
from ledger.codec import Codec
from ledger.errors import (
    BusyError,
    ConsumerFencedError,
    GroupConflictError,
    GroupNotEmptyError,
    InvalidArgumentError,
    NoLeaderError,
    StorageFailedError,
)
from ledger.retries import dead_letter_topic
from ledger.state import TopicQueueId
from ledger.state.commands import (
    CreateConsumerGroup,
    CreateTopic,
    DeleteTopic,
    ForgetConsumerGroup,
    ResetOffset,
    ResetOffsets,
)
from ledger.state.group_modes import GroupMode
from ledger.state.lease_table import ChangeKind, LeaseChange
from ledger.state.lease_window import MAX_WINDOW
from ledger.v1 import consumer_group_operations_pb2
from raft.core import Busy
from tests.ledger.broker.shared.leader import (
    DEAD,
    GROUP,
    ORDERS,
    QUEUE,
    Got,
    LeasingLeader,
    LeasingMember,
    messages_of,
)


def offsets(messages: list[Got]) -> list[int]:
    return [got.offset for got in messages]


async def test_messages_are_leased_once_and_come_back_after_the_lease() -> None:
    leader = LeasingLeader()
    leader.send(5)
    one, two = leader.member(), leader.member()
    first = await one.receive(3, lease_ms=1_000)
    assert (offsets(first), [got.value for got in first]) == ([0, 1, 2], [b"0", b"1", b"2"])
    assert offsets(await two.receive()) == [3, 4]
    leader.pass_ms(999)
    assert await two.receive(wait_s=0) == []
    leader.pass_ms(1)
    again = await two.receive()
    assert (offsets(again), {got.attempt for got in again}) == ([0, 1, 2], {2})
    assert await one.ack(*first) == [0, 0, 0]
    assert await two.ack(*again) == [1, 1, 1]


async def test_a_receive_waits_for_messages_and_ends_at_its_time() -> None:
    leader = LeasingLeader()
    member = leader.member()
    number = member.ask()
    await leader.turn(3)
    assert member.answers() == []
    leader.send(1)
    await leader.turn()
    (answer,) = member.answers()
    assert (answer.number, len(messages_of(answer))) == (number, 1)
    assert await member.receive(wait_s=0) == []
    number = member.ask()
    leader.turns.cancel(member.member, number)
    await leader.turn()
    assert [(answer.number, answer.received) for answer in member.answers()] == [(number, ())]


async def test_few_messages_are_shared_out_evenly_and_all_queues_are_used() -> None:
    leader = LeasingLeader()
    leader.send(6)
    leader.send(6, queue=1)
    members = [leader.member() for _ in range(4)]
    await leader.turn()  # the group begins
    for member in members:
        member.ask(32)
    await leader.turn()
    counts = [sum(len(messages_of(answer)) for answer in member.answers()) for member in members]
    assert counts == [3, 3, 3, 3]


async def test_all_receives_of_one_turn_are_one_entry() -> None:
    leader = LeasingLeader()
    leader.send(40)
    members = [leader.member() for _ in range(4)]
    await leader.turn()
    before = leader.log.last_index
    for member in members:
        member.ask(5)
    await leader.turn()
    assert leader.log.last_index == before + 1


async def test_a_receive_that_is_sent_again_gets_the_same_messages_and_no_attempt_more() -> None:
    leader = LeasingLeader()
    leader.send(9)
    first = await leader.member().receive(4, attempt_id=77)
    leader.fail_over()
    member = leader.member()
    again = await member.receive(4, attempt_id=77, repeated=True)
    assert [(got.offset, got.lease, got.attempt) for got in again] == [(got.offset, got.lease, 1) for got in first]
    await member.ack(*again[:3])
    assert offsets(await member.receive(4, attempt_id=77, repeated=True)) == [3]
    leader.pass_ms(10_000)
    late = await member.receive(4, attempt_id=77, repeated=True)
    assert [got.attempt for got in late] == [2, 1, 1, 1], "the lease has ended, so this is a new receive"


async def test_a_receive_that_is_sent_again_is_answered_although_the_entry_of_its_turn_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(size: int) -> None:
        raise BusyError("too many entries wait")

    leader = LeasingLeader()
    leader.send(9)
    await leader.member().receive(4, attempt_id=77)
    leader.fail_over()
    member = leader.member()
    member.ask(4, attempt_id=77, repeated=True)
    member.ask(5)
    with monkeypatch.context() as patched:
        patched.setattr(leader.driver, "check_room", refuse)
        with pytest.raises(BusyError):
            await leader.turn()
    (answer,) = member.answers()
    assert offsets(messages_of(answer)) == [0, 1, 2, 3]
    await leader.turn()
    (answer,) = member.answers()
    assert offsets(messages_of(answer)) == [4, 5, 6, 7, 8]


async def test_put_off_and_given_back() -> None:
    leader = LeasingLeader()
    leader.send(2)
    member = leader.member()
    first, second = await member.receive()
    assert await member.change(ChangeKind.PUT_OFF, first, duration_ms=500) == [1]
    assert await member.change(ChangeKind.GIVE_BACK, second) == [1]
    (again,) = await member.receive()
    assert (again.offset, again.attempt) == (1, 1)
    leader.pass_ms(500)
    (again,) = await member.receive()
    assert (again.offset, again.attempt) == (0, 2)
    assert await member.change(ChangeKind.EXTEND, again, duration_ms=60_000) == [1]
    leader.pass_ms(59_999)
    assert offsets(await member.receive(wait_s=0)) == [1]


async def test_what_was_handed_out_too_often_goes_to_the_dead_letters() -> None:
    leader = LeasingLeader(max_attempts=2)
    leader.send(3)
    member = leader.member()
    for _ in range(2):
        for got in await member.receive(lease_ms=1_000):
            if got.offset != 1:
                assert await member.ack(got) == [1]
        leader.pass_ms(1_000)
    assert await member.receive(wait_s=0) == []
    assert leader.replica.state.next_offset(DEAD, 0) == 1
    window = leader.replica.state.shared.leases.window(GROUP, Got(queue=(ORDERS, 0)).queue)
    assert window is not None
    assert (window.begin, len(window)) == (3, 0)
    assert leader.turns.moved == {GROUP: 1}


def give_up(leader: LeasingLeader, message: Got) -> asyncio.Future[Committed] | None:
    wanted = MessageMove(GROUP, *message.queue, 0, message.resets, message.offset, 1, give_up=True)
    return leader.turns.give_up(wanted, message.lease)


async def test_a_message_that_is_given_up_twice_is_moved_once() -> None:
    leader = LeasingLeader()
    leader.send(1)
    (message,) = await leader.member().receive()
    first, again = give_up(leader, message), give_up(leader, message)
    assert first is not None
    assert again is not None
    assert (await first).base_offset == (await again).base_offset == 0
    assert leader.replica.state.next_offset(DEAD, 0) == 1
    assert leader.turns.moved == {GROUP: 1}


async def test_a_message_that_is_given_up_when_its_last_lease_ends_is_moved_once() -> None:
    leader = LeasingLeader(max_attempts=1)
    leader.send(1)
    member = leader.member()
    (message,) = await member.receive(lease_ms=1_000)
    leader.pass_ms(1_000)
    member.ask()
    moved = give_up(leader, message)
    await leader.turn()
    assert moved is not None
    await moved
    assert leader.replica.state.next_offset(DEAD, 0) == 1


async def test_a_message_is_moved_once_although_the_entry_of_its_turn_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leader = LeasingLeader(max_attempts=1)
    leader.send(2)
    member = leader.member()
    await member.receive(1, lease_ms=1_000)
    leader.pass_ms(1_000)
    member.ask(1)
    before = leader.log.last_index

    def refuse(size: int) -> None:
        if leader.log.last_index > before:
            raise BusyError("too many entries wait")

    with monkeypatch.context() as patched:
        patched.setattr(leader.driver, "check_room", refuse)
        with pytest.raises(BusyError):
            await leader.turn()
    await leader.turn()
    assert leader.replica.state.next_offset(DEAD, 0) == 1
    (answer,) = member.answers()
    assert offsets(messages_of(answer)) == [1]


async def test_messages_with_other_tags_are_settled() -> None:
    leader = LeasingLeader()
    leader.send(6, tags=["a", "b", None, "a", "b", "b"])
    member = leader.member("a")
    got = await member.receive()
    assert offsets(got) == [0, 3]
    await member.ack(*got)
    assert await member.receive(wait_s=0) == []
    window = leader.replica.state.shared.leases.window(GROUP, got[0].queue)
    assert window is not None
    assert (window.begin, len(window)) == (6, 0)
    with pytest.raises(GroupConflictError, match="same tags"):
        leader.member("b")


async def test_a_member_that_joins_again_with_other_tags_takes_the_place_of_its_earlier_streams() -> None:
    leader = LeasingLeader()
    earlier = [leader.member("a", name="consumer") for _ in range(2)]
    number = earlier[0].ask()
    await leader.turn()
    again = leader.member("b", name="consumer")
    leader.send(2, tags=["a", "b"])
    assert offsets(await again.receive()) == [1]
    waited, ended = earlier[0].answers()
    assert (waited.number, waited.received) == (number, ())
    assert isinstance(ended.error, ConsumerFencedError)
    assert not ended.error.retriable, "the earlier stream must not come back"
    assert [type(each.error) for each in earlier[1].answers()] == [ConsumerFencedError]
    assert leader.turns.members(GROUP) == 1
    with pytest.raises(GroupConflictError, match="same tags"):
        leader.member("a", name="another consumer")
    assert leader.turns.members(GROUP) == 1
    leader.member("b", name="consumer")
    assert leader.turns.members(GROUP) == 2, "a member may have several streams, one by way of each node"


async def test_a_receive_has_a_budget_of_bytes() -> None:
    leader = LeasingLeader()
    leader.send(20, size=1_000)
    member = leader.member()
    assert len(await member.receive(20, max_bytes=5_500)) == 5
    assert len(await member.receive(20, max_bytes=10)) == 1, "the first message is larger than the budget"
    assert len(await member.receive(20)) == 14


async def test_a_turn_has_a_budget_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_receives, "MAX_TURN_BYTES", 10_000)
    leader = LeasingLeader()
    leader.send(64, size=1_000)
    members = [leader.member() for _ in range(4)]
    await leader.turn()
    for member in members:
        member.ask(8)
    counts = []
    for _ in range(5):
        await leader.turn()
        counts.append(sum(len(messages_of(answer)) for member in members for answer in member.answers()))
    assert 8 <= counts[0] <= 12
    assert sum(counts) > 16, "the other members are served in the next turns"


async def test_members_that_read_no_answers_get_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = LeasingLeader()
    leader.send(10)
    member, other = leader.member(), leader.member()
    member.ask(1)
    await leader.turn(2)
    monkeypatch.setattr(lease_turns, "MAX_UNSENT_BYTES", 1)
    other.ask(1)
    await leader.turn(3)
    assert other.answers() == []
    member.member.sent(member.answers()[0])
    await leader.turn()
    assert len(other.answers()) == 1


async def test_a_group_that_reads_no_answers_holds_up_no_other_group(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = LeasingLeader()
    leader.send(10)
    leader.append(CreateTopic(dead_letter_topic("other"), 1))
    leader.append(CreateConsumerGroup(GroupMode("other", is_shared=True)))
    member, other = leader.member(), leader.member(consumer_group="other")
    member.ask(1)
    await leader.turn(2)
    monkeypatch.setattr(lease_turns, "MAX_UNSENT_BYTES_OF_A_GROUP", 1)
    member.ask(1)
    other.ask(1)
    await leader.turn(3)
    assert len(member.answers()) == 1, "the group has an answer that it has not read"
    assert len(other.answers()) == 1


async def test_a_full_window_is_told_and_what_is_in_it_is_handed_out() -> None:
    leader = LeasingLeader()
    for _ in range(3):
        leader.send(MAX_WINDOW // 2)
    member = leader.member()
    (hung,) = await member.receive(1, lease_ms=3_600_000)
    got = 0
    while messages := await member.receive(1_000, wait_s=0):
        got += len(messages)
        await member.ack(*messages)
    assert got == MAX_WINDOW - 1
    assert leader.turns.full_windows == {GROUP: 1}
    await member.ack(hung)
    assert len(await member.receive(1_000)) == 1_000
    assert leader.turns.full_windows == {}


@pytest.mark.parametrize("by_key", [False, True])
async def test_one_group_does_not_take_the_room_of_all_groups(by_key: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_receives, "MAX_OPEN_OFFSETS_OF_GROUP", 10)
    leader = LeasingLeader(by_key=by_key, queues=3)
    leader.append(CreateConsumerGroup(GroupMode("other", is_shared=True)))
    for queue in range(3):
        leader.send(8, queue=queue)
    leases, member, other = leader.replica.state.shared.leases, leader.member(), leader.member(consumer_group="other")
    got = await member.receive(100)
    assert len(got) == leases.open_offsets == 10
    assert await member.receive(100, wait_s=0) == []
    assert leader.turns.full_windows == {GROUP: 2}
    assert len(await other.receive(5)) == 5, "the other group has room of its own"
    await member.ack(*got)
    assert len(await member.receive(100)) == 10


@pytest.mark.parametrize("by_key", [False, True])
async def test_unwanted_messages_in_the_windows_of_a_group_take_its_room(
    by_key: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_receives, "MAX_OPEN_OFFSETS_OF_GROUP", 10)
    leader = LeasingLeader(by_key=by_key, queues=3)
    for queue in range(3):
        leader.send(1, tags=["a"], queue=queue)
        leader.send(8, tags=["b"] * 8, queue=queue)
        leader.send(1, tags=["a"], queue=queue)
    member = leader.member("a")
    for _ in range(5):
        await member.receive(100, wait_s=0)
        assert leader.replica.state.shared.leases.open_offsets <= 10


async def test_removed_messages_are_skipped() -> None:
    leader = LeasingLeader()
    leader.send(10)
    member = leader.member()
    (first, *_) = await member.receive(2)
    leader.replica.queues.get(ORDERS, 0).begin_at(7)
    assert offsets(await member.receive()) == [7, 8, 9]
    assert await member.ack(first) == [0]


async def test_a_reset_and_a_deletion() -> None:
    leader = LeasingLeader()
    leader.send(3)
    member = leader.member()
    held = await member.receive()
    leader.append(ResetOffsets(GROUP, (ResetOffset(ORDERS, 0, 1),)))
    assert await member.ack(*held) == [0, 0, 0]
    assert offsets(await member.receive()) == [1, 2]
    with pytest.raises(GroupNotEmptyError):
        leader.turns.check_has_no_members(GROUP)
    leader.append(ForgetConsumerGroup(GROUP))
    await leader.turn()
    (answer,) = member.answers()
    assert isinstance(answer.error, ConsumerFencedError)


async def test_the_streams_end_with_the_term() -> None:
    leader = LeasingLeader()
    leader.send(3)
    member = leader.member()
    await member.receive(1)
    member.ask(1)
    leader.replica._projected = None
    await leader.turn()
    (answer,) = member.answers()
    assert isinstance(answer.error, NoLeaderError)
    with pytest.raises(NoLeaderError):
        leader.member()
    with pytest.raises(NoLeaderError):
        await member.change(ChangeKind.EXTEND)


async def test_a_change_in_time_counts_only_while_the_lease_lasts() -> None:
    leader = LeasingLeader(queues=1)
    leader.send(3)
    member = leader.member()
    first, second, third = await member.receive(3, lease_ms=1_000)
    assert (await member.changed(ChangeKind.ACKNOWLEDGE, first, in_time=[0])).changed == [1]
    leader.steady_ms += 2_000
    late = await member.changed(ChangeKind.ACKNOWLEDGE, first, second, third, in_time=[0, 1])
    assert (late.changed, late.settled) == ([0, 0, 1], [1, 0, 1])


async def test_a_term_that_ends_before_the_first_turn_ends_the_streams_too() -> None:
    leader = LeasingLeader()
    member = leader.member()
    member.ask(1)
    leader.turns.change(ChangeRequest(member.member, 2, []))
    leader.replica._projected = None
    await leader.turn()
    (answer,) = member.answers()
    assert isinstance(answer.error, NoLeaderError)
    assert leader.turns.members(GROUP) == 0
    assert not leader.turns._requests


async def test_changes_are_taken_while_the_shard_has_no_room_for_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = LeasingLeader()
    leader.send(1)
    member = leader.member()
    messages = await member.receive()

    def busy(size: int) -> None:
        raise Busy(1 << 20)

    with monkeypatch.context() as patched:
        patched.setattr(leader.driver, "check_room", busy)
        with pytest.raises(BusyError):
            leader.replica.check_leads(0)
        changes = [
            (got.queue, LeaseChange(ChangeKind.ACKNOWLEDGE, got.offset, 1, got.lease, got.resets, 0))
            for got in messages
        ]
        leader.turns.change(ChangeRequest(member.member, 9, changes))
    await leader.turn()
    assert [(answer.number, answer.changed) for answer in member.answers()] == [(9, [1])]


# -- order by key


async def test_messages_with_one_key_are_handed_out_one_after_another() -> None:
    leader = LeasingLeader(by_key=True)
    leader.send(7, keys=["a", "b", "a", None, "b", "c", None])
    one, two = leader.member(), leader.member()
    first = await one.receive()
    assert offsets(first) == [0, 1, 3, 5, 6]
    assert await two.receive(wait_s=0) == []
    await one.ack(first[0])
    assert offsets(await two.receive()) == [2]
    await one.change(ChangeKind.PUT_OFF, first[1], duration_ms=700)
    assert await two.receive(wait_s=0) == [], "a message that was put off holds up its key"
    leader.pass_ms(700)
    again = await two.receive()
    assert [(got.offset, got.attempt) for got in again] == [(1, 2)]
    await two.ack(*again)
    assert offsets(await two.receive()) == [4]


async def test_a_new_leader_knows_which_keys_are_open() -> None:
    leader = LeasingLeader(by_key=True)
    for _ in range(3):
        leader.send(4, keys=["a", "b", "a", "b"])
    first = await leader.member().receive(lease_ms=3_600_000)
    assert offsets(first) == [0, 1]
    leader.fail_over()
    member = leader.member()
    assert await member.receive(wait_s=0) == []
    await member.ack(first[1])
    assert offsets(await member.receive()) == [3]


@pytest.mark.long
@pytest.mark.parametrize("by_key", [False, True])
async def test_the_skips_of_many_queues_come_in_several_entries(by_key: bool) -> None:
    leader = LeasingLeader(by_key=by_key, queues=24)
    for queue in range(24):
        keys = [f"{queue}-{number}" for number in range(2_000)]
        leader.send(2_000, keys=keys, tags=["no", "yes"] * 1_000, queue=queue)
    member = leader.member("yes")
    got: set[tuple[int, int]] = set()
    for _ in range(100):
        for _ in range(5):
            member.ask(1_000, lease_ms=3_600_000, wait_s=0)
        await leader.turn()
        answers = member.answers()
        assert [answer.error for answer in answers if answer.error is not None] == []
        got |= {(message.queue.queue, message.offset) for answer in answers for message in messages_of(answer)}
        if len(got) == 24_000:
            break
    assert got == {(queue, offset) for queue in range(24) for offset in range(1, 2_000, 2)}


async def test_a_group_begins_in_many_queues_in_several_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_entry, "MAX_ENTRY_QUEUES", 3)
    leader = LeasingLeader(queues=8)
    for queue in range(8):
        leader.send(1, queue=queue)
    member = leader.member()
    member.ask(8)
    before = leader.log.last_index
    await leader.turn(3)
    assert leader.log.last_index == before + 3
    got: list[Got] = []
    for _ in range(8):
        got += await member.receive(8, wait_s=0)
    assert {message.queue.queue for message in got} == set(range(8))


async def test_each_group_gets_its_turn_when_entries_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_entry, "MAX_ENTRY_CHANGES", 1)
    leader = LeasingLeader()
    leader.append(CreateConsumerGroup(GroupMode("other", is_shared=True)))
    leader.send(20)
    members = [leader.member(), leader.member(consumer_group="other")]
    for _ in range(12):
        for member in members:
            member.ask(1)
        await leader.turn()
    for member in members:
        assert any(messages_of(answer) for answer in member.answers())


async def test_changes_of_queues_of_no_shard_are_refused() -> None:
    leader = LeasingLeader()
    leader.send(1)
    member = leader.member()
    (message,) = await member.receive()
    invented = Got(**{**vars(message), "queue": TopicQueueId(ORDERS, 2)})
    with pytest.raises(InvalidArgumentError, match="is not in shard 0"):
        await member.ack(message, invented)
    leader.append(DeleteTopic(ORDERS))
    before = leader.log.last_index
    assert await member.ack(message, invented) == [0, 0]
    assert leader.log.last_index == before, "a change of a deleted topic is in no entry"


async def test_messages_of_other_tags_hold_up_no_key() -> None:
    leader = LeasingLeader(by_key=True)
    leader.send(4, keys=["a", "a", "a", "b"], tags=["no", "yes", "yes", "yes"])
    member = leader.member("yes")
    first = await member.receive()
    assert offsets(first) == [1, 3]
    await member.ack(*first)
    assert offsets(await member.receive()) == [2]


@pytest.mark.parametrize("by_key", [False, True])
@pytest.mark.parametrize("seed", range(6))
async def test_a_random_history_keeps_the_promises(by_key: bool, seed: int) -> None:
    """Members receive, acknowledge, give up and hang, leaders change, and wall clocks leap. No message is handed out
    within its lease or its delay, and in the end all messages were acknowledged."""
    random = Random(f"{seed}/shared")
    leader = LeasingLeader(by_key=by_key, max_attempts=1_000)
    members = [leader.member() for _ in range(3)]
    held: dict[int, tuple[int, float]] = {}
    done: set[int] = set()
    sent = 0
    in_hand: list[Got] = []
    for _ in range(150):
        match random.randrange(6):
            case 0 if sent < 200:
                count = random.randrange(1, 9)
                sent += count
                leader.send(count, keys=[random.choice("abcdef") for _ in range(count)])
            case 1 if in_hand:
                got = in_hand.pop(random.randrange(len(in_hand)))
                if (await random.choice(members).ack(got))[0]:
                    assert got.offset not in done
                    done.add(got.offset)
                    held.pop(got.offset)
            case 2 if in_hand:
                got = in_hand.pop(random.randrange(len(in_hand)))
                if (await members[0].change(ChangeKind.PUT_OFF, got, duration_ms=700))[0]:
                    held[got.offset] = (0, leader.steady_ms + 700)
            case 3:
                leader.pass_ms(random.choice([10, 500, 3_000]))
                leader.now_ms += random.choice([0, 0, 5_000, -5_000, 10_000_000, -10_000_000])
            case 4 if random.random() < 0.2:
                leader.fail_over()
                members = [leader.member() for _ in range(3)]
            case _:
                for got in await random.choice(members).receive(random.randrange(1, 6), lease_ms=2_000, wait_s=0):
                    assert got.offset not in done
                    until = held.get(got.offset, (0, 0.0))[1]
                    assert leader.steady_ms >= until, "the message is leased to another receive, or was put off"
                    held[got.offset] = (got.lease, leader.steady_ms + 2_000)
                    in_hand.append(got)
    for _ in range(2_000):
        if len(done) == sent:
            return
        leader.pass_ms(3_000)
        for got in await members[0].receive(8, lease_ms=2_000, wait_s=0):
            assert (await members[0].ack(got)) == [1]
            done.add(got.offset)
    raise AssertionError(f"{sent - len(done)} messages were not acknowledged")


async def test_an_acknowledgement_that_is_repeated_is_told_as_settled() -> None:
    leader = LeasingLeader()
    leader.send(3)
    member = leader.member()
    messages = await member.receive()
    first = await member.changed(ChangeKind.ACKNOWLEDGE, messages[1])
    again = await member.changed(ChangeKind.ACKNOWLEDGE, *messages[:2])
    assert (first.changed, first.settled) == ([1], [1])
    assert (again.changed, again.settled) == ([1, 0], [1, 1])  # the window begins after both now
    leader.pass_ms(10_000)
    (later,) = await member.receive()
    lost = await member.changed(ChangeKind.ACKNOWLEDGE, messages[2])
    assert (lost.changed, lost.settled) == ([0], [0])
    extended = await member.changed(ChangeKind.EXTEND, later, duration_ms=1_000)
    assert (extended.changed, extended.settled) == ([1], [0])


async def test_a_stream_for_changes_is_no_member_and_wants_no_tags() -> None:
    leader = LeasingLeader()
    leader.send(1, tags=["paid"])
    member = leader.member("paid")
    (message,) = await member.receive()
    changing = leader.member(only_changes=True)
    assert leader.turns.members(GROUP) == 1
    assert await changing.ack(message) == [1]
    leader.turns.leave(member.member)
    assert leader.turns.members(GROUP) == 0
    leader.member("open")  # nobody else wants tags now


async def test_the_batches_of_one_receive_do_not_hold_up_other_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = LeasingLeader()
    for _ in range(12):
        leader.send(1, size=1 << 20)
    member = leader.member()
    await leader.turn()
    member.ask(max_bytes=1 << 30)
    turns, decoded = 0, Counter[int]()

    class Counted(Batch):
        def __init__(self, data: bytes) -> None:
            decoded[turns] += 1
            super().__init__(data)

    monkeypatch.setattr(stored_batches, "Batch", Counted)
    work = asyncio.ensure_future(leader.turn())
    while not work.done():
        await asyncio.sleep(0)
        turns += 1
    await work
    (answer,) = member.answers()
    assert len(messages_of(answer)) == 12
    assert (decoded.total(), max(decoded.values())) == (12, 4), "17 of 64 steps each"


async def test_a_move_reads_no_other_messages_of_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    strings = BinaryColumn.strings

    def counted(column: BinaryColumn) -> list[bytes]:
        read.append(len(column.offsets) - 1)
        return strings(column)

    monkeypatch.setattr(BinaryColumn, "strings", counted)
    leader = LeasingLeader(max_attempts=1)
    leader.send(
        500, keys=[f"k{at}" for at in range(500)], tags=["t"] * 500, headers=[[("a", b"%d" % at)] for at in range(500)]
    )
    member = leader.member()
    await member.receive(1, lease_ms=1_000)
    leader.pass_ms(1_000)
    read.clear()
    member.ask(wait_s=0)
    await leader.turn()
    assert leader.turns.moved == {GROUP: 1}
    assert max(read) <= 4, "no column of the stored batch is read, and the copy has one message with four headers"
    (batch,) = [Batch(body) for header, body in leader.entries() if header.topic_id == DEAD]
    assert (batch.keys(), batch.tags(), batch.headers()[0][0]) == ([b"k0"], ["t"], ("a", b"0"))


async def test_a_damaged_entry_holds_up_only_its_queue() -> None:
    leader = LeasingLeader()
    leader.send(2)
    leader.send(1, queue=1)
    leader.spoil(QUEUE, 0)
    member = leader.member()
    (got,) = await member.receive(wait_s=0)
    assert got.queue == TopicQueueId(ORDERS, 1)
    await member.ack(got)
    assert await member.receive(wait_s=0) == []
    leader.spoil(QUEUE, 0)  # scrub repair
    assert offsets(await member.receive(wait_s=0)) == [0, 1]


async def test_a_damaged_message_is_moved_after_its_repair() -> None:
    leader = LeasingLeader(max_attempts=1)
    leader.send(1)
    member = leader.member()
    (got,) = await member.receive(lease_ms=1_000)
    leader.spoil(QUEUE, 0)
    wanted = MessageMove(GROUP, *QUEUE, 0, got.resets, got.offset, 1, give_up=True)
    with pytest.raises(StorageFailedError, match="message 0 of queue 0 cannot be read on this node"):
        moved_batch(leader.replica, wanted)
    leader.pass_ms(1_000)
    member.ask(wait_s=0)
    await leader.turn()
    assert leader.turns.moved == {}
    leader.spoil(QUEUE, 0)
    leader.pass_ms(1_000)
    member.ask(wait_s=0)
    await leader.turn()
    assert leader.turns.moved == {GROUP: 1}


async def test_a_change_of_a_deleted_group_does_not_let_the_new_group_begin() -> None:
    leader = LeasingLeader()
    leader.send(3)
    member = leader.member()
    old = await member.receive()
    changing = leader.member(only_changes=True)
    leader.turns.leave(member.member)
    leader.append(ForgetConsumerGroup(GROUP))
    leader.append(CreateConsumerGroup(GroupMode(GROUP, is_shared=True)))
    new = leader.member(start_offset=3)
    new.ask()
    assert await changing.ack(*old) == [0, 0, 0]
    assert await changing.ack(*old) == [0, 0, 0], "it is answered also in a turn without an entry"
    leader.send(1)
    await leader.turn(2)
    (answer,) = new.answers()
    assert offsets(messages_of(answer)) == [3], "the new group begins at its start offset"


@pytest.mark.parametrize("receives", [False, True])
async def test_no_change_behind_the_deletion_brings_a_group_back(receives: bool) -> None:
    leader = LeasingLeader()
    leader.send(3)
    member = leader.member()
    got = await member.receive(2)
    changing = leader.member(only_changes=True)
    leader.turns.leave(member.member)
    leader.turns.leave(changing.member)
    shard = SimpleNamespace(turns=leader.turns, claims=QueueClaims(leader.replica))
    consumptions: Any = SimpleNamespace(require=lambda _: shard)
    service = ConsumerGroupOperations(consumptions, cast(Any, None))
    request = consumer_group_operations_pb2.ForgetConsumerGroupRequest(consumer_group=GROUP)
    forgetting = asyncio.ensure_future(service.ForgetConsumerGroup(request, cast(Any, None)))
    await asyncio.sleep(0)  # the deletion is proposed, and not applied
    assert leader.replica.state.shared.leases.get(GROUP) is not None
    changes = [
        (each.queue, LeaseChange(ChangeKind.ACKNOWLEDGE, each.offset, 1, each.lease, each.resets)) for each in got
    ]
    leader.turns.change(ChangeRequest(changing.member, 1, changes))
    late = leader.member()
    if receives:
        late.ask()
    await leader.turn()
    response = await forgetting
    assert (response.queues, response.HasField("error")) == (2, False)
    assert leader.replica.state.shared.leases.get(GROUP) is None
    assert [answer.changed for answer in changing.answers()] == [[0, 0]]
    await leader.turn()
    (answer,) = late.answers()
    assert isinstance(answer.error, ConsumerFencedError)
    assert leader.turns._being_deleted == {}


async def test_nothing_is_known_of_a_deleted_group() -> None:
    leader = LeasingLeader(by_key=True)
    leader.send(3, keys=["a", "b", "c"], headers=[[("price", b"11")]] * 3)
    member = leader.member(where="price > 10")
    await member.receive()
    leader.turns.full_windows[GROUP] = 1
    assert leader.turns._keys
    assert leader.turns._matches._known
    leader.append(ForgetConsumerGroup(GROUP))
    await leader.turn()
    (answer,) = member.answers()
    assert isinstance(answer.error, ConsumerFencedError)
    assert (leader.turns.full_windows, leader.turns._keys, leader.turns._matches._known) == ({}, {}, {})


async def test_a_compressed_message_with_a_large_key_can_be_moved() -> None:
    """Before, the copy was not compressed, so that no entry had room for it, and the group tried it for ever."""
    leader = LeasingLeader(max_attempts=1)
    leader.send(1, keys=["k" * (3 << 20)], codec=Codec.ZSTD)
    member = leader.member()
    await member.receive(lease_ms=1_000)
    leader.pass_ms(1_000)
    member.ask(wait_s=0)
    await leader.turn()
    assert leader.turns.moved == {GROUP: 1}
    (batch,) = [Batch(body) for header, body in leader.entries() if header.topic_id == DEAD]
    assert batch.header.codec == Codec.ZSTD
    assert batch.keys() == [b"k" * (3 << 20)]


async def test_a_message_is_given_up_by_the_lease_that_it_has() -> None:
    leader = LeasingLeader()
    leader.send(2)
    member = leader.member()
    one, two = await member.receive()
    moved = give_up(leader, one)
    assert moved is not None
    leader.apply_all()
    await moved
    assert leader.replica.state.next_offset(DEAD, 0) == 1
    assert give_up(leader, one) is None  # it is there already
    with pytest.raises(ConsumerFencedError):
        give_up(leader, Got(**{**vars(two), "lease": two.lease + 1}))
    await member.ack(two)
    assert give_up(leader, two) is None
    assert leader.replica.state.next_offset(DEAD, 0) == 1


# -- turns with many queues


async def waiting_groups(leader: LeasingLeader, monkeypatch: pytest.MonkeyPatch) -> list[LeasingMember]:
    """Let one member of each of two groups wait, and other requests get their turn after each group."""
    leader.append(CreateConsumerGroup(GroupMode("other", is_shared=True)))
    members = [leader.member(), leader.member(consumer_group="other")]
    await leader.turn(2)
    monkeypatch.setattr(lease_turns, "MAX_QUEUES_AT_ONCE", 1)
    leader.turns.entries = 0  # so the next turn begins with the group of the first member
    for member in members:
        member.ask(1)
    return members


async def test_other_requests_get_their_turn_between_groups_with_many_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = LeasingLeader()
    one, two = await waiting_groups(leader, monkeypatch)
    leader.send(2)
    before = leader.log.last_index
    turn = asyncio.create_task(leader.turn())
    await asyncio.sleep(0)
    assert leader.log.last_index == before, "the entry of all groups comes after the last group"
    await turn
    assert leader.log.last_index == before + 1
    assert [len(member.answers()) for member in (one, two)] == [1, 1]


async def test_no_entry_behind_a_deletion_that_begins_within_a_turn_brings_the_group_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leader = LeasingLeader()
    one, two = await waiting_groups(leader, monkeypatch)
    leader.send(2)
    turn = asyncio.create_task(leader.turn())
    await asyncio.sleep(0)
    deletion = QueueClaims(leader.replica).forget(GROUP)
    leader.turns.await_deletion(GROUP, deletion)
    await asyncio.gather(turn, deletion)
    await leader.turn(2)
    assert leader.replica.state.shared.leases.get(GROUP) is None
    assert isinstance(one.answers()[0].error, ConsumerFencedError)
    assert len(two.answers()) == 1


async def test_a_message_that_comes_within_a_turn_is_found_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = LeasingLeader()
    one, two = await waiting_groups(leader, monkeypatch)
    leader.turns.leave(two.member)
    leader.member(consumer_group="other")  # it does not ask for messages
    turn = asyncio.create_task(leader.turns._turn())
    await asyncio.sleep(0)
    leader.send(1)
    pause_s = await turn
    assert pause_s is not None
    assert pause_s <= lease_turns.SHORTEST_SLEEP_S
    await leader.turn()
    assert len(one.answers()) == 1
