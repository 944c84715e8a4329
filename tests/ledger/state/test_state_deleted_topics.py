"""Tests the deletion of topics: what the state forgets with a topic, and that topic ids are never used again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ledger.errors import ConsumerFencedError, TopicExistsError, UnknownTopicError
from ledger.state import Accept, CommandResult, CommittedBatch, DeletedTopic, Projected, SequenceGap, State, Topic
from ledger.state.consumer_group_table import TopicQueueId
from ledger.state.consumption import ProgressResult
from ledger.state.producers import ProducerLimits, ProducerQueue, Producers
from ledger.state.progress_table import ConsumedQueue, ProgressTable, QueueProgress
from ledger.state.sequence import BatchRecord, Sequence
from ledger.state.topic_table import TopicTable
from ledger.v1 import command_pb2


class Log:
    """A state that is changed by numbered entries. Each command is the next entry."""

    def __init__(self) -> None:
        self.state = State()
        self.index = 0

    def apply(self, **command: Any) -> CommandResult:
        self.index += 1
        body = command_pb2.Command(**command).SerializeToString()
        return self.state.apply_command(body, self.index, index=self.index)

    def create(self, name: str, *shards: int) -> Topic:
        made = self.apply(create_topic=command_pb2.CreateTopic(name=name, queues=len(shards), shards=shards))
        assert isinstance(made, Topic)
        return made

    def delete(self, topic_id: int) -> CommandResult:
        return self.apply(delete_topic=command_pb2.DeleteTopic(topic_id=topic_id))

    def put(self, topic_id: int, queue: int = 0, count: int = 10) -> None:
        self.index += 1
        self.state.apply_batch(
            CommittedBatch(
                topic_id=topic_id,
                queue=queue,
                base_offset=self.state.next_offset(topic_id, queue),
                count=count,
                append_time_ms=self.index,
                index=self.index,
                term=1,
                producer_id=7,
                epoch=0,
                first_sequence=0,
            )
        )

    def claim(self, topic_id: int, *, name: str = "billing", epoch: int = 5) -> Any:
        queue = command_pb2.ClaimedQueue(topic_id=topic_id, queue=0, epoch=epoch)
        results = self.apply(claim_queues=command_pb2.ClaimQueues(consumer_group=name, queues=[queue]))
        assert isinstance(results, list)
        return results[0]

    def join(self, member: str, *topics: int) -> None:
        joined = self.apply(
            join_consumer_group=command_pb2.JoinConsumerGroup(
                consumer_group="billing",
                member=member,
                strategy="average",
                session_timeout_ms=10_000,
                subscriptions=[command_pb2.QueueCount(topic_id=topic_id, queues=2) for topic_id in topics],
            )
        )
        assert joined is True


def test_nothing_is_left_of_it_and_all_of_the_others() -> None:
    log = Log()
    gone, kept = log.create("gone", 0, 0), log.create("kept", 0)
    for topic in (gone, kept):
        log.put(topic.topic_id)
        log.claim(topic.topic_id)
    assert log.delete(gone.topic_id) == DeletedTopic(gone)
    state = log.state
    assert [topic.name for topic in state.topics] == ["kept"]
    assert list(state.ends()) == [(kept.topic_id, 0, 10)]
    assert {key.topic_id for key, _ in state.producers} == {kept.topic_id}
    assert {key.topic_id for key, _ in state.consumption.progress} == {kept.topic_id}
    assert log.delete(gone.topic_id) is None, "a second deletion does nothing"
    decoded = State.decode(state.encode())
    assert decoded.digest() == state.digest()
    assert decoded.topics.changed_at == log.index


def test_its_name_is_free_and_its_id_is_not() -> None:
    log = Log()
    first = log.create("t", 0)
    assert isinstance(log.apply(create_topic=command_pb2.CreateTopic(name="t", queues=1)), TopicExistsError)
    log.delete(first.topic_id)
    second = log.create("t", 0)
    assert second.topic_id == first.topic_id + 1
    assert log.state.topics.named("t") == second
    topics = log.state.topics
    assert [topics.was_deleted(topic_id) for topic_id in (0, first.topic_id, second.topic_id, 99)] == [
        False, True, False, False,
    ]  # fmt: skip


def test_what_still_comes_about_it_is_refused() -> None:
    log = Log()
    topic_id = log.create("t", 0).topic_id
    log.claim(topic_id)
    log.delete(topic_id)
    assert isinstance(log.claim(topic_id), UnknownTopicError)
    offset = command_pb2.AcknowledgedOffset(topic_id=topic_id, epoch=5)
    answers = log.apply(acknowledge_offsets=command_pb2.AcknowledgeOffsets(consumer_group="billing", offsets=[offset]))
    assert isinstance(answers, list)
    assert isinstance(answers[0], UnknownTopicError)
    assert isinstance(log.apply(topic_opened=command_pb2.TopicOpened(topic_id=topic_id, queues=1)), UnknownTopicError)
    log.state.apply_move("billing", topic_id, 0, 3)  # a message was moved from the topic before the deletion
    assert len(log.state.consumption.progress) == 0


def test_a_topic_that_is_not_open_yet_need_not_be_opened_any_more() -> None:
    log = Log()
    log.apply(add_shard=command_pb2.AddShard(shard=1, nodes=[1], incarnations=[bytes(16)]))
    topic = log.create("t", 0, 1)
    assert log.state.topics.opening() == [topic]
    log.delete(topic.topic_id)
    assert log.state.topics.opening() == []


def test_members_have_nothing_of_it_any_more_and_are_assigned_anew() -> None:
    log = Log()
    gone, kept = log.create("gone", 0, 0).topic_id, log.create("kept", 0, 0).topic_id
    log.join("a", gone, kept)
    group = log.state.consumption.groups.get("billing")
    assert group is not None
    owners = [
        command_pb2.QueueTarget(topic_id=topic, queue=queue, member="a") for topic in (gone, kept) for queue in (0, 1)
    ]
    log.apply(
        assign_queues=command_pb2.AssignQueues(consumer_group="billing", generation=group.generation, targets=owners)
    )
    assert len(group.view("a")) == 4
    version = group.members["a"].version
    log.delete(gone)
    assert [owned.queue for owned in group.view("a")] == [TopicQueueId(kept, 0), TopicQueueId(kept, 1)]
    assert group.members["a"].version == log.index > version, "a new version informs the owner"
    assert group.generation == log.index != group.assigned
    log.join("b", gone, kept)
    assert group.queues == {kept: 2}, (
        "a member that does not know of the deletion subscribes only to the existing topic"
    )


def test_of_two_topics_of_one_name_another_shard_knows_the_later_one_until_the_first_is_deleted() -> None:
    log = Log()
    for topic_id in (9, 4):  # topic 9 is opened first; the older topic 4, which will be deleted, comes late
        opened = command_pb2.OpenTopic(topic_id=topic_id, name="t", shards=[1], created_ms=topic_id)
        log.apply(open_topic=opened)
    for state in (log.state, State.decode(log.state.encode())):
        named = state.topics.named("t")
        assert named is not None
        assert named.topic_id == 9
    log.delete(4)
    named = log.state.topics.named("t")
    assert named is not None
    assert named.topic_id == 9


def test_nothing_is_appended_behind_the_deletion() -> None:
    log = Log()
    topic_id = log.create("t", 0).topic_id
    projected = Projected(log.state)
    batch = {"topic_id": topic_id, "queue": 0, "producer_id": 7, "epoch": 0, "first_sequence": 0, "count": 1}
    assert isinstance(projected.check(**batch), Accept)
    projected.admit_deletion(topic_id, SimpleNamespace(index=log.index + 1))
    for admit in (projected.check, projected.admit_batch):  # the broker does not call `check` for its own batches
        with pytest.raises(UnknownTopicError, match="is being deleted"):
            admit(**batch)
    log.delete(topic_id)
    projected.settle(log.index)
    assert projected._going == {}
    with pytest.raises(UnknownTopicError):
        projected.check(**batch)


def test_nothing_is_appended_behind_the_last_of_two_deletions() -> None:
    """A late `OpenTopic` brings the topic back between them. Before, a batch was accepted then, and stopped every
    replica behind the second deletion."""
    log = Log()
    late = command_pb2.OpenTopic(topic_id=9, name="t", shards=[1], created_ms=9)
    log.apply(open_topic=late)
    projected = Projected(log.state)
    first, last = SimpleNamespace(index=log.index + 1), SimpleNamespace(index=0)
    projected.admit_deletion(9, first)
    projected.admit_deletion(9, last)
    log.delete(9)
    projected.settle(log.index)
    log.apply(open_topic=late)
    projected.settle(log.index)
    with pytest.raises(UnknownTopicError, match="is being deleted"):
        projected.require(9, 0)
    last.index = log.index + 1
    projected.settle(log.index)
    assert projected.is_being_deleted(9)
    log.delete(9)
    projected.settle(log.index)
    assert projected._going == {}
    log.apply(open_topic=late)
    projected.require(9, 0)


def test_a_producer_that_comes_back_to_a_topic_of_that_name_begins_anew() -> None:
    log = Log()
    first = log.create("t", 0).topic_id
    log.put(first)
    log.delete(first)
    second = log.create("t", 0).topic_id
    batch = {"topic_id": second, "queue": 0, "producer_id": 7, "epoch": 0, "count": 1}
    assert isinstance(log.state.check(**batch, first_sequence=10), SequenceGap)
    assert isinstance(log.state.check(**batch, first_sequence=0), Accept)


# --- broadcast consumers, which have no coordinator


def test_the_first_claim_of_a_broadcast_takes_an_epoch_that_is_later_than_all_before() -> None:
    log = Log()
    topic_id = log.create("t", 0).topic_id
    first = log.claim(topic_id, name="prices@a", epoch=0)
    assert first == ProgressResult(0, (), epoch=log.index)
    assert log.claim(topic_id, name="prices@a", epoch=first.epoch) == ProgressResult(0, ()), (
        "the consumer claims again after a reset"
    )
    second = log.claim(topic_id, name="prices@a", epoch=0)
    assert second.epoch == log.index > first.epoch
    assert isinstance(log.claim(topic_id, name="prices@a", epoch=first.epoch), ConsumerFencedError)


def test_two_topics_of_one_name_may_be_deleted_in_any_order() -> None:
    """Before, the deletion of the second topic ended every node. The hostile calls of `make fuzz` found it."""
    for order in ((7, 9), (9, 7)):
        table = TopicTable()
        table.open(7, "t", (1,), 0)
        table.open(9, "t", (1,), 0)
        first, last = order
        table.delete(first)
        left = table.get(last)
        assert table.named("t") == left, "as in a table that is read from a snapshot"
        table.delete(last)
        assert table.named("t") is None


class Seen(int):
    """The id of a topic, which counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Seen.compared += 1
        return super().__eq__(other)

    __hash__ = int.__hash__


