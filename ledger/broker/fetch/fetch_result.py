"""What a fetch asks for, and what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ledger.errors import LedgerError


class QueueFetch(NamedTuple):
    """One queue that a fetch asks for, from `offset` on. Without `tag_hashes` it asks for all messages."""

    topic_id: int
    queue: int
    offset: int
    tag_hashes: Sequence[int] = ()


class FetchedBatch(NamedTuple):
    """A batch as it lies in the log. The body may be a view of the log, which keeps the mapping of a whole segment
    alive. So do not keep it."""

    base_offset: int
    append_time_ms: int
    term: int
    body: bytes | memoryview


@dataclass(slots=True)
class FetchedQueue:
    """The result for one queue. The next fetch continues at `next_offset`."""

    topic_id: int
    queue: int
    next_offset: int
    first_offset: int = 0
    end_offset: int = 0
    # Without traceback and cause, which would make a cycle that keeps the batches alive.
    error: LedgerError | None = None
    batches: list[FetchedBatch] = field(default_factory=list)


@dataclass(slots=True)
class FetchResult:
    """The result of a fetch: one `FetchedQueue` for each queue, in the order of the request."""

    queues: list[FetchedQueue] = field(default_factory=list)


def detached(error: LedgerError) -> LedgerError:
    """Remove traceback, cause and context from a caught error, so that it can be kept."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error
