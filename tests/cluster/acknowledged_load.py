"""A load of messages whose acknowledgements are remembered, and the comparison of every replica with them.

The offsets of a queue have no gaps. Therefore a replica holds each acknowledged message exactly once and in order if,
from offset 0 to the end, it returns the values that were acknowledged for these offsets.
"""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType

from cluster.load.calls import ProducerCall, Receipt, make_calls
from cluster.load.reading import read_to_the_ends
from cluster.local.processes import DevCluster
from ledger.errors import LedgerError
from ledgermq import AsyncConsumer, AsyncProducer, RecordMetadata
from tests.cluster.waiter import eventually, until

_IN_FLIGHT = 15


class Load:
    """A few writers, each with a key of its own, which send while an `async with` block runs. When the block ends,
    every send has a result. A send that failed, a repeated offset, or messages out of order fail the test.
    """

    def __init__(
        self, bootstrap: str, topic: str, rng: random.Random, writers: int = 4, *, delivery_timeout_ms: int = 30_000
    ) -> None:
        # By queue and offset.
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.stopping = False
        self._producer = AsyncProducer(bootstrap, delivery_timeout_ms=delivery_timeout_ms)
        self._writers = [_Writer(self, topic, f"writer-{number}", rng) for number in range(writers)]
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Load:
        await self._producer.start()
        self._tasks = [
            asyncio.create_task(make_calls([self._producer], writer.next, writer, _IN_FLIGHT))
            for writer in self._writers
        ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopping = True
        if error is not None:  # sends under way may never get a result
            for task in self._tasks:
                task.cancel()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._producer.stop)
            await asyncio.gather(*self._tasks, return_exceptions=error is not None)

    async def more(self, messages: int) -> None:
        """Wait until this number of further messages is acknowledged."""
        goal = len(self.acknowledged) + messages
        await until(lambda: len(self.acknowledged) >= goal or self._died(), f"{messages} more are acknowledged")

    def _died(self) -> bool:
        return any(task.done() for task in self._tasks)


class _Writer:
    """The messages of one key: the source of their calls, and the record of their offsets."""

    def __init__(self, load: Load, topic: str, name: str, rng: random.Random) -> None:
        self._load, self._topic, self._name, self._rng = load, topic, name.encode(), rng
        self._sent = 0
        # The numbers of acknowledged messages in rising order, and their offsets.
        self._numbers: list[int] = []
        self._offsets: list[int] = []

    async def next(self) -> ProducerCall | None:
        """Implements `cluster.load.calls.CallSource`."""
        if self._load.stopping:
            return None
        number, self._sent = self._sent, self._sent + 1
        value = b"%s %d " % (self._name, number) + self._rng.randbytes(self._rng.randrange(1200))
        return ProducerCall("send-nowait", self._topic, [value], self._name, number=number)

    def record_acknowledged(self, call: ProducerCall, receipt: Receipt) -> None:
        assert isinstance(receipt, RecordMetadata)
        value = call.values[0]
        known = self._load.acknowledged.setdefault((receipt.queue, receipt.offset), value)
        assert known is value, "one offset given twice"
        at = bisect_left(self._numbers, call.number)
        self._numbers.insert(at, call.number)
        self._offsets.insert(at, receipt.offset)
        near = self._offsets[max(at - 1, 0) : at + 2]
        assert near == sorted(set(near)), "messages of one key out of order"

    def record_failed(self, call: ProducerCall, error: LedgerError) -> None:
        raise error


async def level(cluster: DevCluster) -> None:
    """Wait until all nodes have applied the same log to its end."""

    async def same() -> bool:
        states = await asyncio.to_thread(cluster.status)
        return len({(state.last_index, state.applied) for state in states}) == 1 and states[0].applied > 0

    await eventually(same, "all replicas are level")


async def assert_every_replica_holds(
    bootstrap: str, topic: str, acknowledged: dict[tuple[int, int], bytes], nodes: Sequence[int] = (1, 2, 3)
) -> None:
    """Read each queue of each node to its end, and check that the node returns exactly the acknowledged messages.

    A node that has not applied the last messages yet gets 10 s for each of them.
    """
    queues = sorted({queue for queue, _ in acknowledged})
    expected = {queue: [value for (of, _), value in sorted(acknowledged.items()) if of == queue] for queue in queues}
    assert all((queue, len(expected[queue]) - 1) in acknowledged for queue in queues), "acknowledged offsets are dense"
    for node in nodes:
        found = await _read(bootstrap, topic, node, {queue: len(values) for queue, values in expected.items()})
        for queue, values in found.items():
            wanted = expected.get(queue, [])
            assert len(values) == len(wanted), (
                f"node {node} has {len(values)} of {len(wanted)} messages in queue {queue}"
            )
            assert values == wanted, f"node {node} has other messages in queue {queue}"


async def _read(bootstrap: str, topic: str, node: int, counts: Mapping[int, int]) -> dict[int, list[bytes]]:
    """Read each queue from this node, at least so many messages and then to the end, and return its values. The offsets
    must count from 0."""
    async with AsyncConsumer(topic, bootstrap_servers=bootstrap, node=node) as consumer:
        ends = await consumer.end_offsets()
        found: dict[int, list[bytes]] = {queue: [] for _, queue in ends}

        async def poll() -> int:
            messages = await consumer.getmany(10_000, timeout_ms=10_000)
            for message in messages:
                assert message.offset == len(found[message.queue])
                found[message.queue].append(message.value)
            return len(messages)

        goals = {place: max(end, counts.get(place.queue, 0)) for place, end in ends.items()}
        await read_to_the_ends(consumer, goals, poll, silence_s=0)
    return found
