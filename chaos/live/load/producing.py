"""A chaos run has three producers: the first awaits each send, the second keeps many sends in flight, and the third
sends lists.

During faults, the producers continue to send at their rate. `AsyncProducer` itself writes the history (`history=`), so
the history contains every answer that the producer got. The load chooses the queue of every message, so the order
within the queue is promised.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from random import Random

from chaos.live.load.running import running
from chaos.live.load.spec import ClientSpec
from cluster.load.calls import ProducerCall, Receipt, Way, make_calls
from cluster.load.seeded_payloads import mixed_payload
from ledger.client.producer.producer import AsyncProducer
from ledger.errors import LedgerError

_AGAIN_S = 0.2
# A producer that falls behind its rate makes up for at most one second.
_MAKES_UP_S = 1.0


@dataclass(frozen=True, slots=True)
class SendStyle:
    """Describes how one producer sends: the call, its messages, how many calls are in flight, and its share of the
    rate.
    """

    way: Way
    messages: int
    in_flight: int
    share: float


STYLES = (SendStyle("send", 1, 1, 0.1), SendStyle("send-nowait", 1, 500, 0.6), SendStyle("send-many", 40, 1, 0.3))


async def produce(spec: ClientSpec, stop: asyncio.Event) -> None:
    """Run one producer of each style (each way to send) until `stop`. Returns when every send has a result."""
    async with asyncio.TaskGroup() as tasks:
        for number, style in enumerate(STYLES):
            random = Random(f"{spec.seed} producer {number}")
            tasks.create_task(_run(spec, spec.first_process + number, style, random, stop))


async def _run(spec: ClientSpec, process: int, style: SendStyle, random: Random, stop: asyncio.Event) -> None:
    def make() -> AsyncProducer:
        return AsyncProducer(
            list(spec.bootstrap),
            delivery_timeout_ms=spec.delivery_timeout_ms,
            history=Path(spec.history),
            history_process=process,
            rng=random,
        )

    async with running(make, stop) as producer:
        source, history = _RandomCalls(spec, style, random, stop), _InTheHistory()
        await make_calls([producer], source.next, history, style.in_flight, pause_after_failure_s=_AGAIN_S)


class _RandomCalls:
    """Yields the calls of one producer: to random queues, at the rate of the producer's style, until `stop`."""

    def __init__(self, spec: ClientSpec, style: SendStyle, random: Random, stop: asyncio.Event) -> None:
        self._spec, self._style, self._random, self._stop = spec, style, random, stop
        self._interval_s = style.messages / (spec.rate * style.share)
        self._due = asyncio.get_running_loop().time()
        self._turn = asyncio.Lock()

    async def next(self) -> ProducerCall | None:
        """Implements `cluster.load.calls.CallSource`."""
        async with self._turn:
            loop = asyncio.get_running_loop()
            await _wait(self._stop, self._due - loop.time())
            if self._stop.is_set():
                return None
            self._due = max(self._due + self._interval_s, loop.time() - _MAKES_UP_S)
            return self._call()

    def _call(self) -> ProducerCall:
        spec, style, random = self._spec, self._style, self._random
        topic, queue = random.choice(spec.topics), random.randrange(spec.queues)
        values = [mixed_payload(random, spec.largest_bytes) for _ in range(style.messages)]
        key = random.randbytes(4) if style.way == "send-nowait" else None
        return ProducerCall(style.way, topic, values, key, queue=queue)


class _InTheHistory:
    """A recorder that records nothing, because the producer itself writes each result into the history."""

    def record_acknowledged(self, call: ProducerCall, receipt: Receipt) -> None: ...

    def record_failed(self, call: ProducerCall, error: LedgerError) -> None: ...


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    """Wait the given number of seconds, or until `stop` is set."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await stop.wait()
    except TimeoutError:
        return
