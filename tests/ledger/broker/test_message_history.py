"""The events of a message are found in the entries behind it, and in no others."""

from __future__ import annotations

import pytest

from ledger.batch import encode
from ledger.broker.tracing.history import MAX_PLACES, MessageHistory
from ledger.message_trace import TracedPlace
from ledger.retries import moved_headers
from ledger.state import TopicQueueId
from ledger.state.command_encoding import encode_command
from ledger.state.commands import (
    AcknowledgedOffset,
    AcknowledgeOffsets,
    ChangeLeases,
    Command,
    DeleteTopic,
    ForgetConsumerGroup,
    QueueLeases,
    ResetOffset,
    ResetOffsets,
    RollBackHalves,
)
from ledger.state.lease_table import ChangeKind, LeaseChange
from store import EntryKind, Header

NAMES = {1: "orders", 2: "%RETRY%billing", 3: "%DLQ%billing", 4: "%HALF", 5: "%TIMED"}
HERE = TracedPlace(1, 0, 10)


def header(
    kind: EntryKind, index: int = 50, topic_id: int = 0, queue: int = 0, base: int = 0, count: int = 1
) -> Header:
    return Header(
        kind=kind, flags=0, size=100, count=1, index=index, term=1, position=0, commit=0,
        append_time_ms=1000 + index, base_offset=base, topic_id=topic_id, queue=queue, crc=0, chain=0,
    )  # fmt: skip


def history(*places: TracedPlace, half: int = 0) -> MessageHistory:
    return MessageHistory(places or (HERE,), lambda topic_id: NAMES.get(topic_id, ""), half)


def run(found: MessageHistory, *commands: Command) -> list[tuple[str, str]]:
    for number, command in enumerate(commands):
        entry = header(EntryKind.COMMAND, 50 + number)
        assert found.wants_body(entry)
        found.look_at(entry, encode_command(command))
    return [(event.kind, event.group) for event in found.events]


def acknowledged(offset: int, *, group: str = "billing", topic_id: int = 1, queue: int = 0) -> AcknowledgeOffsets:
    return AcknowledgeOffsets(group, (AcknowledgedOffset(topic_id, queue, 1, 0, offset),))


@pytest.mark.parametrize(
    ("command", "is_about"),
    [
        (acknowledged(11), True),
        (acknowledged(10), False),  # all before 10
        (acknowledged(11, queue=1), False),
        (acknowledged(11, topic_id=9), False),
    ],
)
def test_an_acknowledgement_is_about_the_messages_before_its_offset(command: Command, is_about: bool) -> None:
    assert run(history(), command) == ([("acknowledged", "billing")] if is_about else [])


def test_a_group_acknowledges_once_and_again_after_a_reset() -> None:
    steps: list[Command] = [
        acknowledged(11),
        acknowledged(12),
        acknowledged(99, group="other"),
        ResetOffsets("billing", (ResetOffset(1, 0, 4),)),
        acknowledged(20),
        ForgetConsumerGroup("billing"),
        ForgetConsumerGroup("stranger"),
    ]
    assert run(history(), *steps) == [
        ("acknowledged", "billing"), ("acknowledged", "other"), ("reset", "billing"), ("acknowledged", "billing"),
        ("forgotten", "billing"),
    ]  # fmt: skip


def test_changes_of_leases_name_what_a_member_did() -> None:
    changes = tuple(
        LeaseChange(kind, first, size, lease=40, duration_ms=30_000)
        for kind, first, size in (
            (ChangeKind.LEASE, 8, 5),
            (ChangeKind.LEASE, 11, 5),
            (ChangeKind.EXTEND, 10, 1),
            (ChangeKind.PUT_OFF, 10, 1),
            (ChangeKind.ACKNOWLEDGE, 0, 10),
            (ChangeKind.ACKNOWLEDGE, 10, 1),
        )
    )
    found = history()
    assert run(found, ChangeLeases((QueueLeases("pool", 1, TopicQueueId(1, 0), 0, changes),), 5)) == [
        ("leased", "pool"), ("extended", "pool"), ("put off", "pool"), ("acknowledged", "pool")
    ]  # fmt: skip
    assert [event.text for event in found.events][:2] == ["for 30 s", "for 30 s, by the lease of entry 40"]


def moved(came_from: TracedPlace, attempt: int) -> bytes:
    told = f"{came_from.topic_id}:{came_from.queue}:{came_from.offset}"
    headers = moved_headers([], here="orders:0:10", came_from=told, attempt=attempt)
    return encode(
        [b"x"], topic_id=2, queue=0, producer_id=0, epoch=0, first_sequence=0, base_timestamp_ms=0, headers=[headers]
    )


def test_copies_in_the_retry_topic_and_the_dead_letters_are_followed() -> None:
    found = history()
    other = header(EntryKind.BATCH, 50, topic_id=2, base=6)
    found.look_at(other, moved(TracedPlace(1, 0, 11), 1))
    assert found.events == []
    found.look_at(header(EntryKind.BATCH, 51, topic_id=2, base=7), moved(HERE, 1))
    found.look_at(header(EntryKind.BATCH, 52, topic_id=3, base=2), moved(TracedPlace(2, 0, 7), 2))
    assert [(event.kind, event.group, event.to) for event in found.events] == [
        ("retry", "billing", TracedPlace(2, 0, 7)),
        ("dead letter", "billing", TracedPlace(3, 0, 2)),
    ]
    assert found.places == [HERE, TracedPlace(2, 0, 7), TracedPlace(3, 0, 2)]
    assert run(found, acknowledged(8, topic_id=2))[-1] == ("acknowledged", "billing")


def test_plain_batches_are_passed_over_by_their_headers() -> None:
    assert not history().wants_body(header(EntryKind.BATCH, topic_id=1))
    assert history(TracedPlace(5, 0, 3)).wants_body(header(EntryKind.BATCH, topic_id=1))
    assert not history().wants_body(header(EntryKind.NO_OP))


def test_half_batches_are_rolled_back_by_the_number_of_their_batch() -> None:
    middle = TracedPlace(4, 0, 22)
    assert run(history(middle, half=20), RollBackHalves((19, 21))) == []
    assert run(history(middle, half=20), RollBackHalves((20,))) == [("rolled back", "")]


def test_a_deleted_topic_is_an_event() -> None:
    assert run(history(), DeleteTopic(7), DeleteTopic(1)) == [("topic deleted", "")]


def test_places_are_bounded() -> None:
    found = history()
    for number in range(MAX_PLACES * 2):
        found.look_at(header(EntryKind.BATCH, number, topic_id=2, base=number), moved(HERE, 1))
    assert len(found.places) == MAX_PLACES


def test_an_entry_that_cannot_be_read_has_no_events() -> None:
    found = history()
    found.look_at(header(EntryKind.COMMAND), b"\xff\xff\xff")
    found.look_at(header(EntryKind.BATCH, topic_id=2), b"short")
    assert found.events == []
