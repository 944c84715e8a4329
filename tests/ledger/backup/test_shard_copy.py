"""Which entries a copy of a shard stores."""

from __future__ import annotations

from ledger.backup.manifest import ShardBackup
from ledger.backup.rate import RateLimit
from ledger.backup.reading import ranges_of
from ledger.backup.shard_copy import ShardCopy
from ledger.backup.source import ShardSource
from store import EntryDraft, EntryKind
from store.log.tail import LogTail
from tests.ledger.backup.memory_target import MemoryTarget
from tests.ledger.backup.node_logs import GRID, NodeLog, NodeLogs

# Four of these fill a segment, and leave a rest in which no entry fits.
BATCH = EntryDraft(EntryKind.BATCH, bytes(900), 1, count=1)


def test_entries_of_a_deposed_leader_are_not_copied() -> None:
    """Node n1 ends in the middle of a copy. Node n2 is a leader that was deposed without noticing it: after the first
    segment it has entries that were never committed, and they continue the entries that were copied."""
    committed, forked = [1] * 4 + [3] * 8, [1] * 4 + [2] * 8
    logs = {
        "n1": NodeLog([(term, BATCH) for term in committed], commit=12, reads=1),
        "n2": NodeLog([(term, BATCH) for term in forked], commit=4),
        "n3": NodeLog([(term, BATCH) for term in committed], commit=12),
    }
    assert [header.end for header in logs["n2"].headers] == [header.end for header in logs["n3"].headers]
    target = MemoryTarget()
    source = ShardSource(1, [*logs], (1, 2, 3), lambda: NodeLogs(logs), lambda _: None)
    copy = ShardCopy(source, target, RateLimit(0), lambda _, __: None)
    copied = copy.run(1, ShardBackup(1, GRID.segment_bytes), last_index=10)
    assert logs["n1"].reads == 0
    assert copied.tail == LogTail.of(logs["n3"].headers[9])
    stored = [header for entries in ranges_of(target, copied) for header in entries.headers]
    assert [(header.index, header.term) for header in stored] == [*zip(range(1, 11), committed, strict=False)]
