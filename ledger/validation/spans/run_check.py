"""Checks that each entry of a run continues the entry before it in index, term, position and chain.

numpy compares all entries at once. For the few entries that fail, `pieces.break_between` finds the reason, one entry
at a time. The same function checks the first entry of a span against the last entry of the previous span.
"""

from __future__ import annotations

import numpy as np

from ledger.validation.spans.chains import chained_all
from ledger.validation.spans.entries import Entries
from ledger.validation.spans.pieces import Break, EntryRun, break_between
from store import LogTail
from store.log.grid import Grid


def check_run(entries: Entries, grid: Grid) -> tuple[EntryRun, list[Break]]:
    """Check a run of at least one entry."""
    rows = entries.rows
    before, after = rows[:-1], rows[1:]
    wrong = after["index"] != before["index"] + np.uint64(1)
    wrong |= after["term"] < before["term"]
    wrong |= after["append_time_ms"] < before["append_time_ms"]
    wrong |= after["commit"] > before["index"]
    wrong |= after["size"].astype(np.int64) > grid.segment_bytes
    wrong |= after["chain"] != chained_all(np.ascontiguousarray(before["chain"]), np.ascontiguousarray(after["crc"]))
    breaks: list[Break] = []
    due, due_at = None, -1
    for number in np.flatnonzero(wrong).tolist():
        tail = LogTail.of(entries.header(number))
        found, due = break_between(tail, entries.header(number + 1), grid, due if due_at == number else None)
        due_at = number + 1
        if found is not None:
            breaks.append(found)
    second = entries.header(1) if breaks and breaks[0].position == int(rows["position"][1]) else None
    last_due = due if due_at == len(entries) - 1 else None
    return EntryRun(entries.header(0), entries.header(-1), int(rows["commit"].max()), last_due, second), breaks
