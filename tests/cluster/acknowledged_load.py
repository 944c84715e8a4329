"""A load of messages whose acknowledgements are remembered, and the comparison of every replica with them.

A queue's offsets are dense, so "each acknowledged message exactly once, in order, and nothing else" is that every
replica gives, from offset 0 to its end, the very list of values that were acknowledged for these offsets.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import count
from types import TracebackType

from cluster.local.processes import DevCluster
from ledgermq import AsyncConsumer, AsyncProducer, RecordMetadata
from tests.cluster.waiter import eventually, until

_IN_FLIGHT = 15


class Load:
    """Runs in an `async with` block: a few writers, each with a key of its own. At its end all that was sent is
    settled; a send that failed fails the test."""

    def __init__(
        self, bootstrap: str, topic: str, rng: random.Random, writers: int = 4, *, delivery_timeout_ms: int = 30_000
    ) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        """By queue and offset."""
        self._topic = topic
        self._rng = rng
        self._producer = AsyncProducer(bootstrap, delivery_timeout_ms=delivery_timeout_ms)
        self._names = [f"writer-{number}" for number in range(writers)]
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Load:
        await self._producer.start()
        self._tasks = [asyncio.create_task(self._write(name)) for name in self._names]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping = True
        if error is not None:  # what is under way may never be settled then
            for task in self._tasks:
                task.cancel()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._producer.stop)
            await asyncio.gather(*self._tasks, return_exceptions=error is not None)

    async def more(self, messages: int) -> None:
        """Waits until so many more are acknowledged."""
        goal = len(self.acknowledged) + messages
        await until(lambda: len(self.acknowledged) >= goal or self._died(), f"{messages} more are acknowledged")

    async def _write(self, name: str) -> None:
        in_flight: deque[tuple[bytes, asyncio.Future[RecordMetadata]]] = deque()
        last = -1
        for number in count():
            if len(in_flight) == _IN_FLIGHT or self._stopping:
                if not in_flight:
                    return
                value, future = in_flight.popleft()
                sent = await future
                assert self.acknowledged.setdefault((sent.queue, sent.offset), value) is value, "one offset given twice"
                assert sent.offset > last, "messages of one key out of order"
                last = sent.offset
            if not self._stopping:
                value = b"%s %d " % (name.encode(), number) + self._rng.randbytes(self._rng.randrange(1200))
                in_flight.append((value, self._producer.send_nowait(self._topic, value, key=name)))

    def _died(self) -> bool:
        return any(task.done() for task in self._tasks)


async def level(cluster: DevCluster) -> None:
    """Waits until all nodes have applied the same log to its end."""

    async def same() -> bool:
        states = await asyncio.to_thread(cluster.status)
        return len({(state.last_index, state.applied) for state in states}) == 1 and states[0].applied > 0

    await eventually(same, "all replicas are level")


async def assert_every_replica_holds(
    bootstrap: str, topic: str, acknowledged: dict[tuple[int, int], bytes], nodes: Sequence[int] = (1, 2, 3)
) -> None:
    """That each node gives exactly these messages, when each of its queues is read to its end."""
    queues = sorted({queue for queue, _ in acknowledged})
    expected = {queue: [value for (of, _), value in sorted(acknowledged.items()) if of == queue] for queue in queues}
    assert all((queue, len(expected[queue]) - 1) in acknowledged for queue in queues), "acknowledged offsets are dense"
    for node in nodes:
        found = await read_to_the_end(bootstrap, topic, node)
        assert {queue: values for queue, values in found.items() if values} == expected, f"node {node} differs"


async def read_to_the_end(bootstrap: str, topic: str, node: int) -> dict[int, list[bytes]]:
    """All values of each queue as this node has them; their offsets must count from 0."""
    async with AsyncConsumer(topic, bootstrap_servers=bootstrap, node=node) as consumer:
        ends = await consumer.end_offsets()
        found: dict[int, list[bytes]] = {queue: [] for _, queue in ends}
        while any(len(found[queue]) < end for (_, queue), end in ends.items()):
            messages = await consumer.getmany(10_000, timeout_ms=10_000)
            assert messages, f"node {node} gives nothing more before its end"
            for message in messages:
                assert message.offset == len(found[message.queue])
                found[message.queue].append(message.value)
    return found
