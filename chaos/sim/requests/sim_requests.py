"""The requesters and responders of a run, and the topics of their requests and replies. The fault `responder_ends` is
carried out here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

from chaos.sim.campaign.swarm import Options
from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.network import Network
from chaos.sim.engine.targets import chance_of
from chaos.sim.requests.request_truth import REPLIES, REQUESTS, RequestTruth
from chaos.sim.requests.requesting import RequestingProgram
from chaos.sim.requests.responding import RespondingProgram
from chaos.sim.stack.transaction_load import ProgramProcess
from chaos.sim.stack.workload import AGAIN_S, ClientProcess, Workload
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.connection.lifetime import within
from ledger.errors import LedgerError, TopicExistsError

OPERATOR, FIRST_REQUESTER, FIRST_RESPONDER = 1_000, 1_001, 1_100
MOST_RESPONDERS, MOST_QUEUES = 3, 3
# How long after a step of its handler a responder dies, in seconds.
DIES_AFTER_S = (0.0, 0.0, 0.02, 0.2)


class SimRequests:
    """The programs of one run. `process(number)` makes the process of a client."""

    def __init__(
        self,
        options: Options,
        loop: SimLoop,
        network: Network,
        workload: Workload,
        truth: RequestTruth,
        process: Callable[[int], ClientProcess],
        happened: Counter[str],
    ) -> None:
        self._options = options
        self._loop = loop
        self._network = network
        self._workload = workload
        self._truth = truth
        self._process = process
        self._happened = happened
        self._random = options.chance("requests")
        # The topics of requests and replies that exist.
        self._topics: list[str] = []
        self._numbers = count(FIRST_RESPONDER)
        self._requesters: list[RequestingProgram] = []
        # By the number of the program.
        self._responders: dict[int, RespondingProgram] = {}
        self._is_over = False
        truth.on_call, truth.on_answer = self._called, self._answered
        # What the next responder dies of, and for how long, in seconds.
        self._dies_at_call: float | None = None
        self._dies_at_answer: float | None = None

    def start(self) -> None:
        if not self._options.requesters:
            return
        self._workload.history.doom(b"")  # the value of a reply that tells an error
        _spawn(operator := self._process(OPERATOR), self._create(operator))
        for number in range(self._options.requesters):
            random = self._options.chance(f"requester {number}")
            program = RequestingProgram(self._workload, self._process(FIRST_REQUESTER + number), self._truth, random)
            self._requesters.append(program)
            _spawn(program.process, program.run(self._topics))
        for number in range(self._random.randint(1, MOST_RESPONDERS)):
            self._begin(number)

    def _begin(self, number: int) -> None:
        """Start a process for the responder with this number."""
        process = self._process(next(self._numbers))
        random = self._options.chance(f"responder {process.number}")
        program = self._responders[number] = RespondingProgram(number, self._workload, process, self._truth, random)
        _spawn(program.process, program.run(self._topics))

    async def _create(self, operator: ClientProcess) -> None:
        for name in (REQUESTS, REPLIES):
            queues = self._random.randint(1, MOST_QUEUES)
            while not await self._created(operator, name, queues):  # noqa: ASYNC110
                await asyncio.sleep(AGAIN_S)
            self._topics.append(name)

    async def _created(self, operator: ClientProcess, name: str, queues: int) -> bool:
        try:
            async with within(operator.environment, AsyncAdmin)(
                self._workload.bootstrap, request_timeout_ms=5_000, rng=self._random
            ) as admin:
                await admin.create_topic(name, queues)
        except TopicExistsError:
            return True
        except LedgerError:
            return False
        return True

    # -- faults

    def fire(self, event: FaultEvent) -> bool:
        """Prepare the end of a responder if the event is of this kind. It is counted when the responder dies."""
        if event.kind == "responder_ends":
            seconds = event.for_ms / 1000
            if chance_of(event).random() < 0.5:
                self._dies_at_call = seconds
            else:
                self._dies_at_answer = seconds
        return False

    def end(self) -> None:
        """End the faults."""
        self._is_over = True

    def _called(self, responder: int) -> None:
        if (seconds := self._dies_at_call) is not None:
            self._dies_at_call = None
            self._dies(responder, seconds)

    def _answered(self, responder: int) -> None:
        if (seconds := self._dies_at_answer) is not None:
            self._dies_at_answer = None
            self._dies(responder, seconds)

    def _dies(self, responder: int, seconds: float) -> None:
        self._loop.call_later(self._random.choice(DIES_AFTER_S), self._kill, self._responders[responder], seconds)

    def _kill(self, program: RespondingProgram, seconds: float) -> None:
        """End the process of a responder without a word to its group. Another process takes its place."""
        if self._is_over or program.process.life.over:
            return
        program.process.life.end()
        self._network.down(program.process.number)
        self._happened["responder_ends"] += 1
        number = next(number for number, each in self._responders.items() if each is program)
        self._loop.call_later(seconds, self._begin, number)

    # -- the end

    def unsettled(self) -> list[str]:
        """Return a phrase for each condition that must still be met before the run has ended."""
        waiting = [each.process.number for each in self._requesters if not each.done]
        return [*(f"requester {number} waits for an answer" for number in waiting), *self._truth.unsettled()]


def _spawn(process: ProgramProcess, work: Coroutine[Any, Any, None]) -> None:
    process.life.deliver(process.life.create_task, work)
