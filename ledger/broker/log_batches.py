"""Reads a batch of the log at a place that an index names."""

from __future__ import annotations

from store import CommitLog, EntryKind, Header
from store.log.entry import EntryFlawError


def batch_entry_at(commit_log: CommitLog, position: int, size: int) -> tuple[Header, memoryview] | None:
    """Return the header and a view of the body of the batch entry of `size` bytes at `position`. Return None if the log
    has no such entry, because the index that names it is damaged. Raises StoreError."""
    first_index = commit_log.first_index
    if first_index > commit_log.last_index:
        return None
    if not commit_log.reading.position(first_index) <= position < commit_log.end:
        return None
    try:
        header, body = commit_log.reading.entry_at(position, size)
    except EntryFlawError:
        return None
    is_there = (header.kind, header.position, header.size) == (EntryKind.BATCH, position, size)
    return (header, body) if is_there else None
