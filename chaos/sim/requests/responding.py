"""A program in a simulated cluster that answers requests. Its handler answers most requests, fails for some, takes too
long for some, and answers some with more bytes than a message may have.

The program stops its responder in order from time to time, and starts another one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from random import Random

from chaos.sim.requests.request_truth import REPLIES, REQUESTS, RequestTruth
from chaos.sim.stack.transaction_load import ProgramLoad, ProgramProcess
from chaos.sim.stack.workload_history import name_of
from ledger.client.connection.lifetime import within
from ledger.client.records import Message
from ledger.client.requests.responder import AsyncResponder
from ledger.errors import LedgerError

GROUP = "responders"
AGAIN_S = 0.5
# What a handler does for a request: the first three in so many of all calls.
FAILS, HANGS, ANSWERS_TOO_MUCH = 0.05, 0.03, 0.03
# More than a message may have (stack_world.py).
TOO_MUCH_BYTES = 20_000
# How long a responder lives, and how long its end waits for running calls, in seconds.
LIFE_S, STOP_S = (10.0, 60.0), 5.0


class CannotAnswer(Exception):  # noqa: N818 (a user's own)
    """Raised by a handler that fails for a request as planned."""


def _is_news(record: logging.LogRecord) -> bool:
    """Return False if the log record reports a planned failure of a handler, otherwise True."""
    return record.exc_info is None or not isinstance(record.exc_info[1], CannotAnswer)


logging.getLogger("ledgermq.client.responder").addFilter(_is_news)


class RespondingProgram:
    """One process with one responder after the other. `number` is the number of the program; the process of a program
    that died is another one."""

    def __init__(
        self, number: int, load: ProgramLoad, process: ProgramProcess, truth: RequestTruth, random: Random
    ) -> None:
        self.process = process
        self._number = number
        self._load = load
        self._truth = truth
        self._random = random

    async def run(self, topics: Sequence[str]) -> None:
        """Answer requests when there are topics. `topics` has the topics of requests and replies that exist."""
        while len(topics) < 2:  # noqa: ASYNC110
            await asyncio.sleep(AGAIN_S)
        while True:
            responder = self._made()
            try:
                await responder.start()
            except LedgerError:
                await asyncio.sleep(AGAIN_S)
                continue
            await asyncio.sleep(self._random.uniform(*LIFE_S))
            await responder.stop(STOP_S)

    def _made(self) -> AsyncResponder:
        random = self._random
        return within(self.process.environment, AsyncResponder)(
            REQUESTS,
            group=GROUP,
            handler=self._handle,
            bootstrap_servers=self._load.bootstrap,
            reply_topics=REPLIES,
            handler_timeout_ms=random.choice((1_000, 5_000)),
            concurrency=random.choice((1, 5, 20)),
            session_timeout_ms=random.choice((1_500, 3_000, 6_000)),
            client_id=f"responder-{self.process.number}",
            request_timeout_ms=5_000,
            rng=random,
        )

    async def _handle(self, request: Message) -> bytes:
        random, truth, value = self._random, self._truth, request.value
        call = truth.handles(self._number, value)
        await asyncio.sleep(random.choice((0.0, 0.005, random.uniform(0, 0.5))))
        draw = random.random()
        if draw < FAILS:
            why = f"{name_of(value)!r} cannot be answered in call {call}"
            truth.errs(self._number, value, why)
            raise CannotAnswer(why)
        if draw < FAILS + HANGS:
            truth.errs(self._number, value, "the handler took longer than")
            await asyncio.sleep(10.0)
        if draw >= 1 - ANSWERS_TOO_MUCH:
            truth.errs(self._number, value, "the reply cannot be sent")
            return bytes(TOO_MUCH_BYTES)
        answer = truth.answers(self._number, value, call, bytes(random.choice((0, 10, 700))))
        self._load.history.doom(name_of(answer))
        return answer
