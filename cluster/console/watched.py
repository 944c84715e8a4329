"""Work that is done again and again while browsers look at its result, once for all browsers of a user.

    browsers of one user ──> one `Watched` ──> turn after turn ──> every browser is told of each turn

Without browsers, the work ends after `LINGER_S`, and the next browser begins it again. `WatchedByKey` keeps what is
watched on one node, and bounds its number.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from ledger.errors import LedgerError, UnavailableError

log = logging.getLogger("ledgermq.node.console")

LINGER_S = 10.0


class Watched(ABC):
    """`turn` counts the turns. `error` says why the newest turn has no result; empty if it has one."""

    def __init__(self) -> None:
        self.error = ""
        self.turn = 0
        self._news = asyncio.Condition()
        self._watchers = 0
        self._unwatched_s = time.monotonic()
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def take_turn(self) -> None:
        """Do the work once. Raises LedgerError if it cannot be done now."""

    @abstractmethod
    def pause_s(self, took_s: float) -> float:
        """Return the pause in seconds after a turn that took `took_s`."""

    @property
    def is_idle(self) -> bool:
        return not self._watchers and time.monotonic() - self._unwatched_s > LINGER_S

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Keep the work running."""
        self._watchers += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name=f"{type(self).__name__} of the console")
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
                await self.take_turn()
                self.error = ""
            except LedgerError as error:
                self.error = str(error)
            except Exception:
                log.exception("the console cannot ask the cluster, which is a defect of ledgermq; it tries again")
                self.error = "The console failed: the log of the node has the details."
            took_s = time.monotonic() - began_s
            async with self._news:
                self.turn += 1
                self._news.notify_all()
            await asyncio.sleep(self.pause_s(took_s))


W = TypeVar("W", bound=Watched)


class WatchedByKey(Generic[W]):
    """What is watched on one node, by login and question: at most `most`."""

    def __init__(self, most: int, refusal: str) -> None:
        """`refusal` is the error for the one beyond `most`."""
        self._most = most
        self._refusal = refusal
        self._found: dict[Hashable, W] = {}

    async def kept(self, key: Hashable, make: Callable[[], W]) -> W:
        """Return what is watched with this key; `make` makes it if there is none. Raises UnavailableError if there are
        too many."""
        for other, watched in list(self._found.items()):
            if watched.is_idle and other != key:
                self._found.pop(other, None)  # another request may have removed it meanwhile
                await watched.stop()
        if key not in self._found:
            if len(self._found) >= self._most:
                raise UnavailableError(self._refusal)
            self._found[key] = make()
        return self._found[key]

    async def close(self) -> None:
        for watched in self._found.values():
            await watched.stop()
        self._found.clear()
