"""The validation judges from the log alone whether each waiting message was delivered once, at its place and time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest

from ledger.batch import Batch, TimedColumn, Waiting, copying_batch, encode, firing_batch
from ledger.codec import Codec
from ledger.history import HistoryWriter, OperationOutcome, Schedule, Send
from ledger.state.feature_levels import TIMED
from ledger.state.timed_table import TimedCursor
from ledger.timed import TIMED_TOPIC
from ledger.v1 import command_pb2
from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.judging.violation import ViolationKind
from ledger.validation.replay.timed_record import TimedRecord
from ledger.validation.spans.waiting_columns import WaitingColumns
from ledger.validation.validate import validate
from store import EntryDraft, EntryKind, Header
from tests.ledger.validation.stopped_cluster import TIME_MS, Writer

TARGET, OTHER = 2, 3
WAITING_TOPIC = 1


class WaitingWriter(Writer):
    """Writes logs with waiting messages, as a leader does or as a faulty leader would."""

    def begin(self) -> None:
        self.command(raise_feature_level=command_pb2.RaiseFeatureLevel(level=TIMED))
        for name in (TIMED_TOPIC, "target", "other"):
            self.create_topic(name, 1)
        self.waiting: list[tuple[Batch, int]] = []

    def wait(self, times: list[int], topic_id: int = TARGET) -> None:
        """Append one batch of waiting messages."""
        sequence = self.state.next_offset(WAITING_TOPIC, 0)
        body = encode(
            [b"waits"] * len(times), topic_id=WAITING_TOPIC, queue=0, producer_id=7, epoch=0, first_sequence=sequence,
            base_timestamp_ms=TIME_MS, keys=[b"key"] * len(times), tags=["tag"] * len(times),
            look_up_keys=[[b"order", b"ann"]] * len(times),
            timed=TimedColumn(topic_id, 0, np.array(times, np.int64)),
        )  # fmt: skip
        self.waiting += [(Batch(body), place) for place in range(len(times))]
        self._append(body, WAITING_TOPIC, len(times))

    def fire(self, identities: list[int], times: list[int], topic_id: int = TARGET) -> Header:
        batches = [self.waiting[identity][0] for identity in identities]
        count = len(identities)
        waiting = Waiting(
            batches,
            np.arange(count),
            np.array([self.waiting[identity][1] for identity in identities], np.int64),
            np.array(identities, np.uint64),
            np.array(times, np.int64),
        )
        first = self.state.next_offset(topic_id, 0)
        body = firing_batch(waiting, topic_id=topic_id, queue=0, first_sequence=first, codec=Codec.NONE)
        return self._append(body, topic_id, count)

    def copy(self, identities: list[int], times: list[int], topic_id: int = TARGET) -> Header:
        """Append copies of messages, as a leader does before the log start moves."""
        count = len(identities)
        waiting = Waiting(
            [self.waiting[identity][0] for identity in identities],
            np.arange(count),
            np.array([self.waiting[identity][1] for identity in identities], np.int64),
            np.array(identities, np.uint64),
            np.array(times, np.int64),
        )
        body = copying_batch(
            waiting, topic_id=WAITING_TOPIC, queue=0, first_sequence=self.state.next_offset(WAITING_TOPIC, 0),
            target_topic_id=topic_id, target_queue=0, codec=Codec.LZ4,
        )  # fmt: skip
        return self._append(body, WAITING_TOPIC, count)

    def alter(self, identity: int, **changed: Any) -> None:
        """Let later copies and deliveries of a message have another value, key, tag, header or timestamp."""
        content: dict[str, Any] = {"values": [b"waits"], "keys": [b"key"], "tags": ["tag"]} | changed
        values, base = content.pop("values"), content.pop("base", TIME_MS)
        body = encode(
            values, topic_id=WAITING_TOPIC, queue=0, producer_id=7, epoch=0, first_sequence=0, base_timestamp_ms=base,
            timed=TimedColumn(TARGET, 0, np.array([TIME_MS], np.int64)), **content,
        )  # fmt: skip
        self.waiting[identity] = Batch(body), 0

    def settle(self, through: tuple[int, int], seen: int, settled: tuple[int, ...] = ()) -> Header:
        return self.command(
            settle_timed=command_pb2.SettleTimed(
                through_ms=through[0], through_identity=through[1], seen=seen, settled=settled
            )
        )

    def cancel(self, identity: int, time_ms: int) -> None:
        item = command_pb2.TimedMessage(identity=identity, delivery_ms=time_ms)
        self.command(cancel_timed=command_pb2.CancelTimed(items=[item]))

    def _append(self, body: bytes, topic_id: int, count: int) -> Header:
        offset = self.state.next_offset(topic_id, 0)
        header = self.append(
            EntryDraft(EntryKind.BATCH, body, topic_id=topic_id, queue=0, base_offset=offset, count=count)
        )
        self.apply(header, body)
        return header


@pytest.fixture
def writer(tmp_path: Path) -> WaitingWriter:
    made = WaitingWriter(tmp_path / "node-1", segment_bytes=1 << 20)
    made.begin()
    return made


def told(writer: WaitingWriter) -> list[tuple[ViolationKind, int | None, str]]:
    """Return the violations of the waiting messages."""
    for _ in range(3):
        writer.cancel(1 << 40, TIME_MS)  # later entries show that the earlier ones are committed
    writer.stop()
    report = validate([str(writer.path)], PlainEngine())
    return [(each.kind, each.index, each.reason) for each in report.violations]


def test_deliveries_cancels_and_deleted_targets_are_right(writer: WaitingWriter) -> None:
    writer.wait([TIME_MS + 1, TIME_MS + 5, TIME_MS + 2])
    writer.wait([TIME_MS + 3, TIME_MS + 4], OTHER)
    writer.cancel(1, TIME_MS + 5)
    writer.fire([0, 2], [TIME_MS + 1, TIME_MS + 2])
    writer.settle((TIME_MS + 2, 2), 5)
    writer.command(delete_topic=command_pb2.DeleteTopic(topic_id=OTHER))
    writer.settle((TIME_MS + 9, 0), 5, (3, 4))
    assert told(writer) == []


def test_a_message_that_the_cursor_passes_is_missing(writer: WaitingWriter) -> None:
    writer.wait([TIME_MS + 1, TIME_MS + 2])
    writer.fire([0], [TIME_MS + 1])
    at = writer.settle((TIME_MS + 9, 0), 2).index
    ((kind, index, reason),) = told(writer)
    assert (kind, index) == (ViolationKind.DELIVERY_MISSING, at)
    assert reason == (
        "the waiting message 1 for queue 0 of topic target, due at 2023-11-14T22:13:20.002000+00:00, was neither "
        "delivered nor cancelled, and the turns of its shard have passed it"
    )


def test_a_message_that_is_not_due_yet_is_not_missing(writer: WaitingWriter) -> None:
    writer.wait([TIME_MS + 1, TIME_MS + 20])
    writer.fire([0], [TIME_MS + 1])
    writer.settle((TIME_MS + 9, 0), 2)
    assert told(writer) == []


def test_a_message_that_a_turn_settles_without_a_reason_is_missing(writer: WaitingWriter) -> None:
    writer.wait([TIME_MS + 1])
    at = writer.settle((TIME_MS + 9, 0), 1, (0,)).index
    ((kind, index, reason),) = told(writer)
    assert (kind, index) == (ViolationKind.DELIVERY_MISSING, at)
    assert reason == "a turn settles the waiting message 0 without a delivery, and topic target exists"


def test_a_cancelled_message_is_delivered(writer: WaitingWriter) -> None:
    writer.wait([TIME_MS + 1])
    writer.cancel(0, TIME_MS + 1)
    at = writer.fire([0], [TIME_MS + 1]).index
    expected = "the batch delivers the waiting message 0, which was cancelled before"
    assert told(writer) == [(ViolationKind.WRONG_DELIVERY, at, expected)]


def test_a_cancel_with_another_time_cancels_nothing(writer: WaitingWriter) -> None:
    writer.wait([TIME_MS + 1])
    writer.cancel(0, TIME_MS + 2)
    writer.fire([0], [TIME_MS + 1])
    assert told(writer) == []


def test_a_message_is_delivered_twice(writer: WaitingWriter) -> None:
    writer.wait([TIME_MS + 1])
    writer.fire([0], [TIME_MS + 1])
    at = writer.fire([0], [TIME_MS + 1]).index
    kinds = {(kind, index) for kind, index, _ in told(writer)}
    assert kinds >= {(ViolationKind.WRONG_DELIVERY, at), (ViolationKind.UNKNOWN_ENTRY, at)}


def test_a_message_is_delivered_into_another_queue(writer: WaitingWriter) -> None:
    writer.wait([TIME_MS + 1])
    at = writer.fire([0], [TIME_MS + 1], OTHER).index
    ((kind, index, _),) = told(writer)
    assert (kind, index) == (ViolationKind.WRONG_DELIVERY, at)


def test_a_message_is_delivered_as_of_another_time(writer: WaitingWriter) -> None:
    writer.wait([TIME_MS + 7])
    at = writer.fire([0], [TIME_MS + 1]).index
    ((kind, index, _),) = told(writer)
    assert (kind, index) == (ViolationKind.WRONG_DELIVERY, at)


def columns(first: int, times: list[int]) -> WaitingColumns:
    one = np.ones(1, np.uint32)
    return WaitingColumns(
        np.array([first]), np.array([len(times)]), one, one * TARGET, one * 0, one.astype(np.uint64),
        np.array(times, np.int64), np.ones(len(times), np.uint64),
    )  # fmt: skip


@pytest.mark.long
def test_a_record_of_a_million_messages_is_small_and_drops_what_is_over() -> None:
    record, cursor = TimedRecord(100), TimedCursor()
    size, rounds = 1000, 1000
    for number in range(rounds):
        first = 100 + number * size
        record.wait(columns(first, [first] * size), cursor)
        if number % 2:
            continue
        assert record.deliver(range(first, first + size), [first] * size, (TARGET, 0), [1] * size) is None
    rows = (record._times, record._targets, record._fates, record._contents, record._positions)
    assert sum(array.nbytes for array in rows) <= 2 * 29 * size * rounds
    late = TimedCursor(100 + rounds * size, 0, 100 + rounds * size)
    missing = record.passed(late)
    assert len(missing) == size * rounds // 2
    assert missing[0] == (100 + size, 100 + size, (TARGET, 0))


def test_a_record_forgets_the_messages_that_are_over() -> None:
    record, size = TimedRecord(0), 1000
    for number in range(200):
        first, cursor = number * size, TimedCursor(number * size, 1 << 62, number * size)
        record.wait(columns(first, [first] * size), cursor)
        record.cancel(first, first)
        record.deliver(range(first + 1, first + size), [first] * (size - 1), (TARGET, 0), [1] * (size - 1))
    assert len(record._times) <= 8 * size


# -- contents

ALTERED = [
    {"values": [b"other"]},
    {"keys": [b"other"]},
    {"keys": None},
    {"tags": ["other"]},
    {"headers": [[("h", b"1")]]},
    {"base": TIME_MS + 1},
]


@pytest.mark.parametrize("changed", ALTERED)
def test_a_delivery_with_other_contents_is_told(writer: WaitingWriter, changed: dict[str, Any]) -> None:
    writer.wait([TIME_MS + 1, TIME_MS + 1])
    writer.alter(1, **changed)
    at = writer.fire([0, 1], [TIME_MS + 1, TIME_MS + 1]).index
    wrong = "the batch delivers the waiting message 1 with other contents than it was sent with"
    assert told(writer) == [(ViolationKind.WRONG_DELIVERY, at, wrong)]


@pytest.mark.parametrize("changed", ALTERED)
def test_a_copy_with_other_contents_is_told(writer: WaitingWriter, changed: dict[str, Any]) -> None:
    writer.wait([TIME_MS + 1, TIME_MS + 1])
    writer.alter(0, **changed)
    at = writer.copy([0, 1], [TIME_MS + 1, TIME_MS + 1]).index
    wrong = "the batch copies the waiting message 0 with other contents than it was sent with"
    assert told(writer) == [(ViolationKind.WRONG_DELIVERY, at, wrong)]


def test_copies_and_deliveries_have_the_contents_of_their_messages(writer: WaitingWriter) -> None:
    writer.wait([TIME_MS + 1, TIME_MS + 2])
    writer.copy([1], [TIME_MS + 2])
    writer.fire([0, 1], [TIME_MS + 1, TIME_MS + 2])
    writer.settle((TIME_MS + 2, 1), 3)
    assert told(writer) == []


def test_a_copy_for_another_time_or_queue_is_told(writer: WaitingWriter) -> None:
    writer.wait([TIME_MS + 1, TIME_MS + 2])
    first = writer.copy([0], [TIME_MS + 3]).index
    second = writer.copy([1], [TIME_MS + 2], OTHER).index
    found = told(writer)
    assert [(kind, index) for kind, index, _ in found] == [
        (ViolationKind.WRONG_DELIVERY, first),
        (ViolationKind.WRONG_DELIVERY, second),
    ]
    assert "and its delivery time is" in found[0][2]
    assert "and the message is for queue 0 of topic id" in found[1][2]


def test_messages_of_which_only_a_copy_is_left_are_judged_by_the_copy() -> None:
    """Their first batch was before the log start."""
    record, target = TimedRecord(100), (TARGET, 0)
    assert record.copy([7, 8, 9, 10], [50, 51, 52, 53], target, [1, 2, 3, 4]) is None
    assert record.copy([7], [50], target, [1]) is None  # once more
    assert record.copy([7], [50], target, [5]) == (
        "the batch copies the waiting message 7 with other contents than it was sent with"
    )
    assert record.deliver([7], [50], target, [1]) is None
    assert (
        record.deliver([7], [50], target, [1]) == "the batch delivers the waiting message 7, which was delivered before"
    )
    assert record.deliver([8], [51], target, [9]) == (
        "the batch delivers the waiting message 8 with other contents than it was sent with"
    )
    record.cancel(9, 52)
    assert (
        record.deliver([9], [52], target, [3]) == "the batch delivers the waiting message 9, which was cancelled before"
    )
    assert record.passed(TimedCursor(60, 0, 100)) == [(10, 53, target)]
    assert list(record.settle([10])) == [(10, target)]
    assert record.passed(TimedCursor(60, 0, 100)) == []
    assert record.deliver([3], [50], target, [1]) is None  # nothing is known about it


def test_a_copy_of_a_message_that_the_record_has_forgotten_is_no_message_that_waits() -> None:
    record = TimedRecord(0)
    for first in range(0, 8_000, 1_000):
        record.wait(columns(first, [first] * 1_000), TimedCursor())
        record.deliver(range(first, first + 1_000), [first] * 1_000, (TARGET, 0), [1] * 1_000)
    assert record.copy([5], [0], (TARGET, 0), [1]) is None
    assert record.passed(TimedCursor(1 << 40, 0, 8_000)) == []


# -- histories


def scheduled(outcome: OperationOutcome, identity: int | None, sequence: int, values: list[bytes]) -> Schedule:
    crcs = [google_crc32c.value(value) for value in values]
    times = [TIME_MS + 1] * len(values)
    return Schedule(
        1, outcome, "target", 0, 0, 0, identity, f"{7:016x}", 0, sequence, times, crcs, [1] * len(values), None, 1, 1, 2
    )


def compared(
    writer: WaitingWriter, tmp_path: Path, *schedules: Schedule | Send
) -> list[tuple[ViolationKind, str | None]]:
    """Return the violations of the history with these schedules."""
    for _ in range(3):
        writer.cancel(1 << 40, TIME_MS)
    writer.stop()
    path = tmp_path / "history.jsonl"
    with HistoryWriter(path) as history:
        for each in schedules:
            history.write(each)
    report = validate([str(writer.path)], PlainEngine(), histories=[path])
    assert report.acknowledged is not None
    acknowledged = (len(each.crcs) for each in schedules if each.outcome is OperationOutcome.OK)
    assert report.acknowledged.acknowledged == sum(acknowledged)
    return [(each.kind, each.topic) for each in report.violations]


def test_an_acknowledged_waiting_message_is_in_the_log(writer: WaitingWriter, tmp_path: Path) -> None:
    writer.wait([TIME_MS + 1, TIME_MS + 5])
    writer.fire([0], [TIME_MS + 1])
    right = scheduled(OperationOutcome.OK, 0, 0, [b"waits", b"waits"])
    assert compared(writer, tmp_path, right, scheduled(OperationOutcome.UNKNOWN, None, 2, [b"waits"])) == []


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (scheduled(OperationOutcome.OK, 0, 0, [b"waits", b"other"]), ViolationKind.ACKNOWLEDGED_ALTERED),
        (scheduled(OperationOutcome.OK, 2, 2, [b"waits"]), ViolationKind.ACKNOWLEDGED_MISSING),
        (scheduled(OperationOutcome.OK, 1, 0, [b"waits"]), ViolationKind.ACKNOWLEDGED_ELSEWHERE),
        (scheduled(OperationOutcome.FAIL, None, 0, [b"waits"]), ViolationKind.FAILED_PRESENT),
    ],
)
def test_an_acknowledgement_that_the_log_contradicts_is_found(
    writer: WaitingWriter, tmp_path: Path, wrong: Schedule, kind: ViolationKind
) -> None:
    writer.wait([TIME_MS + 1, TIME_MS + 5])
    assert compared(writer, tmp_path, wrong) == [(kind, TIMED_TOPIC)]


def test_a_history_can_have_messages_of_the_target_queue_too(writer: WaitingWriter, tmp_path: Path) -> None:
    """The batch that delivers a message has other columns than the batch of a producer."""
    writer.wait([TIME_MS + 1])
    writer.fire([0], [TIME_MS + 1])
    crcs = [google_crc32c.value(b"waits")]
    delivered = Send(1, OperationOutcome.OK, "target", 0, True, 0, f"{0:016x}", 0, 0, crcs, [5], None, 1, 2)
    assert compared(writer, tmp_path, delivered) == []
