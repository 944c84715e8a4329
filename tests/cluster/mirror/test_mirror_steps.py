"""A mirror that is killed at any of its steps leaves nothing behind that the next one could get wrong."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from ledger.client.admin.admin import AsyncAdmin as AdminClient
from ledger.client.admin.consumer_groups_admin import ConsumerGroupsAdmin
from ledger.errors import LedgerError
from ledger.mirror import cluster_mirror
from ledger.mirror.mirror_progress import MirrorProgress
from ledger.mirror.send_window import SendWindow
from ledgermq import AsyncAdmin, AsyncProducer, TopicQueue
from tests.cluster.mirror.pair import Pair, mirror_of, mirrored, started_pair, values

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

# What a mirror calls at its steps.
STEPS: dict[str, tuple[Any, str]] = {
    "a topic is created": (AdminClient, "create_topic"),
    "a topic gets more queues": (AdminClient, "alter_topic"),
    "queues are claimed": (MirrorProgress, "claim"),
    "a batch is sent": (SendWindow, "send"),
    "answers arrive": (SendWindow, "attempts_ended"),
    "progress is stored": (MirrorProgress, "store"),
    "offsets of groups are set": (ConsumerGroupsAdmin, "set_offsets"),
}
_TOPICS = itertools.count()


class _KilledError(Exception):
    """Ends the mirror at once."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pair]:
    async with started_pair(tmp_path_factory.mktemp("pair")) as pair:
        yield pair


def killing(step: Callable[..., Any], at: int, *, after: bool) -> Callable[..., Any]:
    """Return `step`, whose call number `at`, from 1, and all later ones raise _KilledError before or after it. A step
    that nobody awaits has no effect from then on instead."""
    calls = 0

    def call(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls < at:
            return step(*arguments, **more)
        if asyncio.iscoroutinefunction(step):
            return _killed(step(*arguments, **more) if after else None)
        return step(*arguments, **more) if after and calls == at else None

    return call


async def _killed(step: Any) -> None:
    if step is not None:
        await step
    raise _KilledError


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", [1, 2, 7])
@pytest.mark.parametrize("step", STEPS)
async def test_a_kill_at_a_step_is_harmless(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, step: str, at: int, after: bool
) -> None:
    topic, group = f"t{next(_TOPICS)}", f"g{next(_TOPICS)}"
    await pair.source.create_topic(topic, queues=2)
    if step == "a topic gets more queues":
        await pair.target.create_topic(topic, queues=1)
    async with AsyncProducer(bootstrap_servers=pair.source.bootstrap) as producer:
        for first in range(0, 400, 20):
            await producer.send_many(topic, [b"%d" % n for n in range(first, first + 20)])
    async with AsyncAdmin(pair.source.bootstrap) as admin:
        offsets = {TopicQueue(topic, queue): offset for queue, offset in enumerate((70, 11))}
        await ConsumerGroupsAdmin(admin._client).set_offsets(group, offsets)
    for name in ("PROGRESS_S", "GROUPS_S", "LAG_S"):
        monkeypatch.setattr(cluster_mirror, name, 0.01)
    with monkeypatch.context() as patch:
        owner, name = STEPS[step]
        patch.setattr(owner, name, killing(getattr(owner, name), at, after=after))
        mirror = mirror_of(pair.source, pair.target, topic, groups=(group,))
        try:
            await mirror.open()
            await asyncio.wait_for(mirror.run(once=True), 1.5)
        except (_KilledError, TimeoutError, LedgerError):
            pass
        patch.setattr(MirrorProgress, "store", _nothing)  # a killed process stores nothing more
        await mirror.close()
    await mirrored(pair.source, pair.target, topic, groups=(group,))
    assert await values(pair.target, topic) == await values(pair.source, topic)
    assert await _offsets(pair.target.bootstrap, topic, group) == await _offsets(pair.source.bootstrap, topic, group)


async def _nothing(*_: Any) -> None:
    pass


async def _offsets(bootstrap: list[str], topic: str, group: str) -> dict[int, int | None]:
    async with AsyncAdmin(bootstrap) as admin:
        described = await admin.describe_consumer_group(group)
    return {each.queue: each.offset for each in described.queues if each.topic == topic}


async def test_a_target_that_has_forgotten_the_producer_is_told_where_the_copy_goes_on(pair: Pair) -> None:
    await pair.source.create_topic("forgotten", queues=1)
    for first in range(0, 60, 20):
        async with AsyncProducer(bootstrap_servers=pair.source.bootstrap) as producer:
            await producer.send_many("forgotten", [b"%d" % n for n in range(first, first + 20)])
        await mirrored(pair.source, pair.target, "forgotten")
        _forget_producers(pair)
    assert await values(pair.target, "forgotten") == [[b"%d" % n for n in range(60)]]


def _forget_producers(pair: Pair) -> None:
    replica = pair.target.running[1]._shards.replicas.first
    assert replica is not None
    for key, _ in list(replica.state.producers):
        replica.state.producers.forget(key)
