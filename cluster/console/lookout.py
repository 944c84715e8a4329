"""Asks the cluster one question again and again while browsers look at the answer, once for all browsers of a user.

    browsers of one user ──> one lookout for each question ──> every `every_s`, or less often if an answer takes long

A lookout that nobody looks at ends after `LINGER_S`. It calls with the login of its user, so the nodes check the
rights. The watch of the whole cluster (watch.py) has a picture of all nodes instead, which several pages share.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from cluster.console.reading import bounded
from ledger.errors import LedgerError, UnavailableError

log = logging.getLogger("ledgermq.node.console")

T = TypeVar("T")

EVERY_S = 2.0
LINGER_S = 10.0
# A question without an answer after this time has failed in this turn.
ANSWER_S = 10.0
# The pause after an answer is at least so many times as long as the answer took.
PAUSE_RATIO = 4
MAX_LOOKOUTS = 64


class Lookout(Generic[T]):
    """One question, and its newest answer. `turn` counts the answers and the failures."""

    def __init__(self, ask: Callable[[], Awaitable[T]], every_s: float = EVERY_S) -> None:
        self.answer: T | None = None
        # Why the newest turn has no answer; empty if it has one.
        self.error = ""
        self.turn = 0
        self._ask = ask
        self._every_s = every_s
        self._news = asyncio.Condition()
        self._watchers = 0
        self._unwatched_s = time.monotonic()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        return not self._watchers and time.monotonic() - self._unwatched_s > LINGER_S

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Keep the lookout running."""
        self._watchers += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="lookout of the console")
        try:
            yield
        finally:
            self._watchers -= 1
            self._unwatched_s = time.monotonic()

    async def next(self, turn: int) -> int:
        """Return the number of the newest turn, when it is newer than `turn`."""
        async with self._news:
            await self._news.wait_for(lambda: self.turn > turn)
            return self.turn

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while not self.is_idle:
            began_s = time.monotonic()
            try:
                self.answer, self.error = await asked(self._ask()), ""
            except LedgerError as error:
                self.error = str(error)
            except Exception:
                log.exception("the console cannot ask the cluster, which is a defect of ledgermq; it tries again")
                self.error = "The console failed: the log of the node has the details."
            took_s = time.monotonic() - began_s
            async with self._news:
                self.turn += 1
                self._news.notify_all()
            await asyncio.sleep(max(self._every_s - took_s, took_s * PAUSE_RATIO))


class Lookouts:
    """The lookouts of one node: at most `MAX_LOOKOUTS`."""

    def __init__(self) -> None:
        self._lookouts: dict[Hashable, Lookout[Any]] = {}

    async def of(self, key: Hashable, ask: Callable[[], Awaitable[T]], every_s: float = EVERY_S) -> Lookout[T]:
        """Return the lookout with this key, which names the login and the question. Raises UnavailableError if too many
        questions are asked."""
        for other, lookout in list(self._lookouts.items()):
            if lookout.is_idle and other != key:
                self._lookouts.pop(other, None)  # another request may have removed it meanwhile
                await lookout.stop()
        if key not in self._lookouts:
            if len(self._lookouts) >= MAX_LOOKOUTS:
                raise UnavailableError(f"{MAX_LOOKOUTS} pages are open at this node already: close some, or wait.")
            self._lookouts[key] = Lookout(ask, every_s)
        return self._lookouts[key]

    async def close(self) -> None:
        for lookout in self._lookouts.values():
            await lookout.stop()
        self._lookouts.clear()


async def asked(answer: Awaitable[T]) -> T:
    """Return the answer. Raises UnavailableError if it takes longer than `ANSWER_S`."""
    async with bounded("The answer of the cluster", ANSWER_S):
        return await answer
