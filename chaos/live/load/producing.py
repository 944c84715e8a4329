"""A chaos run has three producers: the first awaits each send, the second keeps many sends in flight, and the third
sends lists. A fourth one sends messages with delivery times (waiting.py), and a fifth one sends transactions
(transacting.py), and a sixth one messages for shared groups (sharing.py).

During faults, the producers continue to send at their rate. `AsyncProducer` itself writes the history (`history=`), so
the history contains every answer that the producer got. The load chooses the queue of every message, so the order
within the queue is promised.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random

from chaos.live.load.call_pace import CallPace
from chaos.live.load.running import producer_of, running
from chaos.live.load.sharing import send_jobs
from chaos.live.load.spec import ClientSpec
from chaos.live.load.transacting import send_transactions
from chaos.live.load.waiting import send_waiting
from cluster.load.calls import ProducerCall, Receipt, Way, make_calls
from cluster.load.seeded_payloads import mixed_payload
from ledger.errors import LedgerError

_AGAIN_S = 0.2


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
        if spec.timed:
            random = Random(f"{spec.seed} waiting messages")
            tasks.create_task(send_waiting(spec, spec.first_process + len(STYLES), random, stop))
        if spec.transactions:
            random = Random(f"{spec.seed} transactions")
            tasks.create_task(send_transactions(spec, spec.first_process + len(STYLES) + 1, random, stop))
        if spec.shared:
            random = Random(f"{spec.seed} messages for shared groups")
            tasks.create_task(send_jobs(spec, spec.first_process + len(STYLES) + 2, random, stop))


async def _run(spec: ClientSpec, process: int, style: SendStyle, random: Random, stop: asyncio.Event) -> None:
    async with running(lambda: producer_of(spec, process, random), stop) as producer:
        source, history = _RandomCalls(spec, style, random, stop), _InTheHistory()
        await make_calls([producer], source.next, history, style.in_flight, pause_after_failure_s=_AGAIN_S)


class _RandomCalls:
    """Yields the calls of one producer: to random queues, at the rate of the producer's style, until `stop`."""

    def __init__(self, spec: ClientSpec, style: SendStyle, random: Random, stop: asyncio.Event) -> None:
        self._spec, self._style, self._random = spec, style, random
        self._pace = CallPace(style.messages / (spec.plain_rate * style.share), stop)

    async def next(self) -> ProducerCall | None:
        """Implements `cluster.load.calls.CallSource`."""
        return self._call() if await self._pace.next_call() else None

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
