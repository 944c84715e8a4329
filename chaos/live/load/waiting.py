"""The part of the load that sends messages with delivery times, and cancels some of them.

    delivery times      past | in the next seconds | at moments that many messages share
    cancels             from the acknowledgement until shortly after the delivery time

The shared moments are multiples of `SHARED_MS` of the wall clock, so that a fault knows when many messages are due
(chaos/live/faults/due.py). The producer itself writes the history. Each value begins with random bytes, so that a
delivery can be found by its value, also if the producer never learned the identity of the message.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import datetime
from random import Random

from chaos.live.load.call_pace import CallPace, waited
from chaos.live.load.running import producer_of, running
from chaos.live.load.spec import LONGEST_DELAY_MS, SHARED_MS, ClientSpec
from cluster.load.seeded_payloads import mixed_payload
from ledger.client.producer.outgoing import OutgoingMessage
from ledger.client.producer.producer import AsyncProducer
from ledger.errors import LedgerError
from ledger.timed import moment

# The share of messages that are due at a shared moment, and the share whose delivery time has passed.
_SHARED, _PAST = 0.5, 0.1
# The share of acknowledged calls of which some messages are cancelled.
_CALLS_CANCELLED = 0.5
# A cancel begins at most so long after the delivery time.
_TOO_LATE_S = 0.2
_UNIQUE_BYTES = 16
# The messages of a call, and how many calls are in flight.
_MESSAGES, _IN_FLIGHT = 4, 16
_AGAIN_S = 0.2


async def send_waiting(spec: ClientSpec, process: int, random: Random, stop: asyncio.Event) -> None:
    """Run one producer of messages with delivery times until `stop`. Returns when every call has a result."""
    async with running(lambda: producer_of(spec, process, random), stop) as producer:
        load = _WaitingLoad(spec, producer, random, stop)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_IN_FLIGHT):
                tasks.create_task(load.send())


class _WaitingLoad:
    def __init__(self, spec: ClientSpec, producer: AsyncProducer, random: Random, stop: asyncio.Event) -> None:
        self._spec, self._producer, self._random, self._stop = spec, producer, random, stop
        self._pace = CallPace(_MESSAGES / (spec.rate * spec.timed), stop)

    async def send(self) -> None:
        """Make one call after another, until the load ends."""
        async with asyncio.TaskGroup() as cancels:
            while await self._pace.next_call():
                topic, queue = self._random.choice(self._spec.topics), self._random.randrange(self._spec.queues)
                messages = [self._message() for _ in range(self._random.randint(1, 2 * _MESSAGES - 1))]
                try:
                    ranges = await self._producer.send_many(topic, messages, queue=queue)
                except LedgerError:
                    await asyncio.sleep(_AGAIN_S)
                    continue
                if self._random.random() < _CALLS_CANCELLED:
                    sent = [pair for one in ranges for pair in zip(one.handles, one.deliver_at, strict=True)]
                    chosen = self._random.sample(sent, self._random.randint(1, len(sent)))
                    cancels.create_task(self._cancel(chosen))

    def _message(self) -> OutgoingMessage:
        value = self._random.randbytes(_UNIQUE_BYTES) + mixed_payload(self._random, self._spec.largest_bytes)
        return OutgoingMessage(value, deliver_at=moment(self._delivery_ms(_wall_ms())))

    def _delivery_ms(self, now_ms: int) -> int:
        chance = self._random.random()
        if chance < _PAST:
            return now_ms - self._random.randrange(60_000)
        later_ms = now_ms + self._random.randrange(LONGEST_DELAY_MS - SHARED_MS)
        return later_ms + -later_ms % SHARED_MS if chance < _PAST + _SHARED else later_ms

    async def _cancel(self, chosen: list[tuple[str, datetime]]) -> None:
        """Cancel these messages, given with their delivery times, until shortly after one of these times."""
        due_s = self._random.choice(chosen)[1].timestamp()
        most_s = max(0.0, due_s - _wall_ms() / 1000) + _TOO_LATE_S
        await waited(self._stop, self._random.uniform(0, most_s))
        if not self._stop.is_set():
            with suppress(LedgerError):
                await self._producer.cancel_many([handle for handle, _ in chosen])


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
