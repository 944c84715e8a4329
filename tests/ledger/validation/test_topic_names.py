"""Sentences of the validation name topics, also topics that are called like an id."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ledger.validation.judging.violation import ViolationKind
from ledger.validation.naming import TopicText, rendered
from store import Header
from tests.ledger.validation import stopped_cluster
from tests.ledger.validation.plants import PLANTS
from tests.ledger.validation.stopped_cluster import EVENTS, ORDERS, StoppedCluster, resealed_batch
from tests.ledger.validation.test_lost_messages import AT, judged, of_kind

K = ViolationKind


@pytest.mark.parametrize("names", [{ORDERS: "2", EVENTS: "1"}, {ORDERS: "2-topic", EVENTS: "topic-1"}])
def test_a_topic_that_is_called_like_an_id_is_named_rightly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: dict[int, str]
) -> None:
    monkeypatch.setattr(stopped_cluster, "topics_of", lambda _shard: names)
    cluster = StoppedCluster.make(tmp_path)
    PLANTS["a suffix forked in what is committed"](cluster)
    violation = next(each for each in judged(cluster).violations if each.kind is K.REPLICAS_DIFFER)
    header = cluster.replicas[0].headers()[(violation.index or 0) - 1]
    assert f"topic {names[header.topic_id]} queue {header.queue} offset {header.base_offset}" in violation.reason


def test_a_batch_of_a_queue_that_its_topic_does_not_have_names_the_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopped_cluster, "topics_of", lambda _shard: {ORDERS: "2", EVENTS: "1"})
    cluster = StoppedCluster.make(tmp_path)
    header = next(each for each in cluster.replicas[1].headers()[AT:] if each.topic_id == EVENTS)

    def moved(each: Header, body: bytes) -> tuple[Header, bytes]:
        if each.index != header.index:
            return each, body
        return replace(each, queue=1), resealed_batch(body, queue=1)

    cluster.replicas[1].rewritten(header.index, moved)
    violation = of_kind(judged(cluster), K.UNKNOWN_QUEUE)
    assert violation.reason == "there is a batch for queue 1 of topic 1, but topic 1 has 1 queue"
    assert violation.topic == "1"


def test_a_sentence_about_an_unknown_topic_says_that_it_has_its_id() -> None:
    sentence = TopicText(("queue 0 of ", 3, " and ", 4, ", offset 3"))
    assert rendered(sentence, {3: "4"}) == "queue 0 of topic 4 and topic id 4, offset 3"
