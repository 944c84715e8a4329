"""Two clusters for tests of a mirror, and what the topics of both have."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ledger.mirror.cluster_access import ClusterAccess, ClusterPlace
from ledger.mirror.cluster_mirror import ClusterMirror, MirrorSettings
from ledger.mirror.topic_patterns import TopicPatterns
from ledgermq import AsyncAdmin, AsyncConsumer, Message
from tests.cluster.fleet import Fleet


class Pair(NamedTuple):
    source: Fleet
    target: Fleet


@asynccontextmanager
async def started_pair(directory: Path, nodes: int = 1, **settings: Any) -> AsyncIterator[Pair]:
    """Start a source and a target with this many nodes each."""
    pair = Pair(
        Fleet(directory / "source", nodes, cluster="here", **settings),
        Fleet(directory / "target", nodes, cluster="there", **settings),
    )
    try:
        for fleet in pair:
            fleet.directory.mkdir(exist_ok=True)
            await fleet.start()
            await fleet.leader()
        yield pair
    finally:
        for fleet in pair:
            await fleet.close()


def mirror_of(source: Fleet, target: Fleet, *topics: str, **settings: Any) -> ClusterMirror:
    """Return a mirror that is not open."""
    patterns = TopicPatterns(topics, settings.pop("excluded", ()), settings.pop("prefix", ""))
    return ClusterMirror(
        ClusterAccess(ClusterPlace(source.bootstrap), request_timeout_ms=10_000),
        ClusterAccess(ClusterPlace(target.bootstrap), request_timeout_ms=10_000),
        MirrorSettings(patterns, **settings),
    )


async def mirrored(source: Fleet, target: Fleet, *topics: str, **settings: Any) -> ClusterMirror:
    """Copy what the source has now, and return the closed mirror."""
    mirror = mirror_of(source, target, *topics, **settings)
    try:
        await mirror.open()
        await mirror.run(once=True)
    finally:
        await mirror.close()
    return mirror


async def content(fleet: Fleet, topic: str) -> list[list[Message]]:
    """Return the messages of each queue of a topic, in order."""
    async with AsyncAdmin(fleet.bootstrap) as admin:
        offsets = (await admin.describe_topic(topic)).offsets
    queues: list[list[Message]] = [[] for _ in offsets]
    wanted = sum(each.end_offset - each.first_offset for each in offsets)
    async with AsyncConsumer(topic, bootstrap_servers=fleet.bootstrap) as consumer:
        while sum(map(len, queues)) < wanted:
            for message in await consumer.getmany(10_000, timeout_ms=10_000):
                queues[message.queue].append(message)
    return queues


async def values(fleet: Fleet, topic: str) -> list[list[bytes]]:
    """Return the values of the messages of each queue, in order."""
    return [[message.value for message in queue] for queue in await content(fleet, topic)]
