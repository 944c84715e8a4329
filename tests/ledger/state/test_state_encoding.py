"""Tests the encoding of the state: a decoded state is equal and behaves equally, and invalid bytes are refused."""

from __future__ import annotations

import struct
from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.access.password import Verifier
from ledger.access.rules import Rule
from ledger.errors import InternalError
from ledger.state import CommittedBatch, HalfName, PreparedHalf, ProducerLimits, Settlement, State, TopicQueueId
from ledger.state.command_encoding import encode_command
from ledger.state.commands import (
    AddShard,
    AddUser,
    BeginAccess,
    ChangeLeases,
    Command,
    CommitTransaction,
    CountUnknown,
    CreateConsumerGroup,
    CreateTopic,
    DelegateToken,
    GrantRules,
    PinLeader,
    QueueLeases,
    RaiseFeatureLevel,
    RollBackHalves,
    SettleTimed,
)
from ledger.state.consumer_group_table import MemberDetails
from ledger.state.feature_levels import (
    ACCESS_CONTROL,
    LATEST_LEVEL,
    PINNED_LEADERS,
    SHARED_GROUPS,
    TIMED,
    TOPIC_TYPES,
    TRANSACTIONS,
)
from ledger.state.group_modes import GroupMode
from ledger.state.lease_table import ChangeKind, LeaseChange
from ledger.state.progress_table import ConsumedQueue
from ledger.state.transaction_table import HERE
from ledger.timed import TIMED_TOPIC
from ledger.topics import TopicType
from ledger.transactions import HALF_TOPIC
from ledger.v1 import command_pb2

LIMITS = ProducerLimits(expiry_ms=50, most=4)


def create_topic(state: State, name: str, now_ms: int) -> None:
    command = command_pb2.Command(create_topic=command_pb2.CreateTopic(name=name, queues=2))
    state.apply_command(command.SerializeToString(), now_ms, index=1)


def apply(state: State, *, index: int, now_ms: int, topic_id: int, queue: int, producer_id: int, **batch: Any) -> None:
    """Apply a batch with the next sequence number of its producer."""
    fields = {"epoch": 0, "count": 1} | batch
    first = 0
    while state.check(
        topic_id=topic_id, queue=queue, producer_id=producer_id, first_sequence=first, **fields
    ).__class__.__name__ in ("Duplicate", "Forgotten"):
        first += 1
    state.apply_batch(
        CommittedBatch(
            topic_id=topic_id,
            queue=queue,
            base_offset=state.next_offset(topic_id, queue),
            append_time_ms=now_ms,
            index=index,
            term=index // 5 + 1,
            producer_id=producer_id,
            first_sequence=first,
            **fields,
        )
    )


STEPS = st.lists(
    st.tuples(
        st.integers(0, 20),  # ms since the previous step
        st.sampled_from([(1, 0), (1, 1), (2, 1)]),
        st.sampled_from([1, 2, 3, 4, 5, 2**64 - 1]),
        st.integers(0, 2),  # epoch
    ),
    max_size=40,
)


def lived(state: State, steps: list[tuple[int, tuple[int, int], int, int]], index: int = 0, now_ms: int = 1000) -> None:
    epochs: dict[Any, int] = {}
    for wait, (topic_id, queue), producer_id, epoch in steps:
        index, now_ms = index + 1, now_ms + wait
        key = (producer_id, topic_id, queue)
        epochs[key] = max(epoch, epochs.get(key, 0))
        apply(
            state,
            index=index,
            now_ms=now_ms,
            topic_id=topic_id,
            queue=queue,
            producer_id=producer_id,
            epoch=epochs[key],
        )


@given(STEPS, STEPS)
def test_what_is_decoded_is_equal_and_goes_on_alike(
    steps: list[tuple[int, tuple[int, int], int, int]], later: list[tuple[int, tuple[int, int], int, int]]
) -> None:
    state = State(LIMITS)
    for name in ("orders", "payments"):
        create_topic(state, name, 900)
    lived(state, steps)
    data = state.encode()
    twin = State.decode(data, LIMITS)
    assert (twin.encode(), twin.digest()) == (data, state.digest())
    assert list(twin.topics) == list(state.topics)
    assert list(twin.producers) == list(state.producers)
    later = [(wait, queue, producer_id, 2) for wait, queue, producer_id, _ in later]
    for each in (state, twin):
        lived(each, later, index=100, now_ms=2000)
        create_topic(each, "third", 5000)
    assert twin.digest() == state.digest()
    topic = twin.topics.named("third")
    assert topic is not None
    assert topic.topic_id == 3


def test_an_empty_state() -> None:
    assert State.decode(State().encode()).digest() == State().digest()


def sample() -> bytes:
    state = State()
    create_topic(state, "orders", 900)
    lived(state, [(1, (1, 0), 7, 0), (1, (1, 1), 8, 0)])
    state.holds.take("spark", index=3, now_ms=1000, ttl_ms=10_000)
    state.consumption.groups.join("billing", "average", MemberDetails("m", "c", "", 10_000, ((1, 2),)), 4)
    state.consumption.progress.claim(ConsumedQueue("billing", 1, 0), 5, 1)
    return state.encode()


