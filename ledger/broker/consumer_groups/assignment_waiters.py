"""Stores the requests of members that wait for a new assignment."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ledger.state import ConsumerGroup


@dataclass(frozen=True, slots=True)
class _Waiting:
    # Version of the assignment that the member knows.
    version: int
    news: asyncio.Future[None]


class AssignmentWaiters:
    """Holds the requests of members that wait for a new assignment. Each member has at most one waiting request,
    because a new request of the member ends the earlier request."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, _Waiting]] = {}

    def wait_for(self, consumer_group: str, member: str, version: int) -> asyncio.Future[None]:
        """Return a future that ends when the member has another assignment, is removed, or sends a new request. The
        caller cancels the future when it is no longer needed."""
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        members = self._waiting.setdefault(consumer_group, {})
        if (before := members.get(member)) is not None:
            _wake(before)
        waiting = members[member] = _Waiting(version, news)
        news.add_done_callback(lambda _: self._forget(consumer_group, member, waiting))
        return news

    def announce(self, name: str, group: ConsumerGroup | None) -> None:
        """End the waiting requests of the members whose assignment has changed. `group` is None if the consumer
        group has no members any more."""
        for member, waiting in list(self._waiting.get(name, {}).items()):
            present = group.members.get(member) if group is not None else None
            if present is None or present.version != waiting.version:
                _wake(waiting)

    def dismiss(self) -> None:
        """End the waiting requests of all members, because this node no longer coordinates their consumer groups."""
        for members in list(self._waiting.values()):
            for waiting in list(members.values()):
                _wake(waiting)

    def _forget(self, consumer_group: str, member: str, waiting: _Waiting) -> None:
        members = self._waiting.get(consumer_group, {})
        if members.get(member) is waiting:
            del members[member]
            if not members:
                del self._waiting[consumer_group]


def _wake(waiting: _Waiting) -> None:
    if not waiting.news.done():
        waiting.news.set_result(None)
