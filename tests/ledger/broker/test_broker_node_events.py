"""Tests the newest events of a node, and the newest lines of its audit log."""

from __future__ import annotations

from ledger.broker.access.audit import MAX_LINES, AuditLog
from ledger.broker.access.callers import Caller
from ledger.broker.node_events import MAX_EVENTS, MAX_TEXT_CHARACTERS, NodeEvents


def test_events_after_a_number() -> None:
    events = NodeEvents(lambda: 7)
    for term in (1, 2, 3):
        events.happened(4, "vote", f"vote for node {term}", term=term, subject=term)
    assert [(event.number, event.term) for event in events.after(0)] == [(1, 1), (2, 2), (3, 3)]
    (last,) = events.after(2)
    assert (last.shard, last.kind, last.text, last.time_ms, last.subject) == (4, "vote", "vote for node 3", 7, 3)


def test_memory_is_bounded() -> None:
    events = NodeEvents()
    for _ in range(MAX_EVENTS + 5):
        events.happened(0, "disk", "x" * (MAX_TEXT_CHARACTERS + 1))
    kept = events.after(0)
    assert len(kept) == MAX_EVENTS
    assert kept[0].number == 6
    assert {len(event.text) for event in kept} == {MAX_TEXT_CHARACTERS}


def test_the_audit_log_keeps_its_newest_lines() -> None:
    audit = AuditLog(now_ms=lambda: 9)
    for number in range(MAX_LINES + 2):
        audit.record_path(Caller("alice"), "127.0.0.1", f"/shards/{number}")
    lines = audit.after(0)
    assert len(lines) == MAX_LINES
    assert audit.after(lines[-1].number) == []
    assert lines[-1].text == f"alice from 127.0.0.1: GET /shards/{MAX_LINES + 1}: allowed"
    assert lines[-1].time_ms == 9
