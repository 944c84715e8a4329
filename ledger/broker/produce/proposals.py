"""What waits for a commit: a batch, or a command, each with the future of whoever asked.

They are proposals of `raft.interfaces`: told once when they are appended, and once how they ended. A change of the
members, or of where the log begins, is one too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ledger.state import BatchRecord, Projected
from store import EntryDraft, Header


@dataclass(frozen=True, slots=True)
class Committed:
    """What a producer is told of a batch."""

    base_offset: int
    term: int
    append_time_ms: int
    duplicate: bool = False

    @classmethod
    def of(cls, record: BatchRecord, *, duplicate: bool = False) -> Committed:
        return cls(record.base_offset, record.term, record.append_time_ms, duplicate)


class BatchProposal:
    """A batch on its way to commit."""

    def __init__(
        self,
        draft: EntryDraft,
        record: BatchRecord,
        projected: Projected,
        on_settled: Callable[[BatchProposal, bool], None],
    ) -> None:
        self.draft = draft
        self.record = record
        self.future: asyncio.Future[Committed] = new_future()
        self.since = time.perf_counter()
        self._projected = projected
        self._on_settled = on_settled

    def appended(self, header: Header) -> None:
        self._projected.appended(
            self.record, index=header.index, term=header.term, append_time_ms=header.append_time_ms
        )

    def settled(self, committed: bool) -> None:
        self._on_settled(self, committed)


class CommandProposal:
    """A command on its way to commit; `index` is 0 until it is appended."""

    def __init__(self, draft: EntryDraft, on_settled: Callable[[CommandProposal, bool], None]) -> None:
        self.draft = draft
        self.future: asyncio.Future[Any] = new_future()
        self.index = 0
        self._on_settled = on_settled

    def appended(self, header: Header) -> None:
        self.index = header.index

    def settled(self, committed: bool) -> None:
        self._on_settled(self, committed)


class StartProposal:
    """A new start of the log on its way to commit. Its future is done when it is applied here."""

    def __init__(self, draft: EntryDraft, trouble: Callable[[], Exception]) -> None:
        """`trouble()`: why it may not have been committed, where it was not."""
        self.draft = draft
        self.future: asyncio.Future[None] = new_future()
        self._trouble = trouble

    def appended(self, header: Header) -> None:
        """It counts when it is applied."""

    def settled(self, committed: bool) -> None:
        end(self.future, None if committed else self._trouble())


class ChangeProposal:
    """A configuration on its way to commit. Its future has the index of its entry."""

    def __init__(
        self, draft: EntryDraft, is_committed: Callable[[int, int], bool], trouble: Callable[[], Exception]
    ) -> None:
        """`is_committed(term, index)`, as the core knows. `trouble()`: why it may not have been, where it was not."""
        self.draft = draft
        self.future: asyncio.Future[int] = new_future()
        self.index = 0
        self._term = 0
        self._is_committed = is_committed
        self._trouble = trouble

    def appended(self, header: Header) -> None:
        self.index, self._term = header.index, header.term

    def settled(self, committed: bool) -> None:
        """A leader that removes itself is none any more as soon as that is committed, and before it is applied."""
        is_committed = committed or self._is_committed(self._term, self.index)
        end(self.future, self.index if is_committed else self._trouble())


def new_future() -> asyncio.Future[Any]:
    """A client that went away does not ask for its answer: that is no error to be logged."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    return future


def end(future: asyncio.Future[Any], outcome: object) -> None:
    """With a result, or an error. Nobody is told where whoever asked was cancelled meanwhile, as in a stop."""
    if future.cancelled():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def repeat_of(first: asyncio.Future[Committed], record: BatchRecord) -> asyncio.Future[Committed]:
    """Ends as `first` ends, marked as a repeat."""
    answer = new_future()

    def first_ended(_: asyncio.Future[Committed]) -> None:
        end(answer, first.exception() or Committed.of(record, duplicate=True))

    first.add_done_callback(first_ended)
    return answer
