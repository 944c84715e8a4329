"""Asks the cluster one question again and again while browsers look at the answer.

    browsers of one user ──> one lookout for each question ──> every `every_s`, or less often if an answer takes long

A lookout calls with the login of its user, so the nodes check the rights. The watch of the whole cluster (watch.py) has
a picture of all nodes instead, which several pages share.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar

from cluster.console.reading import bounded
from cluster.console.watched import Watched, WatchedByKey

T = TypeVar("T")

EVERY_S = 2.0
# A question without an answer after this time has failed in this turn.
ANSWER_S = 10.0
# The pause after an answer is at least so many times as long as the answer took.
PAUSE_RATIO = 4
MAX_LOOKOUTS = 64


class Lookout(Watched, Generic[T]):
    """One question, and its newest answer."""

    def __init__(self, ask: Callable[[], Awaitable[T]], every_s: float = EVERY_S) -> None:
        super().__init__()
        self.answer: T | None = None
        self._ask = ask
        self._every_s = every_s

    async def take_turn(self) -> None:
        self.answer = await asked(self._ask())

    def pause_s(self, took_s: float) -> float:
        return max(self._every_s - took_s, took_s * PAUSE_RATIO)


class Lookouts(WatchedByKey[Lookout[Any]]):
    """The lookouts of one node: at most `MAX_LOOKOUTS`."""

    def __init__(self) -> None:
        super().__init__(MAX_LOOKOUTS, f"{MAX_LOOKOUTS} pages are open at this node already: close some, or wait.")

    async def of(self, key: Hashable, ask: Callable[[], Awaitable[T]], every_s: float = EVERY_S) -> Lookout[T]:
        """Return the lookout with this key, which names the login and the question. Raises UnavailableError if too many
        questions are asked."""
        return await self.kept(key, lambda: Lookout(ask, every_s))


async def asked(answer: Awaitable[T]) -> T:
    """Return the answer. Raises UnavailableError if it takes longer than `ANSWER_S`."""
    async with bounded("The answer of the cluster", ANSWER_S):
        return await answer
