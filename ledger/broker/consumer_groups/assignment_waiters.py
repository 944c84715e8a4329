"""Members of consumer groups that wait to be told that other queues are theirs, and are woken when that is so."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ledger.state import ConsumerGroup


@dataclass(frozen=True, slots=True)
class _Waiting:
    version: int
    """Of the view that the member has."""
    news: asyncio.Future[None]


class AssignmentWaiters:
    """Bounded by the members: of each the last one waits."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, _Waiting]] = {}

    def wait_for(self, consumer_group: str, member: str, version: int) -> asyncio.Future[None]:
        """Done when the member's view is another one, or has gone; or when it waits once more. Cancel it when it is not
        needed any more."""
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        members = self._waiting.setdefault(consumer_group, {})
        if (before := members.get(member)) is not None:
            _wake(before)
        waiting = members[member] = _Waiting(version, news)
        news.add_done_callback(lambda _: self._forget(consumer_group, member, waiting))
        return news

    def announce(self, name: str, group: ConsumerGroup | None) -> None:
        """That consumer group is like this now; None: it has no members."""
        for member, waiting in list(self._waiting.get(name, {}).items()):
            present = group.members.get(member) if group is not None else None
            if present is None or present.version != waiting.version:
                _wake(waiting)

    def dismiss(self) -> None:
        """This node does not know any more: all are woken."""
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
