"""The replay leaves out most batches, and comes to the state of a machine that applied them all."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ledger.batch import encode
from ledger.state import ProducerQueue
from ledger.state.sequence import REMEMBERED_BATCHES, Accept
from ledger.v1 import command_pb2
from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.replay.replay import Replayed
from ledger.validation.sources.sources import open_sources
from ledger.validation.spans.steps import BatchesApplied
from ledger.validation.validate import plan_of
from store import EntryDraft, EntryKind, Header
from tests.ledger.validation.stopped_cluster import TIME_MS, Writer

DAY_MS = 24 * 60 * 60 * 1000
PRODUCERS = (0x51, 0x52, 0x53)
WEIGHTS = (20, 1, 1)
"""One writes most: its batches, by which the others are forgotten, are left out before theirs are."""
ENTRIES = 400


@dataclass
class RandomHistory:
    """The entries that a leader appends for a few producers and operators, in a random order."""

    writer: Writer
    chance: random.Random
    topics: list[int] = field(default_factory=list)
    now_ms: int = TIME_MS
    digests: dict[int, int] = field(default_factory=dict)
    """Of the state that applied every entry, by index."""
    refused: int = 0

    def write(self) -> None:
        self.create_topic()
        while self.writer.log.last_index < ENTRIES:
            self.now_ms += self.chance.choice((0, 1, 1, 50))
            if self.chance.random() < 0.02:
                self.now_ms += DAY_MS // 2
            self.step()
        self.writer.stop()

    def step(self) -> None:
        drawn = self.chance.random()
        if drawn < 0.01:
            self.create_topic()
        elif drawn < 0.02 and len(self.topics) > 1:
            gone = self.topics.pop(self.chance.randrange(len(self.topics)))
            self.command(delete_topic=command_pb2.DeleteTopic(topic_id=gone))
        elif drawn < 0.03:
            self.command(hold_log=command_pb2.HoldLog(name="backup", ttl_ms=self.chance.choice((20, DAY_MS))))
        else:
            self.send()

    def send(self) -> None:
        """Send a batch: in most cases the next batch of its producer, otherwise a repeat, a batch after a gap, a
        batch of another epoch, or the first batch of a forgotten producer."""
        state, chance = self.writer.state, self.chance
        (producer,) = chance.choices(PRODUCERS, WEIGHTS)
        topic_id, queue = chance.choice(self.topics), chance.randrange(2)
        known = state.producers.get(ProducerQueue(producer, topic_id, queue))
        epoch, due = (known.epoch, known.next_sequence) if known is not None else (0, 0)
        if chance.random() < 0.2:
            epoch, due = chance.choice(((epoch, 0), (epoch, max(0, due - 3)), (epoch, due + 2), (epoch + 1, 0)))
        count = chance.randint(1, 3)
        decision = state.check(
            topic_id=topic_id, queue=queue, producer_id=producer, epoch=epoch, first_sequence=due, count=count
        )
        if not isinstance(decision, Accept):
            self.refused += 1
            return
        body = encode(
            [b"value"] * count, topic_id=topic_id, queue=queue, producer_id=producer, epoch=epoch, first_sequence=due,
            base_timestamp_ms=TIME_MS,
        )  # fmt: skip
        offset = state.next_offset(topic_id, queue)
        draft = EntryDraft(EntryKind.BATCH, body, topic_id=topic_id, queue=queue, base_offset=offset, count=count)
        header = self.writer.append(draft, time_ms=self.now_ms)
        self.writer.apply(header, body)
        self.told(header)

    def create_topic(self) -> None:
        name = f"topic-{self.writer.log.last_index}"
        self.command(create_topic=command_pb2.CreateTopic(name=name, queues=2))
        self.topics.append(max(topic.topic_id for topic in self.writer.state.topics))

    def command(self, **command: object) -> None:
        body = command_pb2.Command(**command).SerializeToString()  # type: ignore[arg-type]
        header = self.writer.append(EntryDraft(EntryKind.COMMAND, body), time_ms=self.now_ms)
        self.writer.state.apply_command(body, header.append_time_ms, index=header.index)
        self.told(header)

    def told(self, header: Header) -> None:
        self.digests[header.index] = self.writer.state.digest()


@pytest.mark.parametrize("seed", range(12))
def test_a_replay_of_the_last_few_batches_comes_to_the_state_of_all(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    history = RandomHistory(Writer(tmp_path / "node-1", segment_bytes=1 << 20), chance)
    history.write()
    assert history.refused > 10
    cuts = tuple(sorted([*chance.sample(sorted(history.digests), 6), ENTRIES]))
    for span_bytes in (1 << 20, 8192):
        found = replayed(tmp_path / "node-1", cuts, span_bytes)
        assert found.told == []
        assert states_at(found, cuts) == {index: history.digests[index] for index in cuts}


def test_a_producer_that_was_forgotten_begins_anew_though_what_forgot_it_is_left_out(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "node-1", segment_bytes=1 << 20)
    writer.create_topic("orders", 1)
    later = TIME_MS + 2 * DAY_MS
    rare, busy = PRODUCERS[:2]
    for producer, batches, now_ms in ((rare, 2, TIME_MS), (busy, 1, later), (rare, 1, later), (busy, 8, later)):
        writer.producer = producer
        if now_ms == later and producer == rare:
            del writer.sequences[rare, 1, 0]
        for _ in range(batches):
            last = writer.batch([b"value"], time_ms=now_ms).index
    writer.stop()
    found = replayed(tmp_path / "node-1", (last,), 1 << 20)
    assert states_at(found, (last,)) == {last: writer.state.digest()}


def replayed(path: Path, cuts: tuple[int, ...], span_bytes: int) -> Replayed:
    replicas, _ = open_sources([str(path)])
    engine = PlainEngine()
    engine.read(replace(plan_of(replicas, span_bytes), cuts={0: cuts}))
    (found,), violations, not_judged = engine.replay({0: replicas[0].segments[0].length})
    assert (violations, not_judged) == ([], [])
    return found


def states_at(found: Replayed, cuts: tuple[int, ...]) -> dict[int, int]:
    return {index: state for index, (state, _) in found.states.items() if index in cuts}


def test_most_batches_are_left_out(tmp_path: Path) -> None:
    """Most batches are left out of the steps. Otherwise the test above would prove nothing."""
    writer = Writer(tmp_path / "node-1", segment_bytes=1 << 20)
    writer.create_topic("orders", 1)
    for _ in range(100):
        writer.batch([b"value"])
    writer.stop()
    replicas, _ = open_sources([str(tmp_path / "node-1")])
    engine = PlainEngine()
    engine.read(replace(plan_of(replicas, 1 << 20), cuts={0: (60,)}))
    steps = [step for facts in engine._facts for step in facts.steps]
    applied = [len(step.facts) for step in steps if isinstance(step, BatchesApplied)]
    assert applied == [REMEMBERED_BATCHES, REMEMBERED_BATCHES]
