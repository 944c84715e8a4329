"""Producers under load: one awaits each send, one keeps many under way, one sends lists.

They go on whatever happens, at their rate; the producer itself writes the history (`history=`), so that nothing that
it was told is missing there. Every message is sent to a queue that is chosen: its order there is promised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

from chaos.live.load.running import running
from chaos.live.load.spec import Spec
from cluster.load.seeded_payloads import payload
from ledger.client.producer.producer import AsyncProducer
from ledger.errors import LedgerError

_MOST_PENDING = 500
_MANY = 40
_AGAIN_S = 0.2

Style = Callable[["Load"], Awaitable[None]]


class Load:
    """One producer, and what it has still to hear of."""

    def __init__(self, producer: AsyncProducer, spec: Spec, random: Random, rate: float) -> None:
        self.producer = producer
        self.spec = spec
        self.random = random
        self.rate = rate
        self.pending: set[asyncio.Future[object]] = set()

    def place(self) -> tuple[str, int]:
        return self.random.choice(self.spec.topics), self.random.randrange(self.spec.queues)

    def payload(self) -> bytes:
        return payload(self.random, self.spec.largest_bytes)

    def settled(self, future: asyncio.Future[object]) -> None:
        self.pending.discard(future)
        if not future.cancelled():
            future.exception()  # it stands in the history


async def awaited(load: Load) -> None:
    topic, queue = load.place()
    await load.producer.send(topic, load.payload(), queue=queue)


async def pipelined(load: Load) -> None:
    while len(load.pending) >= _MOST_PENDING:
        await asyncio.wait(load.pending, return_when=asyncio.FIRST_COMPLETED)
    topic, queue = load.place()
    future = load.producer.send_nowait(topic, load.payload(), key=load.random.randbytes(4), queue=queue)
    load.pending.add(future)  # type: ignore[arg-type]
    future.add_done_callback(load.settled)  # type: ignore[arg-type]


async def many(load: Load) -> None:
    topic, queue = load.place()
    values = [load.payload() for _ in range(_MANY)]
    await load.producer.send_many(topic, values, queue=queue)


# With the messages of one send, and its share of the rate.
STYLES: tuple[tuple[Style, int, float], ...] = ((awaited, 1, 0.1), (pipelined, 1, 0.6), (many, _MANY, 0.3))


async def produce(spec: Spec, stop: asyncio.Event) -> None:
    """Until `stop`; then all that was sent is settled."""
    async with asyncio.TaskGroup() as tasks:
        for number, (style, messages, share) in enumerate(STYLES):
            random = Random(f"{spec.seed} producer {number}")
            sends_per_s = spec.rate * share / messages
            tasks.create_task(_run(spec, spec.first_process + number, style, sends_per_s, random, stop))


async def _run(spec: Spec, process: int, style: Style, sends_per_s: float, random: Random, stop: asyncio.Event) -> None:
    def make() -> AsyncProducer:
        return AsyncProducer(
            list(spec.bootstrap),
            delivery_timeout_ms=spec.delivery_timeout_ms,
            history=Path(spec.history),
            history_process=process,
            rng=random,
        )

    async with running(make, stop) as producer:
        load, loop = Load(producer, spec, random, sends_per_s), asyncio.get_running_loop()
        due = loop.time()
        while not stop.is_set():
            try:
                await style(load)
            except LedgerError:
                await asyncio.sleep(_AGAIN_S)  # what came of it stands in the history
            due = max(due + 1 / sends_per_s, loop.time() - 1)  # what was missed for a second is made up for
            await _until(stop, due - loop.time())


async def _until(stop: asyncio.Event, seconds: float) -> None:
    """So many seconds, or less when it is to stop."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await stop.wait()
    except TimeoutError:
        return
