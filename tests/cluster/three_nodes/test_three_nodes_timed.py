"""Messages with delivery times on three nodes: each is delivered once and not too early, although leaders are killed,
nodes start again, and the log start moves past the messages that wait.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from cluster.local.processes import DevCluster
from ledger.timed import DELIVER_AT, TimedHandle
from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.judging.violation import ViolationKind
from ledger.validation.validate import validate
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer, Message
from store import Checkpoint, PosixDisk, TimedIndex
from store.index.file_mark import marks_in
from tests.cluster.fleet import SEGMENT_BYTES, Fleet, MakeFleet
from tests.cluster.ports import free_base_port

pytestmark = pytest.mark.real

# Clocks of voters that a leader was told are behind by the time that the heartbeat's answer needs.
CLOCK_ERROR_MS = 1


def early_ms(message: Message) -> float:
    """Return by how many ms the message was appended to its queue before its delivery time."""
    return int(dict(message.headers)[DELIVER_AT]) - message.append_time_ms


async def received(bootstrap: str | list[str], topic: str, count: int) -> list[Message]:
    """Return the first `count` messages of the topic."""
    async with AsyncConsumer(topic, bootstrap_servers=bootstrap) as consumer:
        return [await anext(consumer) for _ in range(count)]


async def test_a_leader_is_killed_while_messages_become_due(tmp_path: Path) -> None:
    cluster = DevCluster(tmp_path)
    cluster.start(3, base_port=free_base_port(3))
    try:
        async with AsyncAdmin(cluster.bootstrap) as admin, AsyncProducer(cluster.bootstrap) as producer:
            await admin.create_topic("orders", 3)
            first = time.time() + 1.5
            sends = [
                producer.send("orders", b"%d" % number, queue=number % 3, delay=timedelta(seconds=1.5 + number / 200))
                for number in range(400)
            ]
            assert all(receipt.handle for receipt in await asyncio.gather(*sends))
            await asyncio.sleep(max(0.0, first + 0.7 - time.time()))
            victim = await asyncio.to_thread(cluster.leader)
            await asyncio.to_thread(cluster.kill, victim)
            messages = await received(cluster.bootstrap, "orders", 400)
            await asyncio.to_thread(cluster.restart, victim)
            await producer.send("orders", b"last", queue=0)
            messages += await received(cluster.bootstrap, "orders", 401)
    finally:
        cluster.purge()
    assert Counter(message.value for message in messages)[b"last"] == 1
    values = Counter(message.value for message in messages if message.value != b"last")
    assert set(values.values()) == {2}, "each reader got each message once"
    waited = [message for message in messages if message.value != b"last"]
    assert max(map(early_ms, waited)) <= CLOCK_ERROR_MS


async def fill(fleet: Fleet, segments: int) -> None:
    async with AsyncProducer(fleet.bootstrap) as producer:
        for _ in range(segments):
            await producer.send_many("other", [bytes(50_000)] * (SEGMENT_BYTES // 50_000))


async def test_messages_wait_on_while_the_log_start_moves_and_nodes_start_again(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(3)
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic("orders", 2)
    await fleet.create_topic("other")
    async with AsyncProducer(fleet.bootstrap) as producer, AsyncAdmin(fleet.bootstrap) as admin:
        due = time.time() + 6
        for queue in (0, 1):
            values = [b"%d-%d" % (queue, number) for number in range(100)]
            await producer.send_many("orders", values, queue=queue, delay=timedelta(seconds=6))
        await fill(fleet, 3)
        trimmed = await admin.trim_log(keep_bytes=SEGMENT_BYTES)
        assert trimmed.entries > 4, "the entries of the waiting messages are removed"
        await fleet.level()
        await fleet.stop(1, 2, 3)
        await fleet.start(1, 2, 3)
        await fleet.leader()
        messages = await received(fleet.bootstrap, "orders", 200)
        assert time.time() >= due
    assert Counter(Counter(message.value for message in messages).values()) == {1: 200}
    assert max(map(early_ms, messages)) <= CLOCK_ERROR_MS


async def leave_waiting(bootstrap: str) -> list[str]:
    """Send messages, cancel some, and let others be delivered. Return the handles of those that wait."""
    async with AsyncAdmin(bootstrap) as admin, AsyncProducer(bootstrap) as producer:
        await admin.create_topic("orders", 2)
        ranges = await producer.send_many("orders", [b"%d" % each for each in range(300)], delay=timedelta(hours=1))
        handles = [handle for one in ranges for handle in one.handles]
        assert all(await producer.cancel_many(handles[:100]))
        await producer.send_many("orders", [b"now"] * 50, queue=0, delay=timedelta(0))
        assert len(await received(bootstrap, "orders", 50)) == 50
    return handles[100:]


def lose(data: Path, message: TimedHandle) -> int:
    """Let the timed index of a stopped node lose a message. Return the index of its checkpoint."""
    (checkpoint,) = data.rglob("checkpoint")
    saved = Checkpoint.decode(checkpoint.read_bytes())
    index = TimedIndex(PosixDisk(), checkpoint.parent / "timed")
    assert index.adopt(marks_in("timed", saved.marks))
    assert index.cancel(message.identity, message.deliver_at_ms)
    marks = tuple(mark.inside("timed") for mark in index.write(index.draft()))
    others = tuple(mark for mark in saved.marks if not mark.name.startswith("timed/"))
    checkpoint.write_bytes(replace(saved, marks=(*others, *marks)).encode())
    index.close()
    return saved.index


def test_the_validation_notices_a_message_that_the_index_of_one_node_has_lost(tmp_path: Path) -> None:
    cluster = DevCluster(tmp_path)
    cluster.start(3, base_port=free_base_port(3))
    try:
        message = TimedHandle.parse(asyncio.run(leave_waiting(cluster.bootstrap))[50])
        cluster.stop()
        sources = [path.parent for path in sorted(tmp_path.rglob("identity.json"))]
        report = validate([*map(str, sources)], PlainEngine())
        assert (report.status, report.violations) == (0, ())
        index = lose(sources[0], message)
        (violation,) = validate([*map(str, sources)], PlainEngine()).violations
        assert (violation.kind, violation.shard) == (ViolationKind.UNIT_MISSING, 0)
        what = "the timed index lacks a message that waits after entry"
        assert violation.reason.startswith(f"{what} {index}: the waiting message {message.identity}, due at")
    finally:
        cluster.purge()
