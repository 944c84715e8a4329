"""Proposals that wait for their commit: batches, commands, new log starts and changes of members.

Each class implements `raft.interfaces.Proposal`. The driver calls `appended` once when the entry is appended, and
`settled` once when the entry is committed or given up. The caller of a proposal awaits the proposal's future.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ledger.state import BatchRecord, Projected
from store import EntryDraft, Header


@dataclass(slots=True)
class Committed:
    """The result of a committed batch. `append_time_ms` is in ms since 1970. `duplicate` means that the batch
    repeated an earlier batch. `index` is the index of the batch's entry. Treat the fields as constants; the class is
    not `frozen`, because one object is created for each batch."""

    base_offset: int
    term: int
    append_time_ms: int
    duplicate: bool = False
    index: int = 0

    @classmethod
    def of(cls, record: BatchRecord, *, duplicate: bool = False) -> Committed:
        """Return the result of the batch that this record describes."""
        return cls(record.base_offset, record.term, record.append_time_ms, duplicate, record.index)


class BatchProposal:
    """A batch that waits for its commit."""

    def __init__(
        self,
        draft: EntryDraft,
        record: BatchRecord,
        projected: Projected,
        on_settled: Callable[[BatchProposal, bool], None],
        since_s: float,
    ) -> None:
        self.draft = draft
        self.record = record
        self.future: asyncio.Future[Committed] = new_future()
        # When it was proposed, by the monotonic clock of the replica.
        self.since_s = since_s
        self._projected = projected
        self._on_settled = on_settled

    def appended(self, header: Header) -> None:
        self._projected.appended(
            self.record, index=header.index, term=header.term, append_time_ms=header.append_time_ms
        )

    def settled(self, committed: bool) -> None:
        self._on_settled(self, committed)


class CommandProposal:
    """A command that waits for its commit. `index` is 0 until the command is appended."""

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
    """A new log start that waits for its commit. The proposal's future ends when this node has applied the entry."""

    def __init__(self, draft: EntryDraft, trouble: Callable[[], Exception]) -> None:
        """`trouble()` returns the error for a proposal that was not committed."""
        self.draft = draft
        self.future: asyncio.Future[None] = new_future()
        self._trouble = trouble

    def appended(self, header: Header) -> None:
        """Do nothing, because the log start moves when the entry is applied."""

    def settled(self, committed: bool) -> None:
        end(self.future, None if committed else self._trouble())


class ChangeProposal:
    """A configuration that waits for its commit. The result of the proposal's future is the index of the
    configuration's entry."""

    def __init__(
        self, draft: EntryDraft, is_committed: Callable[[int, int], bool], trouble: Callable[[], Exception]
    ) -> None:
        """`is_committed(term, index)` asks the Raft core whether the entry with this term and index is committed.
        `trouble()` returns the error for a change that was not committed."""
        self.draft = draft
        self.future: asyncio.Future[int] = new_future()
        self.index = 0
        self._term = 0
        self._is_committed = is_committed
        self._trouble = trouble

    def appended(self, header: Header) -> None:
        self.index, self._term = header.index, header.term

    def settled(self, committed: bool) -> None:
        """End the future. A leader that removes itself stops leading after the change is committed but before the
        change is applied. For this case, `settled` also asks the Raft core whether the entry is committed."""
        is_committed = committed or self._is_committed(self._term, self.index)
        end(self.future, self.index if is_committed else self._trouble())


def new_future() -> asyncio.Future[Any]:
    """Return a new future, which `end` ends."""
    return asyncio.get_running_loop().create_future()


def end(future: asyncio.Future[Any], outcome: object) -> None:
    """End a future with a result, or with an exception. If the future was cancelled, do nothing. If no code reads the
    exception, asyncio does not log it. For example, no code reads it after a client has disconnected."""
    if future.cancelled():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
        future.exception()  # to asyncio, the exception is read now
    else:
        future.set_result(outcome)


def repeat_of(first: asyncio.Future[Committed], record: BatchRecord) -> asyncio.Future[Committed]:
    """Return a future that ends like `first`, with a result that is marked as a repeat."""
    answer = new_future()

    def first_ended(_: asyncio.Future[Committed]) -> None:
        end(answer, first.exception() or Committed.of(record, duplicate=True))

    first.add_done_callback(first_ended)
    return answer