def test_a_deletion_does_not_look_at_the_producers_and_groups_of_other_topics() -> None:
    producers, progress = Producers(ProducerLimits()), ProgressTable()
    for number in range(1_000):
        producers.add(ProducerQueue(number, Seen(1), 0), 0, BatchRecord(0, 1, 0, 1))
        progress.claim(ConsumedQueue(f"group-{number}", Seen(1), 0), 1, 0)
    producers.add(ProducerQueue(7, Seen(2), 0), 0, BatchRecord(0, 1, 0, 1))
    progress.claim(ConsumedQueue("group-7", Seen(2), 0), 1, 0)
    Seen.compared = 0
    producers.forget_topic(2)
    progress.forget_topic(2)
    assert (len(producers), len(progress)) == (1_000, 1_000)
    assert Seen.compared < 20


def test_what_is_kept_by_topic_follows_producers_that_expire_or_are_forgotten() -> None:
    limits = ProducerLimits(expiry_ms=100, most=3)
    producers = Producers(limits, [(ProducerQueue(1, 1, 0), Sequence(0, last_append_time_ms=1))])
    for number in range(2, 8):
        producers.add(ProducerQueue(number, number % 2, 0), 0, BatchRecord(0, 1, 0, number))
    producers.forget(ProducerQueue(6, 0, 0))
    producers.forget(ProducerQueue(1, 1, 0))
    assert [key.producer_id for key, _ in producers] == [5, 7]
    producers.forget_topic(0)
    assert [key.producer_id for key, _ in producers] == [5, 7]
    producers.expire(1_000)
    producers.add(ProducerQueue(9, 1, 0), 0, BatchRecord(0, 1, 0, 1_000))
    producers.forget_topic(1)
    assert len(producers) == 0


