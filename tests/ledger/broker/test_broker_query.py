"""Tests a broker's searches by key and by time. A replica with a real log is compared with plain lists."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.batch import Batch, Codec, encode
from ledger.broker.applied_state import AppliedState
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.fetch import query
from ledger.broker.fetch.offsets import shard_offsets
from ledger.broker.fetch.query import KeyQuery, KeyQueryResult, query_messages
from ledger.broker.members.membership import Membership
from ledger.errors import (
    ReplicaBehindError,
    StorageFailedError,
    UnknownQueueError,
    UnknownTopicError,
)
from ledger.v1 import command_pb2
from store import CommitLog, ConsumeQueues, EntryDraft, EntryKind, KeyIndex, LogSettings, MemoryDisk, TimedIndex
from store.index.key_file import HEADER
from tests.ledger.broker.test_broker_membership import ME

T = TypeVar("T")

QUEUES = 2
TOPICS = (1, 2)
KEYS = st.sampled_from([None, b"a", b"b", b"c", b""])


@dataclass(frozen=True)
class Sent:
    """A message that was appended to the log."""

    topic_id: int
    queue: int
    offset: int
    key: bytes | None
    look_up_keys: tuple[bytes, ...]
    time: int

    def has(self, key: bytes) -> bool:
        return key == self.key or key in self.look_up_keys


class Node:
    """One replica. The test appends entries to its log directly, and each entry is applied at once."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.log = CommitLog.open(self.disk, Path("/log"), LogSettings(segment_bytes=1 << 20))
        timed = TimedIndex(self.disk, Path("/timed"))
        self.keys = KeyIndex(self.disk, Path("/keys"), first_capacity=4, max_capacity=16)
        nothing: Any = None
        self.replica = BrokerReplica(
            shard=0,
            applied=AppliedState(self.log, ConsumeQueues(self.disk, Path("/queues")), self.keys, timed),
            membership=Membership(2, ME, {}),
            max_message_bytes=1024,
            max_entry_bytes=2 << 20,
            meter=nothing,
        )
        self.sent: list[Sent] = []
        for name in ("one", "two"):
            command = command_pb2.Command(create_topic=command_pb2.CreateTopic(name=name, queues=QUEUES))
            self.add(EntryDraft(EntryKind.COMMAND, command.SerializeToString()), 0)

    def add(self, draft: EntryDraft, time: int) -> None:
        self.log.append([draft], term=1, commit=0, now_ms=time)
        self.replica.apply(*self.log.entry(self.log.last_index))
        driver: Any = SimpleNamespace(applied=self.log.last_index)
        self.replica.attach(driver)

    def send(
        self,
        topic_id: int,
        queue: int,
        keys: list[bytes | None],
        time: int,
        codec: Codec = Codec.NONE,
        look_up_keys: list[list[bytes]] | None = None,
    ) -> None:
        more = look_up_keys or [[] for _ in keys]
        offset = self.replica.state.next_offset(topic_id, queue)
        body = encode(
            [b"value" * 20] * len(keys), topic_id=topic_id, queue=queue, producer_id=len(self.sent) + 1, epoch=0,
            first_sequence=0, base_timestamp_ms=0, keys=keys, look_up_keys=more, codec=codec,
        )  # fmt: skip
        draft = EntryDraft(EntryKind.BATCH, body, topic_id=topic_id, queue=queue, base_offset=offset, count=len(keys))
        self.add(draft, time)
        self.sent += [Sent(topic_id, queue, offset + i, key, tuple(more[i]), time) for i, key in enumerate(keys)]

    def ask(self, topic_id: int, key: bytes, **asked: Any) -> KeyQueryResult:
        return finished(query_messages(self.replica, KeyQuery(topic_id, key, **asked)))

    def places(self, topic_id: int, key: bytes, **asked: Any) -> list[tuple[int, int]]:
        """Return (queue, offset) of all messages with the key, the newest first. Repeats the request until the search
        is complete.
        """
        found: list[tuple[int, int]] = []
        before = 0
        while True:
            response = self.ask(topic_id, key, before_position=before, **asked)
            for each in response.batches:
                keys, more = Batch(each.body).keys(), Batch(each.body).look_up_keys()
                offsets = [each.base_offset + i for i, own in enumerate(keys) if own == key or key in more[i]]
                found += [(each.queue, offset) for offset in reversed(offsets)]
            if not response.next_before_position:
                return found
            assert before == 0 or response.next_before_position < before, (
                "each response must continue at an earlier position"
            )
            before = response.next_before_position

    def expected(self, topic_id: int, key: bytes, begin: int = 0, end: int = 1 << 60) -> list[tuple[int, int]]:
        return [
            (sent.queue, sent.offset)
            for sent in reversed(self.sent)
            if sent.topic_id == topic_id and sent.has(key) and begin <= sent.time < end
        ]


