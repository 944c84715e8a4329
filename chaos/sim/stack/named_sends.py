"""Sends messages with ids, and some of them again: later, or while the first send is under way.

Another producer sends a message again, as a program does that was started anew, or a front of another node. So only the
id shows that it is the same message. Other messages share both batches of the message, so that it is not the first of
its batch, and a batch has known and new ids. The history knows one message for all its sends: it must be in the log
once, and each result must name its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

from chaos.sim.stack.workload_history import NO_ORDER, LoadHistory, MessagePlace, SentMessage
from ledger.client.producer.producer import AsyncProducer
from ledger.errors import LedgerError

# How often a message is sent again, how often of these at once, and otherwise within which time.
SENT_AGAIN = 0.5
AT_ONCE = 0.3
AGAIN_WITHIN_S = 20.0
# With these faults, a message that is sent again can be stored again: its id is too old by the clock of the shard, or
# its topic is another one.
FORGETTING = ("clock_jump", "clock_leap", "clocks_leap_under_leases", "isolate_with_client", "target_deleted")


@dataclass(frozen=True, slots=True)
class SendWithId:
    sent: SentMessage
    topic: str
    key: bytes | None
    # Otherwise producers with different selectors, or with more queues, would choose different queues.
    queue: int
    value: bytes


class NamedSends:
    """The messages with ids of one producer process. `started` makes another producer of the process."""

    def __init__(
        self,
        process: int,
        queues: int,
        random: Random,
        history: LoadHistory,
        started: Callable[[], Awaitable[AsyncProducer]],
        surely_failed: Callable[[LedgerError], bool],
    ) -> None:
        self._process, self._queues, self._random = process, queues, random
        self._history, self._started, self._surely_failed = history, started, surely_failed

    async def send(self, producer: AsyncProducer, topic: str) -> None:
        """Send a message until it has a result. If it is sent again, send others with it."""
        random = self._random
        key = b"%d" % random.randrange(8) if random.random() < 0.5 else None
        queue = random.randrange(self._queues)
        message = self._message(topic, key, queue)
        if random.random() >= SENT_AGAIN:
            self._settle(message, await self._result(producer, message))
            return
        before, new = self._message(topic, key, queue), self._message(topic, key, queue)
        other = await self._started()
        first = asyncio.gather(self._result(producer, before), self._result(producer, message))
        if random.random() >= AT_ONCE:
            await first
            await asyncio.sleep(random.uniform(0, AGAIN_WITHIN_S) if random.random() < 0.5 else 0)
        again, result = await asyncio.gather(self._result(other, message), self._result(other, new))
        result_before, result_of_first = await first
        self._settle(before, result_before)
        self._settle(message, result_of_first, again)
        self._settle(new, result)
        await other.stop()

    def _message(self, topic: str, key: bytes | None, queue: int) -> SendWithId:
        sent = self._history.send(self._process, topic, NO_ORDER)
        value = sent.name + b":" + bytes(self._random.choice((0, 10, 100, 700)))
        return SendWithId(sent, topic, key, queue, value)

    async def _result(self, producer: AsyncProducer, message: SendWithId) -> MessagePlace | LedgerError:
        try:
            receipt = await producer.send(
                message.topic, message.value, key=message.key, queue=message.queue, message_id=message.sent.name
            )
        except LedgerError as error:
            return error
        return MessagePlace(message.topic, receipt.queue, receipt.offset)

    def _settle(self, message: SendWithId, *results: MessagePlace | LedgerError) -> None:
        sent = message.sent
        places = [each for each in results if isinstance(each, MessagePlace)]
        if places:
            self._history.acknowledged(sent, *places)
        elif all(isinstance(each, LedgerError) and self._surely_failed(each) for each in results):
            self._history.failed(sent)
        else:
            self._history.unknown(sent)
