"""Extracts from a byte range of the CommitLog the terms and the configurations that the core needs. Pure functions.

`CommitLog.examine` returns the headers of the entries in a range, after it has checked the CRC and the chain of each
entry.
"""

from __future__ import annotations

from collections.abc import Sequence

from raft.configuration_entry import decode_configuration
from raft.core import Configuration, RaftSettings, TermRun
from store import EntryKind, Header, Readable


def term_runs(headers: Sequence[Header]) -> tuple[TermRun, ...]:
    """Return one run for each term in the range. Each run has the index at which its term begins."""
    if headers[0].term == headers[-1].term:  # terms never decrease, so all entries have this term
        return (TermRun(headers[0].index, headers[0].term),)
    return tuple(
        TermRun(header.index, header.term)
        for before, header in zip([None, *headers], headers, strict=False)
        if before is None or before.term != header.term
    )


def configurations(
    headers: Sequence[Header], data: Readable, server: RaftSettings
) -> tuple[tuple[int, Configuration], ...]:
    """Return the configurations in the range as (index, configuration), for the core of the server with these settings.

    The core uses a configuration as soon as its entry is appended."""
    start = headers[0].position
    found = []
    for header in headers:
        if header.kind == EntryKind.CONFIGURATION:
            at = header.position - start + header.size - header.body_bytes
            configuration = decode_configuration(bytes(data[at : at + header.body_bytes]))
            found.append((header.index, configuration.core_of(server)))
    return tuple(found)
