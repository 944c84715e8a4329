"""Writes messages, groups and users into a node, and tells what its own consumers read afterwards, as JSON.

    content.py ADDRESS LEVEL

`make.py` runs this file with an old program, so it uses only names that all versions of `ledgermq` have, and beyond
them what LEVEL brings.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from datetime import timedelta
from typing import Any

from ledgermq import AsyncAdmin, AsyncConsumer, AsyncGroupConsumer, AsyncProducer
from ledgermq.errors import LedgerError

# One byte, repeated: a segment of it is a few hundred bytes in the archive.
_FILLER = b"x" * 60_000
_FILLERS = 24
_MESSAGES = 40
_SINCE_MS = 1_700_000_000_000


async def wait_for_the_administrator(address: str, **who: Any) -> None:
    """Wait until the node knows the administrator. Level 2 told that it was ready a moment before."""
    for _ in range(100):
        try:
            async with AsyncAdmin(address, **who) as admin:
                await admin.list_topics()
            return
        except LedgerError:
            await asyncio.sleep(0.1)


async def write(address: str, level: int, **who: Any) -> None:
    """Write what a shard of this feature level can have."""
    async with AsyncAdmin(address, **who) as admin, AsyncProducer(address, **who) as producer:
        for topic, queues in (("orders", 2), ("filler", 1), ("gone", 1)):
            await admin.create_topic(topic, queues)
        await producer.send("gone", b"deleted with its topic")
        await admin.delete_topic("gone")
        for number in range(_FILLERS):  # so many that the log start can move
            await producer.send("filler", _FILLER, timestamp_ms=_SINCE_MS + number)
        await admin.trim_log(keep_bytes=0)
        for number in range(_MESSAGES):
            await producer.send(
                "orders",
                b"order %d" % number,
                key=f"customer-{number % 7}",
                tag="paid" if number % 3 else None,
                headers={"number": b"%d" % number},
                timestamp_ms=_SINCE_MS + number,
            )
        await admin.alter_topic("orders", 3)
        for number in range(3):
            await producer.send("orders", b"to queue 2", queue=2, timestamp_ms=_SINCE_MS + number)
        await admin.hold_log("archive", ttl_ms=40 * 86_400_000)
        await _consume(address, who)
        if level >= 2:
            await admin.add_user("billing", "correct horse battery staple")
            await admin.grant("billing", "subscribe", "topic:orders")
            await admin.grant("billing", "subscribe", "topic:secret-*", deny=True)
        if level >= 3:
            await producer.send("orders", b"next month", queue=0, delay=timedelta(days=39))
            canceled = await producer.send("orders", b"never", queue=0, delay=timedelta(days=38))
            await producer.cancel(canceled.handle)
        if level >= 4:
            await _transactions(producer)
            await admin.create_consumer_group("couriers", mode="shared")
            await _shared_group(address, who)
            await producer.send("orders", b"found by two keys", queue=2, look_up_keys=["a-1", "b-2"])
        if level >= 5:
            await admin.create_topic("steps", 1, type="fifo")
            for _ in range(2):
                await producer.send("orders", b"sent twice, stored once", queue=2, message_id="order-4711")


async def _consume(address: str, who: dict[str, Any]) -> None:
    """Read a part of a topic in a consumer group, and acknowledge it."""
    async with AsyncGroupConsumer("orders", group="billing", bootstrap_servers=address, **who) as consumer:
        taken = 0
        while taken < 25:
            taken += len(await consumer.getmany(25 - taken, timeout_ms=1000))
            await consumer.acknowledge()


async def _transactions(producer: Any) -> None:
    async def unknown(*_: object) -> None:
        """Leave the transaction open."""

    async with producer.transaction("orders", group="checkout", checker=unknown) as committed:
        await committed.send(b"of a transaction", queue=2)
    waiting = producer.transaction("orders", group="checkout", checker=unknown)
    await waiting.__aenter__()
    await waiting.send(b"of an open transaction", queue=2)


async def _shared_group(address: str, who: dict[str, Any]) -> None:
    from ledgermq import AsyncSharedConsumer

    async with AsyncSharedConsumer("orders", group="couriers", bootstrap_servers=address, **who) as consumer:
        taken = await consumer.receive(5, lease_ms=600_000)
        await consumer.ack(taken[:3])


async def read(address: str, **who: Any) -> dict[str, Any]:
    """Return what a consumer reads, and what the node tells about topics and groups."""
    found: dict[str, Any] = {"messages": {}}
    async with AsyncAdmin(address, **who) as admin:
        found["topics"] = sorted([topic.name, topic.queues] for topic in await admin.list_topics())
        described = await admin.describe_consumer_group("billing")
        found["billing"] = sorted([each.topic, each.queue, each.offset] for each in described.queues)
        found["holds"] = sorted(hold.name for hold in await admin.log_holds())
    for topic in ("orders", "filler"):
        async with AsyncConsumer(topic, bootstrap_servers=address, **who) as consumer:
            begins, ends = await consumer.beginning_offsets(), await consumer.end_offsets()
            wanted = sum(ends[place] - begins[place] for place in ends)
            messages: list[Any] = []
            while len(messages) < wanted:
                messages += await consumer.getmany(wanted - len(messages), timeout_ms=1000)
        found["messages"][topic] = sorted(map(_told, messages))
    return found


def _told(message: Any) -> list[Any]:
    key = message.key.decode() if message.key is not None else None
    value = hashlib.sha256(message.value).hexdigest()[:16]
    return [
        message.queue,
        message.offset,
        key,
        message.tag,
        message.timestamp_ms,
        value,
        sorted(map(str, message.headers)),
    ]


if __name__ == "__main__":
    _address, _level, *_password = sys.argv[1:]
    _who = {"user": "admin", "password_file": _password[0]} if _password else {}
    asyncio.run(wait_for_the_administrator(_address, **_who))
    asyncio.run(write(_address, int(_level), **_who))
    print(json.dumps(asyncio.run(read(_address, **_who))))
