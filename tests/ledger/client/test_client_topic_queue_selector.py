"""Tests which queue of a topic the producer picks for a message: by key, by request, or in turn."""

from __future__ import annotations

import random

import pytest

from ledger.client.connection.backoff import Backoff
from ledger.client.producer.delivery import DeliverySettings
from ledger.client.producer.producer_batch import Acknowledged, Piece
from ledger.client.producer.queue_sequencer import QueueSequencer
from ledger.client.producer.topic_queue_selector import TopicQueueSelector
from ledger.errors import LedgerError, UnknownQueueError
from ledger.hashing import queue_of
from ledger.timed import WaitingMessages


class Nobody:
    def acknowledged(self, queue: int, first_offset: int, count: int, answer: Acknowledged) -> None: ...

    def scheduled(self, queue: int, waiting: WaitingMessages, answer: Acknowledged) -> None:
        raise AssertionError("the messages have no delivery times")

    def failed(self, error: LedgerError) -> None: ...


@pytest.fixture
def sequencers() -> list[QueueSequencer]:
    delivery, backoff = DeliverySettings(producer_id=1), Backoff(1, 1, random.Random(1))
    return [QueueSequencer(1, queue, 0, delivery, backoff) for queue in range(3)]


def test_a_key_picks_its_queue(sequencers: list[QueueSequencer]) -> None:
    topic = TopicQueueSelector("t", 1, sequencers, first=0)
    for number in range(50):
        key = b"%d" % number
        assert topic.pick(key, None) is sequencers[queue_of(key, 3)]


def test_a_queue_asked_for_goes_before_the_key(sequencers: list[QueueSequencer]) -> None:
    assert TopicQueueSelector("t", 1, sequencers, first=0).pick(b"key", 2) is sequencers[2]


@pytest.mark.parametrize("queue", [-1, 3])
def test_a_queue_that_is_not_there_is_refused(sequencers: list[QueueSequencer], queue: int) -> None:
    with pytest.raises(UnknownQueueError, match="its queues are 0 to 2"):
        TopicQueueSelector("t", 1, sequencers, first=0).pick(None, queue)


def test_without_a_key_a_queue_is_kept_until_its_batch_closes(sequencers: list[QueueSequencer]) -> None:
    topic = TopicQueueSelector("t", 1, sequencers, first=1)
    for expected in (1, 2, 0, 1):
        assert topic.pick(None, None) is sequencers[expected]
        sequencers[expected].add(Piece([b"a"], 1, Nobody()), 0, wall_ms=0)
        assert topic.pick(None, None) is sequencers[expected]
        sequencers[expected].add(Piece([b"b"], 1, Nobody()), 0, wall_ms=0, close=True)


def test_queues_of_a_shard_that_is_passed_over_are_skipped_while_there_are_others(
    sequencers: list[QueueSequencer],
) -> None:
    passed_over = {1}
    topic = TopicQueueSelector(
        "t", 1, sequencers, first=0, is_available=lambda sequencer: sequencer.queue not in passed_over
    )
    for expected in (0, 2, 0, 2):
        assert topic.pick(None, None) is sequencers[expected]
        sequencers[expected].add(Piece([b"a"], 1, Nobody()), 0, wall_ms=0, close=True)
    passed_over |= {0, 2}
    assert topic.pick(None, None) is sequencers[0], (
        "all shards are avoided, so the queue whose turn it is gets the message"
    )
    passed_over.remove(1)
    assert topic.pick(None, None) is sequencers[1], (
        "an available queue is picked at once, even if the open batch is not full"
    )


def test_a_key_and_a_choice_go_to_their_queue_also_where_it_is_passed_over(sequencers: list[QueueSequencer]) -> None:
    topic = TopicQueueSelector("t", 1, sequencers, first=0, is_available=lambda _: False)
    assert topic.pick(b"key", None) is sequencers[queue_of(b"key", 3)]
    assert topic.pick(None, 1) is sequencers[1]
