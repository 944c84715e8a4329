"""The types of a fetch request and of a fetch result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ledger.errors import LedgerError


class QueueFetch(NamedTuple):
    """One queue of a fetch request. The fetch reads the queue from `offset` on. Without `tag_hashes` the fetch
    returns messages with any tag. With `accepts_cuts` the fetch can leave out messages with other tags."""

    topic_id: int
    queue: int
    offset: int
    tag_hashes: Sequence[int] = ()
    accepts_cuts: bool = False


class FetchedBatch(NamedTuple):
    """One batch of a fetch result, with the bytes that the log stores, or a cut of them. The body can be a view of the
    log. Do not store the body, because a view keeps the mapping of a whole segment alive."""

    base_offset: int
    append_time_ms: int
    term: int
    body: bytes | memoryview
    # The number of messages.
    messages: int = 0
    # How many bytes smaller a cut is than the stored batch.
    saved_bytes: int = 0


@dataclass(slots=True)
class FetchedQueue:
    """The result of a fetch for one queue. The next fetch continues at `next_offset`."""

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
    # How long the fetch waited for new messages, and how long for its turns, in seconds.
    waited_s: float = 0.0
    queued_s: float = 0.0


def detached(error: LedgerError) -> LedgerError:
    """Remove traceback, cause and context from a caught error, so that a stored error keeps no other objects in
    memory."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error
