"""The producers that answer checks, by producer group, on one node.

A producer with a checker has a stream to every node, so each leader finds the live producers of a group on its own
node.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from ledger.broker.produce.proposals import end, new_future
from ledger.errors import BusyError, UnavailableError

# Streams of one node.
MAX_CHECKERS = 10_000
MAX_NAME_CHARACTERS = 64
# Checks that one producer has not answered, and checks that are not sent to it.
MAX_UNANSWERED = 64


@dataclass(frozen=True, slots=True)
class AskedTransaction:
    """A transaction whose outcome is asked for. `body` is its first half batch, for the queue `queue` of the topic
    `topic_id`. `since_ms` is in ms since 1970."""

    shard: int
    transaction: int
    topic_id: int
    queue: int
    since_ms: int
    unknowns: int
    body: bytes


class Checker:
    """One producer that answers checks."""

    def __init__(self, group: str, may_see: Callable[[int], bool], name: str = "") -> None:
        """`may_see(topic_id)` returns True if the producer has the right to see messages of its group for this
        topic. `name`: its place in the order in which all leaders ask the producers of the group, or "" for none."""
        self.group = group
        self.may_see = may_see
        self.name = name
        # Checks that are to be sent, with their numbers. None: the producer gets no other.
        self.questions: asyncio.Queue[tuple[int, AskedTransaction] | None] = asyncio.Queue()
        self._answers: dict[int, asyncio.Future[bool | None]] = {}
        self._numbers = count(1)

    @property
    def has_room(self) -> bool:
        # The time for an answer can end before the client has read the check.
        return max(len(self._answers), self.questions.qsize()) < MAX_UNANSWERED

    def ask(self, asked: AskedTransaction) -> asyncio.Future[bool | None]:
        """Send a check. The result is True for commit, False for rollback, and None if the producer does not know. The
        future ends in UnavailableError if the producer goes."""
        number = next(self._numbers)
        answer: asyncio.Future[bool | None] = new_future()
        self._answers[number] = answer
        answer.add_done_callback(lambda _: self._answers.pop(number, None))
        self.questions.put_nowait((number, asked))
        return answer

    def answered(self, number: int, outcome: bool | None) -> None:
        """Take an answer. An answer to no check changes nothing."""
        if (answer := self._answers.get(number)) is not None and not answer.done():
            end(answer, outcome)

    def gone(self) -> None:
        """End all checks, because the producer has disconnected."""
        for answer in list(self._answers.values()):
            end(answer, UnavailableError("the producer that was asked has disconnected"))
        self.questions.put_nowait(None)


@dataclass(slots=True)
class _Group:
    # In the order of their names.
    named: list[Checker] = field(default_factory=list)
    # By identity, the one that was asked last at the end.
    unnamed: OrderedDict[int, Checker] = field(default_factory=OrderedDict)

    def add(self, checker: Checker) -> None:
        if checker.name:
            insort(self.named, checker, key=lambda each: each.name)
        else:
            self.unnamed[id(checker)] = checker

    def remove(self, checker: Checker) -> bool:
        """Return True if the producer was there."""
        if checker in self.named:
            self.named.remove(checker)
            return True
        return self.unnamed.pop(id(checker), None) is not None


class Checkers:
    """All producers that answer checks on one node."""

    def __init__(self) -> None:
        # No group is here without a producer.
        self._by_group: dict[str, _Group] = {}
        self._count = 0

    def add(self, checker: Checker) -> None:
        """Add a producer. Raises BusyError if the node has too many."""
        if self._count >= MAX_CHECKERS:
            raise BusyError(f"this node has {self._count} producers that answer checks, which is the limit")
        self._by_group.setdefault(checker.group, _Group()).add(checker)
        self._count += 1

    def remove(self, checker: Checker) -> None:
        of_group = self._by_group.get(checker.group)
        if of_group is not None and of_group.remove(checker):
            self._count -= 1
            if not of_group.named and not of_group.unnamed:
                del self._by_group[checker.group]
        checker.gone()

    def next_of(self, group: str, topic_id: int, unknowns: int = 0) -> Checker | None:
        """Return a live producer of the group that may see the topic and has room for a check. Return None if there is
        none. Producers without a name take turns. If there are names, a transaction that has had `unknowns` answers
        "unknown" is for the producer at this place in their order, and waits until this producer has room."""
        of_group = self._by_group.get(group)
        if of_group is None:
            return None
        named = of_group.named
        for number in range(len(named)):
            checker = named[(unknowns + number) % len(named)]
            if checker.may_see(topic_id):
                return checker if checker.has_room else None
        for key, checker in list(of_group.unnamed.items()):
            if checker.has_room and checker.may_see(topic_id):
                of_group.unnamed.move_to_end(key)
                return checker
        return None
