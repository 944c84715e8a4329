"""A program in a simulated cluster that sends requests and waits for their replies.

At the end of the load, it sends requests until one is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from chaos.sim.requests.request_truth import REPLIES, REQUESTS, RequestTruth
from chaos.sim.stack.transaction_load import ProgramLoad, ProgramProcess
from chaos.sim.stack.workload_history import name_of
from ledger.client.connection.lifetime import within
from ledger.client.requests.requester import AsyncRequester
from ledger.errors import LedgerError, ResponderFailedError

AGAIN_S = 0.5
# The mean time between two requests, in seconds, and how many may be open.
PAUSE_S, MOST_OPEN = 0.5, 20
TIMEOUTS_MS = (300, 2_000, 10_000, 30_000)
# At the end, a request waits so long for its reply, in ms.
LAST_TIMEOUT_MS = 10_000
# After so many requests the requester is closed, and another one is made.
REQUESTS_OF_ONE = (10, 80)


class RequestingProgram:
    """One requester, from the creation of the topics to its last answer."""

    def __init__(self, load: ProgramLoad, process: ProgramProcess, truth: RequestTruth, random: Random) -> None:
        self.process = process
        # True when the load is over and a request was answered after it.
        self.done = False
        self._load = load
        self._truth = truth
        self._random = random

    async def run(self, topics: Sequence[str]) -> None:
        """Send requests when there are topics. `topics` has the topics of requests and replies that exist."""
        while len(topics) < 2:  # noqa: ASYNC110
            await asyncio.sleep(AGAIN_S)
        while self._load.busy:
            await self._ask_often(await self._started())
        requester = await self._started()
        while not await self._ask(requester, LAST_TIMEOUT_MS):  # noqa: ASYNC110
            await asyncio.sleep(AGAIN_S)
        await requester.stop()
        self.done = True

    async def _ask_often(self, requester: AsyncRequester) -> None:
        """Send requests, and close the requester while some of them may be open."""
        random, asking = self._random, list[asyncio.Task[bool]]()
        for _ in range(random.randint(*REQUESTS_OF_ONE)):
            asking = [task for task in asking if not task.done()]
            if len(asking) < MOST_OPEN:
                asking.append(self.process.life.create_task(self._ask(requester, random.choice(TIMEOUTS_MS))))
            await asyncio.sleep(random.expovariate(1 / PAUSE_S))
            if not self._load.busy:
                break
        await requester.stop()
        await asyncio.gather(*asking)

    async def _started(self) -> AsyncRequester:
        while True:
            requester = within(self.process.environment, AsyncRequester)(
                self._load.bootstrap,
                reply_topic=REPLIES,
                client_id=f"requester-{self.process.number}",
                request_timeout_ms=self._random.choice((1_000, 5_000)),
                rng=self._random,
            )
            try:
                await requester.start()
            except LedgerError:
                await asyncio.sleep(AGAIN_S)
            else:
                return requester

    async def _ask(self, requester: AsyncRequester, timeout_ms: int) -> bool:
        """Send one request. Return True if it was answered, also if its handler failed."""
        random, truth = self._random, self._truth
        value = truth.asks(self.process.number, bytes(random.choice((0, 10, 700))), timeout_ms / 1000)
        self._load.history.doom(name_of(value))
        key = b"%d" % random.randrange(8) if random.random() < 0.5 else None
        try:
            reply = await requester.request(REQUESTS, value, key=key, timeout_ms=timeout_ms)
        except ResponderFailedError as error:
            truth.failed(value, str(error))
        except LedgerError:
            truth.gave_up(value)
            return False
        else:
            truth.replied(value, reply.value)
        return True
