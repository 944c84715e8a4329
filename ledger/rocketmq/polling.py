"""One receive of a RocketMQ consumer that waits for messages of one or more shards.

    first shard     ask, without a wait ─ nothing ─> ask, up to 4 s ─ nothing ─> ask ...
    other shards                                     ask, up to 4 s ─ nothing ─> ask ...

Each shard is asked again as soon as it has answered that it has no message. So a shard without a leader, or with a
leader that is suspended, holds up no message of another shard.

If no shard had a message in time, the consumer is told one of these:

    the requests to a shard have failed            the error of this shard
    a shard has not answered once                  RequestTimeoutError
    each shard has answered, at least once         no messages

"No messages" means that all shards were asked. A consumer that was told so while a shard cannot be asked would not
notice an outage. Most elections are shorter than a receive; for the others, a shard that has not answered once is
waited for a little longer than the receive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ledger.client.shared.shard_link import Ask
from ledger.client.shared.shared_message import SharedMessage
from ledger.errors import LedgerError, RequestTimeoutError
from ledger.rocketmq.refusals import FrontRefusal

# How long a leader holds back the answer to a request. A leader that is suspended is noticed after this time.
MAX_ASK_MS = 4_000
# How much later than its time a shard may answer before the receive goes on without it.
LATE_S = 0.5

Messages = list[SharedMessage[bytes]]
Task = asyncio.Task[Messages | None]
# (shard, ask, how long the leader may wait in ms) -> leased messages, or None if no leader has answered before the ask
# was cancelled. Raises LedgerError and FrontRefusal.
AskShard = Callable[[int, Ask, int], Coroutine[Any, Any, Messages | None]]


class Poll:
    """One receive. It is used for one call of `messages`."""

    def __init__(
        self,
        shards: Sequence[int],
        ask: AskShard,
        *,
        begun: Callable[[Task, Ask], None],
        give_back: Callable[[Messages], None],
        may_go_on: Callable[[], bool],
    ) -> None:
        """`begun` is called with each request, and `give_back` with messages that came too late. When `may_go_on()` is
        False, no shard is asked again, and the receive ends without an error."""
        self._shards = shards
        self._ask = ask
        self._begun = begun
        self._give_back = give_back
        self._may_go_on = may_go_on
        self._end_s = 0.0
        # True: the time is over. Only shards that have not answered are asked again.
        self._is_ending = False
        # Requests without an answer, at most one for each shard.
        self._waiting: dict[Task, tuple[int, Ask]] = {}
        # Shards whose leader has answered, and those whose request has failed. The latter are not asked again.
        self._answered: set[int] = set()
        self._errors: dict[int, LedgerError | FrontRefusal] = {}

    async def messages(self, poll_ms: int, patience_ms: int) -> Messages:
        """Return the messages of the first shard that has some, or none after `poll_ms`. Messages that another shard
        brings later are given back. A shard that has not answered once is waited for `patience_ms` longer. Raises
        LedgerError and FrontRefusal."""
        first, *others = self._shards
        now_s = asyncio.get_running_loop().time()
        self._end_s = now_s + poll_ms / 1000
        try:
            if others:
                self._begin(first, 0)
                if found := await self._found(now_s + LATE_S, lambda: self._has_ended(first)):
                    return found
            asked = {shard for shard, _ in self._waiting.values()} | self._errors.keys()
            for shard in self._shards:
                if shard not in asked and (wait_ms := self._next_wait_ms(shard)) is not None:
                    self._begin(shard, wait_ms)
            if found := await self._found(self._end_s + LATE_S, lambda: False):
                return found
            if not self._errors and not self._have_all_answered():
                self._end()
                if found := await self._found(self._end_s + patience_ms / 1000, self._have_all_answered):
                    return found
            self._check()
            return []
        finally:
            self._leave()

    def _begin(self, shard: int, wait_ms: int) -> None:
        ask = Ask()
        task = asyncio.create_task(self._ask(shard, ask, wait_ms), name="receive of a RocketMQ consumer")
        self._waiting[task] = shard, ask
        self._begun(task, ask)

    async def _found(self, until_s: float, is_enough: Callable[[], bool]) -> Messages:
        """Return the first messages that arrive. Return none if the time is over, or if it is enough to know what the
        shards have answered, or if no shard is asked any more."""
        loop = asyncio.get_running_loop()
        while self._waiting and not is_enough() and (left_s := until_s - loop.time()) > 0:
            done, _ = await asyncio.wait(self._waiting, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                shard, _ = self._waiting.pop(task)
                if found := self._outcome(shard, task):
                    return found
                if (wait_ms := self._next_wait_ms(shard)) is not None:
                    self._begin(shard, wait_ms)
        return []

    def _outcome(self, shard: int, task: Task) -> Messages:
        try:
            messages = task.result()
        except (LedgerError, FrontRefusal) as error:
            self._errors[shard] = error
            return []
        if messages is not None:
            self._answered.add(shard)
        return messages or []

    def _next_wait_ms(self, shard: int) -> int | None:
        """Return how long the next request to a shard may wait, or None if the shard is not asked again."""
        if shard in self._errors or not self._may_go_on():
            return None
        if self._is_ending:
            return None if shard in self._answered else 0
        left_ms = round((self._end_s - asyncio.get_running_loop().time()) * 1000)
        return min(left_ms, MAX_ASK_MS) if left_ms > 0 else None

    def _has_ended(self, shard: int) -> bool:
        return shard in self._answered or shard in self._errors

    def _have_all_answered(self) -> bool:
        return all(shard in self._answered for shard in self._shards)

    def _end(self) -> None:
        """Let the leaders that hold back their answers answer now."""
        self._is_ending = True
        for _, ask in self._waiting.values():
            ask.cancel()

    def _check(self) -> None:
        """Raise the error of a shard that could not be asked."""
        if not self._may_go_on():
            return
        for error in self._errors.values():
            raise error
        for shard in self._shards:
            if shard not in self._answered:
                raise RequestTimeoutError(
                    f"Shard {shard} did not answer in time, and no other shard has a message: receive again."
                )

    def _leave(self) -> None:
        """Ask no more, and give back what the requests bring nevertheless."""
        for task, (_, ask) in self._waiting.items():
            ask.cancel()
            task.add_done_callback(self._came_late)

    def _came_late(self, task: Task) -> None:
        if not task.cancelled() and task.exception() is None and (messages := task.result()):
            self._give_back(messages)