def full_sample(level: int = LATEST_LEVEL) -> bytes:
    """Return the bytes of a state in which every table has something, in the middle of a turn of delivery."""
    state = State.decode(sample())
    verifier = Verifier(b"0123456789abcdef", 20_000, b"k" * 32, b"s" * 32)
    rule = Rule("alice", "publish", "topic:orders-*")
    commands: list[Command] = [
        RaiseFeatureLevel(level),
        AddShard(1, (1, 2), (b"1" * 16, b"2" * 16)),
        BeginAccess("root", verifier, b"x" * 32),
        AddUser("alice", None),
        GrantRules((rule,)),
        DelegateToken(b"d" * 32, "alice", (rule,), 60_000),
        CreateTopic(TIMED_TOPIC, 2, (0, 1)),
    ]
    for index, command in enumerate(commands, 50):
        state.apply_command(encode_command(command), 1000, index=index)
    if level >= TIMED:
        lived(state, [(1, (2, 0), 7, 0)] * 6, index=60)
        state.apply_command(encode_command(SettleTimed(2000, 1, 3, (0,))), 1000, index=70)
        state.apply_delivery([5, 2, 3], [1500, 2500, 1900], 71)
    if level >= TRANSACTIONS:
        state.apply_command(encode_command(CreateTopic(HALF_TOPIC, 2, (0, 1))), 1000, index=72)
        for number in range(5):
            transaction = 1 if number == 4 else None
            half = PreparedHalf(1, 0, 0, "checkout", transaction, None, 0, number, 2, 300, 1000 + number)
            state.apply_half(half, 3, 73 + number)
        state.apply_command(encode_command(RollBackHalves((2,))), 1000, index=80)
        names = (HalfName(HERE, 1), HalfName(HERE, 4), HalfName(1, 7))
        state.apply_command(encode_command(CommitTransaction(1, names)), 1001, index=81)
        state.apply_settlement(Settlement(1, 0, 4, 1, 0, False, False, 1002), 82)
        state.apply_command(encode_command(CountUnknown((3,))), 1003, index=83)
    if level >= SHARED_GROUPS:
        lease = LeaseChange(ChangeKind.LEASE, 0, 1, duration_ms=9000, receipt=77)
        leases = ChangeLeases((QueueLeases("work", 90, TopicQueueId(1, 0), 0, (lease,)),), 500)
        shared: list[Command] = [CreateConsumerGroup(GroupMode("work", is_shared=True)), leases]
        for index, command in enumerate(shared, 90):
            state.apply_command(encode_command(command), 1000, index=index)
    if level >= TOPIC_TYPES:
        typed = CreateTopic("payments", 1, (0,), TopicType.FIFO)
        state.apply_command(encode_command(typed), 1000, index=95)
    if level >= PINNED_LEADERS:
        state.apply_command(encode_command(PinLeader(2, b"2" * 16)), 1000, index=96)
    return state.encode()


@pytest.mark.parametrize("level", range(LATEST_LEVEL + 1))
def test_a_state_with_every_table_comes_back_from_its_bytes(level: int) -> None:
    data = full_sample(level)
    state = State.decode(data)
    assert state.encode() == data
    assert (data[4], state.feature_level) == (6 + level, level)
    assert len(state.access) == (2 if level >= ACCESS_CONTROL else 0)
    assert state.timed.open == ({5: 1500, 2: 2500, 3: 1900} if level >= TIMED else {})
    table = state.transactions
    assert list(table.waiting) == ([0, 1, 3] if level >= TRANSACTIONS else [])
    assert table.waiting_bytes == sum(half.size for half in table.waiting.values())
    if level >= TRANSACTIONS:
        assert table.waiting[3].unknowns == 1
        assert table.committed == {1: {HalfName(HERE, 1): None, HalfName(1, 7): None}}
        assert table.names_in == {HERE: {(1, 1): None}, 1: {(1, 7): None}}
        assert [(number, *ended) for number, ended in table.outcomes.items()] == [(2, 2, 1000), (1, 1, 1001)]
    assert [topic.name for topic in state.topics if topic.type is TopicType.FIFO] == (
        ["payments"] if level >= TOPIC_TYPES else []
    )
    assert (state.pinned_leader is not None) == (level >= PINNED_LEADERS)
    assert len(state.shared.modes) == (level >= SHARED_GROUPS)
    assert state.shared.leases.open_offsets == (level >= SHARED_GROUPS)
    assert state.shared.leases.time_ms == (500 if level >= SHARED_GROUPS else 0)


def test_an_older_program_refuses_a_state_of_a_later_level() -> None:
    with pytest.raises(InternalError, match=f"feature level {LATEST_LEVEL}, and this program knows levels up to 2"):
        State.decode(full_sample(), latest_level=ACCESS_CONTROL)


@pytest.mark.parametrize("data", [sample(), full_sample()], ids=["level 0", "latest level"])
def test_every_flipped_bit_and_every_shortened_one_is_refused(data: bytes) -> None:
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InternalError, match=r"snapshot of the state"):
            State.decode(bytes(flipped))
    for length in range(len(data)):
        with pytest.raises(InternalError):
            State.decode(data[:length])


def test_another_version_is_refused() -> None:
    data = bytearray(sample())
    data[4] += 7
    with pytest.raises(InternalError, match="version 13, and this program knows versions 6 to 12"):
        State.decode(bytes(data))


@pytest.mark.parametrize("count", [0, 3, 10**6])
@pytest.mark.parametrize("place", [20, 24, 28, 32, 40])
def test_counts_that_do_not_fit_are_refused_even_with_a_right_crc(place: int, count: int) -> None:
    body = bytearray(sample()[:-4])
    struct.pack_into("<I", body, place, count)
    with pytest.raises(InternalError):
        State.decode(bytes(body) + struct.pack("<I", google_crc32c.value(bytes(body))))