def test_what_is_kept_by_topic_follows_groups_that_are_forgotten() -> None:
    keys = [ConsumedQueue("g", topic, queue) for topic in (1, 2) for queue in (0, 1)]
    table = ProgressTable([(key, QueueProgress(1, 0)) for key in keys])
    table.claim(ConsumedQueue("h", 1, 0), 1, 0)
    assert table.forget("g") == 4
    table.forget_topic(2)
    table.forget_topic(1)
    assert len(table) == 0
    assert table.count_of("h") == 0


def test_the_numbers_of_topics_and_queues_follow_creations_changes_and_deletions() -> None:
    table = TopicTable()
    orders, retries = table.create("orders", (0, 0), 1), table.create("%RETRY%g", (0,) * 16, 1)
    assert (table.system_count, table.queue_count) == (1, 2)
    table.extend(orders.topic_id, (0, 0, 0))
    table.opened(orders.topic_id, 3)
    table.extend(retries.topic_id, (0,) * 32)
    assert (table.system_count, table.queue_count) == (1, 3)
    again = TopicTable(table)
    assert (again.system_count, again.queue_count) == (1, 3)
    for topic_id in (orders.topic_id, retries.topic_id, 99):
        table.delete(topic_id)
    assert (table.system_count, table.queue_count) == (0, 0)
