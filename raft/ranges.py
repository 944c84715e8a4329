"""Byte ranges of the CommitLog, as the core sees them: which terms, which configurations. Pure functions.

The headers come from `CommitLog.examine`, so CRCs and chain have been checked.
"""

from __future__ import annotations

from collections.abc import Sequence

from raft.configuration_entry import decode_configuration
from raft.core import Configuration, TermRun
from store import EntryKind, Header, Readable


def term_runs(headers: Sequence[Header]) -> tuple[TermRun, ...]:
    """Where in a range of entries each term begins."""
    if headers[0].term == headers[-1].term:  # terms never fall: all are the same
        return (TermRun(headers[0].index, headers[0].term),)
    return tuple(
        TermRun(header.index, header.term)
        for before, header in zip([None, *headers], headers, strict=False)
        if before is None or before.term != header.term
    )


def configurations(headers: Sequence[Header], data: Readable) -> tuple[tuple[int, Configuration], ...]:
    """The configuration entries of a range, decoded: the core acts on them as soon as they are appended."""
    start = headers[0].position
    found = []
    for header in headers:
        if header.kind == EntryKind.CONFIGURATION:
            at = header.position - start + header.size - header.body_bytes
            found.append((header.index, decode_configuration(bytes(data[at : at + header.body_bytes])).core))
    return tuple(found)
