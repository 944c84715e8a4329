"""Logs of nodes in memory, which are read as over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledger.validation.sources.errors import SourceError
from ledger.validation.sources.replica import Segment
from store import EntryDraft, Header
from store.log.entry import HEADER_SIZE, encode
from store.log.grid import Grid
from store.log.tail import EMPTY, LogTail

GRID = Grid(4_096)


class NodeLog:
    """The log of one node, with the commit index that the node knows. The process ends after `reads` reads."""

    def __init__(self, entries: Sequence[tuple[int, EntryDraft]], commit: int, reads: int = 1_000) -> None:
        """`entries` are the terms and contents of the entries from 1 on."""
        self.headers: list[Header] = []
        self.commit = commit
        self.reads = reads
        self._content = bytearray(16 * GRID.segment_bytes)
        tail = EMPTY
        for term, draft in entries:
            header, parts = encode(
                draft,
                index=tail.index + 1,
                term=term,
                position=GRID.place(tail.end, HEADER_SIZE + len(draft.body)),
                commit=0,
                append_time_ms=term,
                previous_chain=tail.chain,
            )
            self.headers.append(header)
            self._content[header.position : header.position + header.size] = b"".join(parts)
            tail = LogTail.of(header)

    def segments(self) -> list[dict[str, Any]]:
        last = {GRID.base(header.position): header for header in self.headers}
        return [
            {"name": f"{base:020}", "position": base, "length": header.end - base, "last_index": header.index}
            for base, header in last.items()
        ]

    def read(self, base: int, begin: int, end: int) -> bytes:
        self.reads -= 1
        ends = {int(segment["position"]): base + int(segment["length"]) for segment in self.segments()}
        return bytes(self._content[begin : min(end, ends[base])])


class NodeLogs:
    """The logs of one shard, by node. Implements `LogAccess` with paths such as n1/shards/1/segments."""

    def __init__(self, logs: dict[str, NodeLog]) -> None:
        self._logs = logs

    def read(self, segment: Segment, begin: int, end: int) -> bytes:
        return self._log(segment.path).read(segment.base, begin, end)

    def file(self, path: str) -> bytes | None:
        raise NotImplementedError

    def json(self, url: str) -> Any:
        log = self._log(url)
        return {"first_index": 1, "start": 0, "commit": log.commit, "segments": log.segments()}

    def _log(self, url: str) -> NodeLog:
        log = self._logs[url.partition("/")[0]]
        if not log.reads:
            raise SourceError("the process has ended")
        return log
