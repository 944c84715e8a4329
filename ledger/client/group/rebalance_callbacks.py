"""Tells the program, and the log, which queues a member was assigned, released or lost."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass

from ledger.cancellation import heed_cancellation
from ledger.client.checked_arguments import checked_hook
from ledger.client.records import TopicQueue

log = logging.getLogger("ledgermq.client.group_consumer")

# A plain function or a coroutine function.
RebalanceCallback = Callable[[list[TopicQueue]], Awaitable[None] | None]


def checked_rebalance_callback(name: str, callback: RebalanceCallback | None) -> RebalanceCallback | None:
    """Return the callback, or None. Raises InvalidArgumentError if it is no function."""
    return checked_hook(name, callback, "of a list of queues")


@dataclass(frozen=True, slots=True)
class RebalanceCallbacks:
    """The callbacks of one member. A callback that raises an exception is logged, and changes nothing."""

    consumer_group: str
    # The topics that the program named. The callbacks do not get queues of the retry topic.
    topics: Collection[str]
    on_assigned: RebalanceCallback | None = None
    on_revoked: RebalanceCallback | None = None
    on_lost: RebalanceCallback | None = None

    async def assigned(self, places: Iterable[TopicQueue]) -> None:
        await self._tell("was assigned", self.on_assigned, places)

    async def revoked(self, places: Iterable[TopicQueue]) -> None:
        await self._tell("releases", self.on_revoked, places)

    async def lost(self, places: Iterable[TopicQueue]) -> None:
        await self._tell("lost", self.on_lost, places)

    async def _tell(self, what: str, callback: RebalanceCallback | None, places: Iterable[TopicQueue]) -> None:
        told = sorted(place for place in places if place.topic in self.topics)
        if not told:
            return
        log.info("consumer group %s: this member %s %s", self.consumer_group, what, named(told))
        if callback is None:
            return
        try:
            result = callback(told)
            if inspect.isawaitable(result):
                await result
        except (Exception, asyncio.CancelledError):
            heed_cancellation()  # without one, the callback awaited something that was cancelled
            log.exception("consumer group %s: a rebalance callback raised an exception", self.consumer_group)


def named(places: Iterable[TopicQueue]) -> str:
    """Return for example "orders 0, 3; payments 1"."""
    by_topic: dict[str, list[str]] = {}
    for topic, queue in places:
        by_topic.setdefault(topic, []).append(str(queue))
    return "; ".join(f"{topic} {', '.join(queues)}" for topic, queues in by_topic.items())
