"""The fault `target_deleted`: a topic is deleted while messages wait for their delivery to it.

    create "doomed1" ─> send messages that are due soon ─> delete "doomed1" ─> their time comes

Each shard settles these messages without delivery, but only after it has deleted the topic. The load does not know the
topic. A message that is due before the deletion is delivered, and nobody reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedFault, DirectedTools
from chaos.sim.stack.node import StackNode
from chaos.sim.stack.workload_history import DOOMED
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.connection.lifetime import within
from ledger.client.producer.outgoing import OutgoingMessage
from ledger.client.producer.producer import AsyncProducer
from ledger.errors import LedgerError, TopicExistsError, UnknownTopicError
from ledger.timed import moment

QUEUES, MESSAGES = 3, 12
# Messages are due at most so long after they are sent, and the topic is deleted at most so long after them, in s.
DUE_S, LATER_S = 8.0, 4.0
# The client tries again after this time, in s, and gives up after so many attempts.
AGAIN_S, ATTEMPTS = 0.5, 100


class TargetDeleted(DirectedFault):
    kind = "target_deleted"

    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        self._topics = 0
        self._over = False

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        self._topics += 1
        life = self.tools.operator.process.life
        work = self._delete(f"{DOOMED}{self._topics}", chance_of(event))
        life.deliver(life.create_task, work)
        return False  # counted when the topic is deleted

    def heal(self) -> None:
        self._over = True

    async def _delete(self, topic: str, random: Random) -> None:
        environment, bootstrap = self.tools.operator.process.environment, self.tools.workload.bootstrap
        admin = within(environment, AsyncAdmin)(bootstrap, request_timeout_ms=5_000, rng=random)
        producer = within(environment, AsyncProducer)(bootstrap, delivery_timeout_ms=5_000, rng=random)
        if not await self._insist(admin.start) or not await self._insist(producer.start):
            return
        if await self._insist(lambda: admin.create_topic(topic, QUEUES)):
            await self._insist(lambda: self._send(producer, topic, random, environment.now_ms()))
            await asyncio.sleep(random.uniform(0, LATER_S))
            self.tools.happened[self.kind] += await self._insist(lambda: admin.delete_topic(topic))
        await producer.stop()
        await admin.stop()

    async def _send(self, producer: AsyncProducer, topic: str, random: Random, now_ms: int) -> None:
        """Send messages that the load does not know, to all queues of the topic."""
        messages = []
        for number in range(MESSAGES):
            name = b"%s.%d.%d" % (topic.encode(), random.getrandbits(32), number)
            self.tools.workload.history.doom(name)
            due = moment(now_ms) + timedelta(seconds=random.uniform(0, DUE_S))
            messages.append(OutgoingMessage(name + b":", queue=number % QUEUES, deliver_at=due))
        await producer.send_many(topic, messages)

    async def _insist(self, act: Callable[[], Awaitable[object]]) -> bool:
        """Try until it succeeds. Return False if it never does. A topic that exists or is gone already is a success."""
        for _ in range(ATTEMPTS):
            try:
                await act()
            except (TopicExistsError, UnknownTopicError):
                return True
            except LedgerError:
                if self._over:
                    return False
                await asyncio.sleep(AGAIN_S)
            else:
                return True
        return False