def finished(answer: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that only yields its turn, and return its result. An event loop for each query would take most of
    the test's time.
    """
    while True:
        try:
            answer.send(None)
        except StopIteration as end:
            value: T = end.value
            return value


@dataclass(frozen=True)
class Limits:
    answer_bytes: int
    steps: int
    turns: int


BATCHES = st.lists(
    st.tuples(
        st.sampled_from(TOPICS),
        st.integers(0, QUEUES - 1),
        st.lists(
            st.tuples(KEYS, st.lists(KEYS.filter(lambda key: key is not None), max_size=3)), min_size=1, max_size=5
        ),
        st.integers(0, 2),
        st.sampled_from([Codec.NONE, Codec.ZSTD]),
    ),
    max_size=15,
)
Batches = list[tuple[int, int, list[tuple[bytes | None, list[bytes]]], int, Codec]]
LIMITS = st.builds(Limits, st.sampled_from([1, 500, 1 << 20]), st.sampled_from([1, 2, 256]), st.sampled_from([1, 400]))


def filled(batches: Batches) -> Node:
    node, time = Node(), 1000
    for topic_id, queue, keys, passed, codec in batches:
        time += passed
        node.send(topic_id, queue, [key for key, _ in keys], time, codec, [more for _, more in keys])
    return node


@given(BATCHES, LIMITS, st.integers(0, 3), st.integers(995, 1030), st.integers(995, 1030))
def test_all_answers_together_are_what_the_log_has(
    batches: Batches, limits: Limits, most: int, begin: int, end: int
) -> None:
    node = filled(batches)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(query, "MAX_ANSWER_BYTES", limits.answer_bytes)
        patch.setattr(query, "STEPS_AT_ONCE", limits.steps)
        patch.setattr(query, "MAX_TURNS", limits.turns)
        for topic_id in TOPICS:
            for key in (b"a", b"b", b"", b"never"):
                assert node.places(topic_id, key, max_messages=most) == node.expected(topic_id, key)
                window = node.places(topic_id, key, begin_ms=begin, end_ms=end)
                assert window == node.expected(topic_id, key, begin, end)


def test_an_answer_ends_when_it_has_enough() -> None:
    node = Node()
    for time in range(10):
        node.send(1, 0, [b"a", b"a", b"b"], time)
    response = node.ask(1, b"a", max_messages=3)
    assert [each.base_offset for each in response.batches] == [27, 24]
    assert response.next_before_position
    assert not node.ask(1, b"a").next_before_position


def test_bodies_go_out_as_they_lie_in_the_log() -> None:
    node = Node()
    node.send(1, 1, [b"a", None], 77, Codec.ZSTD)
    (found,) = node.ask(1, b"a").batches
    assert (found.queue, found.append_time_ms, found.term) == (1, 77, 1)
    assert found.body == node.log.reading.body(node.log.last_index)


def test_what_cannot_be_answered_is_told() -> None:
    node = Node()
    with pytest.raises(UnknownTopicError):
        node.ask(9, b"a")


@pytest.mark.parametrize("at", [8, 10, 16], ids=["position", "beyond the log", "size"])
def test_an_index_that_contradicts_the_log_is_not_believed(at: int, caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    node.send(1, 0, [b"a"], 5)
    (name,) = node.disk.list(Path("/keys"))
    node.disk.flip(Path("/keys") / name, HEADER.size + at, 5)
    with pytest.raises(StorageFailedError, match="builds the index anew"):
        node.ask(1, b"a")
    assert "/keys is damaged" in caplog.text


async def test_a_search_across_a_rebuild_is_to_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "STEPS_AT_ONCE", 1)
    node = Node()
    for time in range(3):
        node.send(1, 0, [b"a"], time)
    asked = asyncio.create_task(query_messages(node.replica, KeyQuery(1, b"a")))
    await asyncio.sleep(0)
    node.keys.wipe()
    with pytest.raises(ReplicaBehindError):
        await asked


# -- offsets


def offsets(node: Node, topic_id: int, queues: list[int], time: int | None) -> list[tuple[int, int, int, int | None]]:
    found = finished(shard_offsets(node.replica, topic_id, queues, time))
    return [(one.queue, one.first_offset, one.end_offset, one.time_offset) for one in found]


@given(BATCHES, st.integers(995, 1035))
def test_the_offset_of_a_time_in_every_queue(batches: Batches, time: int) -> None:
    node = filled(batches)
    for topic_id in TOPICS:
        expected = []
        for queue in range(QUEUES):
            of_queue = [sent.time for sent in node.sent if (sent.topic_id, sent.queue) == (topic_id, queue)]
            later = [offset for offset, each in enumerate(of_queue) if each >= time]
            expected.append((queue, 0, len(of_queue), min(later, default=len(of_queue))))
        assert offsets(node, topic_id, [*range(QUEUES)], time) == expected
        assert offsets(node, topic_id, [1], time) == expected[1:]


def test_without_a_time_none_is_looked_for() -> None:
    node = filled([(1, 0, [(b"a", [])], 1, Codec.NONE)])
    assert offsets(node, 1, [0], None) == [(0, 0, 1, None)]
    with pytest.raises(UnknownQueueError):
        offsets(node, 1, [5], 0)


# -- sizes of queues


@pytest.mark.parametrize("batches", [3, 90])
def test_the_size_of_a_queue_is_about_that_of_its_batches(batches: int) -> None:
    """Another queue has batches of its own between them."""
    node = Node()
    size = 0
    for number in range(batches):
        before = node.log.end
        node.send(1, 0, [b"a"] * (1 + number % 30), number)
        size += node.log.end - before
        node.send(1, 1, [b"b"] * 40, number)
    (answer,) = finished(shard_offsets(node.replica, 1, [0], None, sizes=True))
    assert answer.about_bytes == pytest.approx(size, rel=0.15)
    (unasked,) = finished(shard_offsets(node.replica, 1, [0], None))
    assert unasked.about_bytes == 0


def test_an_empty_queue_has_no_size() -> None:
    (answer,) = finished(shard_offsets(Node().replica, 1, [1], None, sizes=True))
    assert (answer.first_offset, answer.end_offset, answer.about_bytes) == (0, 0, 0)
