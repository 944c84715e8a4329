"""A cluster with everything that a backup must keep, and the same things read from a restored cluster."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from ledger.backup.create import BackupSettings, create_backup
from ledger.backup.manifest import Manifest
from ledger.backup.restore import RestoredShard, RestoreSettings, restore_backup
from ledger.backup.targets.directory_target import DirectoryTarget
from ledger.backup.targets.target import BackupTarget
from ledgermq import Admin, AsyncAdmin, AsyncConsumer, AsyncGroupConsumer, AsyncProducer
from tests.cluster.fleet import Fleet

SHARDS = 3
NO_LIMIT = BackupSettings(max_rate=0)
# (queue, offset, key, value, tag)
Row = tuple[int, int, bytes | None, bytes, str | None]


@dataclass(frozen=True, slots=True)
class ClusterContents:
    """What clients can see of a cluster."""

    messages: dict[str, list[Row]]
    topics: list[tuple[str, int, int, tuple[int, ...]]]
    groups: dict[str, dict[tuple[str, int], int | None]]
    users: list[str]
    rules: list[tuple[str, ...]]


async def backup(fleet: Fleet, target: BackupTarget, settings: BackupSettings = NO_LIMIT) -> Manifest:
    def make() -> Manifest:
        with Admin(fleet.bootstrap) as admin:
            return create_backup(admin, target, settings)

    return await asyncio.to_thread(make)


async def restore(
    target: BackupTarget, manifest: Manifest, fleet: Fleet, until_ms: int | None = None
) -> list[RestoredShard]:
    """Restore a backup into the directories of the nodes of a fleet that was never started."""
    nodes = {node: fleet.address(node) for node in fleet.nodes}
    cluster = fleet.settings(1).cluster
    settings = RestoreSettings(cluster, nodes, fleet.directory, until_ms)
    return await asyncio.to_thread(lambda: restore_backup(target, manifest, settings))


async def fill(fleet: Fleet, topic: str, count: int, *, first: int = 0, size: int = 200) -> None:
    """Send `count` messages with keys. `size` is the size of each in bytes, about."""
    async with AsyncProducer(fleet.bootstrap) as producer:
        for begin in range(first, first + count, 500):
            numbers = range(begin, min(begin + 500, first + count))
            await asyncio.gather(
                *(
                    producer.send_nowait(topic, b"%d " % number + bytes(size), key=f"key-{number % 50}", tag="even")
                    for number in numbers
                )
            )


async def consume_some(fleet: Fleet, topic: str, group: str, count: int) -> None:
    """Read and acknowledge at least `count` messages as a consumer group."""
    async with AsyncGroupConsumer(topic, group=group, bootstrap_servers=fleet.bootstrap) as consumer:
        done = 0
        while done < count:
            messages = await consumer.getmany(100, timeout_ms=5_000)
            assert messages
            done += len(messages)
            consumer.finish(*messages)
        await consumer.acknowledge()


async def contents(fleet: Fleet) -> ClusterContents:
    async with AsyncAdmin(fleet.bootstrap) as admin:
        topics = await admin.list_topics()
        named = [topic for topic in topics if not topic.name.startswith("%")]
        groups = {
            group.name: {
                (queue.topic, queue.queue): queue.offset
                for queue in (await admin.describe_consumer_group(group.name)).queues
            }
            for group in await admin.list_consumer_groups()
        }
        users = [user.name for user in await admin.list_users()]
        rules = [tuple(map(str, (rule.user, rule.action, rule.resource))) for rule in await admin.list_rules()]
        rows = {topic.name: await messages_of(fleet, topic.name) for topic in named}
    return ClusterContents(
        messages=rows,
        topics=[(topic.name, topic.topic_id, topic.queues, tuple(topic.shards)) for topic in topics],
        groups=groups,
        users=users,
        rules=rules,
    )


async def messages_of(fleet: Fleet, topic: str) -> list[Row]:
    rows: list[Row] = []
    async with AsyncConsumer(topic, start="earliest", bootstrap_servers=fleet.bootstrap) as consumer:
        begins, ends = await consumer.beginning_offsets(), await consumer.end_offsets()
        missing = sum(ends[queue] - begins[queue] for queue in ends)
        while len(rows) < missing:
            found = await consumer.getmany(1_000, timeout_ms=10_000)
            assert found, f"{len(rows)} of {missing} messages of {topic}"
            rows += [(each.queue, each.offset, each.key, each.value, each.tag) for each in found]
    return sorted(rows)


def directory_target(path: Path) -> DirectoryTarget:
    return DirectoryTarget(path / "backups")
