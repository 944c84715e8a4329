"""Which entries a copy of a shard stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledger.backup.manifest import ShardBackup
from ledger.backup.rate import RateLimit
from ledger.backup.reading import ranges_of
from ledger.backup.shard_copy import ShardCopy
from ledger.backup.source import ShardSource
from ledger.validation.sources.errors import SourceError
from ledger.validation.sources.replica import Segment
from store import EntryDraft, EntryKind, Header
from store.log.entry import encode
from store.log.grid import Grid
from store.log.tail import EMPTY, LogTail
from tests.ledger.backup.memory_target import MemoryTarget

GRID = Grid(4_096)
# Four entries fill a segment, and leave a rest in which no entry fits.
BODY = bytes(900)


class NodeLog:
    """The log of one node, with the commit index that the node knows. It ends with process after `reads` reads."""

    def __init__(self, terms: Sequence[int], commit: int, reads: int = 1_000) -> None:
        self.headers: list[Header] = []
        self.commit = commit
        self.reads = reads
        self._content = bytearray(4 * GRID.segment_bytes)
        tail = EMPTY
        for term in terms:
            header, parts = encode(
                EntryDraft(EntryKind.BATCH, BODY, 1, count=1),
                index=tail.index + 1,
                term=term,
                position=GRID.place(tail.end, len(BODY) + 64),
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
        if not self.reads:
            raise SourceError("the process has ended")
        self.reads -= 1
        ends = {int(segment["position"]): base + int(segment["length"]) for segment in self.segments()}
        return bytes(self._content[begin : min(end, ends[base])])


class Nodes:
    """Answers of nodes by HTTP."""

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
        log = self._logs[url.removeprefix("http://")[0]]
        if not log.reads:
            raise SourceError("the process has ended")
        return log


def test_entries_of_a_deposed_leader_are_not_copied() -> None:
    """Node a ends in the middle of a copy. Node b is a leader that was deposed without noticing it: after the first
    segment it has entries that were never committed, and they continue the entries that were copied."""
    committed, forked = [1] * 4 + [3] * 8, [1] * 4 + [2] * 8
    logs = {"a": NodeLog(committed, 12, reads=1), "b": NodeLog(forked, 4), "c": NodeLog(committed, 12)}
    assert [header.end for header in logs["b"].headers] == [header.end for header in logs["c"].headers]
    target = MemoryTarget()
    source = ShardSource(1, [f"http://{node}" for node in logs], (1, 2, 3), lambda: Nodes(logs), lambda _: None)
    copied = ShardCopy(source, target, RateLimit(0), lambda _, __: None).run(
        1, ShardBackup(1, GRID.segment_bytes), last_index=10
    )
    assert logs["a"].reads == 0
    assert copied.tail == LogTail.of(logs["c"].headers[9])
    stored = [header for entries in ranges_of(target, copied) for header in entries.headers]
    assert [(header.index, header.term) for header in stored] == [*zip(range(1, 11), committed, strict=False)]
