"""Members of a shared group in a simulated cluster. They acknowledge most messages, give some up, extend some leases,
and hang with some. At the end of the load they acknowledge everything."""

from __future__ import annotations

import asyncio
from random import Random

from chaos.sim.stack.shared_filter import WHERE
from chaos.sim.stack.shared_truth import GROUP, MAX_ATTEMPTS, SharedTruth
from chaos.sim.stack.transaction_load import ProgramLoad, ProgramProcess
from chaos.sim.stack.window_truth import WindowTruth
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.connection.lifetime import within
from ledger.client.shared.shared_consumer import AsyncSharedConsumer
from ledger.client.shared.shared_message import SharedMessage
from ledger.errors import LedgerError

AGAIN_S = 0.5
# How many messages a member gives up, does not come back to, or needs more time for.
GIVES_UP, HANGS, EXTENDS = 0.1, 0.1, 0.1
# The clocks of some members run too slowly or too fast.
RATES = (1.0, 1.0, 0.9, 1.1)
LEASES_MS = (2_000, 6_000, 20_000)


class SharedProgram:
    """One member, which stops and starts again from time to time."""

    def __init__(
        self,
        load: ProgramLoad,
        process: ProgramProcess,
        truths: tuple[SharedTruth, WindowTruth],
        random: Random,
        *,
        creates_group: bool = True,
    ) -> None:
        """`truths` judge what the member is told. `creates_group` is False for a member that may not create the group,
        and waits for it."""
        self.process = process
        self._load = load
        self._truth, self._windows = truths
        self._random = random
        self._creates_group = creates_group
        # How fast the clock of the member runs.
        self._rate = random.choice(RATES)

    async def run(self) -> None:
        self.process.life.run_at_rate(self._rate)
        while not self._load.topics:  # noqa: ASYNC110
            await asyncio.sleep(AGAIN_S)
        while self._creates_group and not await self._created():  # noqa: ASYNC110
            await asyncio.sleep(AGAIN_S)
        while True:
            consumer = self._consumer()
            try:
                await consumer.start()
            except LedgerError:
                await asyncio.sleep(AGAIN_S)
                continue
            for _ in range(self._random.randint(5, 60)):
                await self._work(consumer)
            await consumer.stop()

    async def _created(self) -> bool:
        admin = within(self.process.environment, AsyncAdmin)(
            self._load.bootstrap, request_timeout_ms=5_000, rng=self._random
        )
        try:
            await admin.start()
            try:
                await admin.create_consumer_group(
                    GROUP, order="key" if self._truth.by_key else None, max_attempts=MAX_ATTEMPTS
                )
            finally:
                await admin.stop()
        except LedgerError:
            return False
        return True

    def _consumer(self) -> AsyncSharedConsumer[bytes]:
        random = self._random
        return within(self.process.environment, AsyncSharedConsumer)(
            *self._load.topics,
            group=GROUP,
            bootstrap_servers=self._load.bootstrap,
            where=WHERE if self._truth.filters else None,
            lease_ms=random.choice(LEASES_MS),
            request_timeout_ms=random.choice((2_000, 10_000)),
            rng=random,
        )

    async def _work(self, consumer: AsyncSharedConsumer[bytes]) -> None:
        random = self._random
        try:
            messages = await consumer.receive(random.choice((1, 4, 32)), max_wait_ms=random.choice((0, 500, 3_000)))
        except LedgerError:
            await asyncio.sleep(AGAIN_S)
            return
        self._truth.received(message.lease for message in messages)
        self._windows.received(messages, self.process.life.time())
        self._compare_beliefs(messages)
        if not self._load.busy:
            await self._acknowledge(consumer, messages)
            return
        await asyncio.sleep(random.choice((0.0, 0.05, random.expovariate(1))))
        finished: list[SharedMessage[bytes]] = []
        for message in messages:
            draw = random.random()
            if draw < GIVES_UP:
                await self._give_up(consumer, message)
            elif draw >= GIVES_UP + HANGS:
                finished.append(message)
        if finished and random.random() < EXTENDS:
            await self._extend(consumer, finished)
        await self._acknowledge(consumer, finished)

    async def _acknowledge(self, consumer: AsyncSharedConsumer[bytes], messages: list[SharedMessage[bytes]]) -> None:
        try:
            counted = await consumer.ack(messages)
        except LedgerError:
            return
        if counted == len(messages):
            self._truth.acknowledged(message.lease for message in messages)

    async def _give_up(self, consumer: AsyncSharedConsumer[bytes], message: SharedMessage[bytes]) -> None:
        try:
            await consumer.nack(message, delay_ms=self._random.choice((0, 300, 3_000)))
        except LedgerError:
            return

    async def _extend(self, consumer: AsyncSharedConsumer[bytes], messages: list[SharedMessage[bytes]]) -> None:
        try:
            await consumer.extend(messages, lease_ms=self._random.choice(LEASES_MS))
        except LedgerError:
            return
        finally:
            self._compare_beliefs(messages)
        await asyncio.sleep(self._random.uniform(0, 2))

    def _compare_beliefs(self, messages: list[SharedMessage[bytes]]) -> None:
        if self._rate == 1.0:
            self._windows.believed(messages, self.process.life.time())
