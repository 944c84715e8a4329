"""Mirrors in the stack world: they are killed and continued, and what the checks see."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.sim.campaign.run import run
from chaos.sim.campaign.swarm import NEVER_MS, Options, Wishes, draw
from chaos.sim.engine import schedule
from chaos.sim.stack.mirror_truth import MirrorTruth
from chaos.sim.stack.roster import Rosters
from chaos.sim.stack.workload_history import LoadHistory
from ledger.errors import BusyError
from ledger.mirror.copied_batch import copied_batch
from ledger.mirror.queue_copier import Place, QueueCopier
from ledger.state.feature_levels import LOOK_UP_KEYS
from ledger.state.topic_table import Topic, TopicTable
from tests.chaos.sim.conftest import NewStackWorld, missing_after

WISHES = Wishes(world="stack", minutes=0.4, faults=("mirror_topics",))


@pytest.mark.long
def test_copies_are_the_messages_of_their_sources() -> None:
    report = run(3, WISHES)
    assert report.passed, report.reason
    assert report.happened["mirror_topics"] > 0
    assert report.happened["mirror_killed"] > 0


@pytest.mark.parametrize(
    ("shift", "promise"),
    [(-1, "a mirror copies each message once, in order"), (1, "a mirror leaves out nothing that the source has")],
)
def test_a_mirror_that_goes_on_at_another_place_is_found(
    shift: int, promise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = QueueCopier._place

    async def shifted(self: QueueCopier) -> Place:
        found = await place(self)
        return Place(found.next + shift, found.next + shift) if found.next > 1 else found

    monkeypatch.setattr(QueueCopier, "_place", shifted)
    assert promise in str(run(3, WISHES).reason)


def test_a_copy_with_another_content_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []

    def of_the_first(data: bytes, *arguments: Any, **settings: Any) -> bytes:
        seen.append(data)
        return copied_batch(seen[0], *arguments, **settings)

    monkeypatch.setattr("ledger.mirror.queue_copier.copied_batch", of_the_first)
    assert "a copy is the message of the source" in str(run(3, WISHES).reason)


# Node 5 keeps an older program. Shard 1 has no replica on it, and shard 2, with the copy of the queue 1, has one.
OLD_NODE = 5


def with_look_up_keys(old_level: int | None, monkeypatch: pytest.MonkeyPatch) -> Options:
    """Return a run of three shards in which all messages have look-up keys."""
    monkeypatch.setattr("chaos.sim.stack.workload.LOOK_UP_PRODUCERS", 1.0)
    drawn = draw(3, Wishes(world="stack", minutes=0.3, nodes=5, shards=3, faults=("mirror_topics",)))
    old = () if old_level is None else ((OLD_NODE, (old_level, NEVER_MS)),)
    return replace(drawn, queues=4, authentication=False, old_programs=old, named_share=0.0)


@pytest.mark.long
@pytest.mark.parametrize("old_level", [0, 2])
def test_copies_with_look_up_keys_wait_for_nodes_with_an_older_program(
    old_level: int, new_world: NewStackWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = new_world(with_look_up_keys(old_level, monkeypatch))
    assert missing_after(world, *schedule.make(world.options)) == []
    replicas = [part.replica for node in world.nodes() for part in node.parts if part.replica is not None]
    levels = {replica.shard: replica.state.feature_level for replica in replicas}
    copy = next(found for each in replicas if (found := each.state.topics.named("copy-t0")) is not None)
    assert copy.shards[1] == 2
    assert levels[1] >= LOOK_UP_KEYS > levels[2]


@pytest.mark.long
def test_a_mirror_that_leaves_a_queue_uncopied_is_found(
    new_world: NewStackWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = QueueCopier._place

    async def not_of_queue_1(self: QueueCopier) -> Place:
        if self.target.queue == 1:
            raise BusyError("not now")
        return await place(self)

    monkeypatch.setattr(QueueCopier, "_place", not_of_queue_1)
    world = new_world(with_look_up_keys(None, monkeypatch))
    missing = missing_after(world, *schedule.make(world.options))
    assert [each.split()[-1] for each in missing] == ["t0/1"]


def test_a_queue_that_the_copy_does_not_have_yet_must_be_copied() -> None:
    topics = TopicTable([Topic(1, "t0", (0, 0), 0, 2), Topic(2, "copy-t0", (0,), 0, 1)])
    rosters = SimpleNamespace(leading=lambda shard: SimpleNamespace(state=SimpleNamespace(topics=topics)))
    history = LoadHistory(lambda invariant, what: None)
    truth = MirrorTruth(history, cast(Rosters, rosters), lambda invariant, what: None)
    truth.is_wanted = True
    history.committed(1, 0, [history.send(1, "t0").name])
    assert list(truth.unsettled()) == ["the mirror has copied 0 of 1 of t0/1"]
