"""The looks for transactions that are due: each look is short, however many transactions wait."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.broker.transactions import checking
from ledger.broker.transactions.checkers import Checker, Checkers
from ledger.broker.transactions.checking import CheckSettings, TransactionChecks
from ledger.state.transaction_table import HERE, HalfBatch, TransactionTable

NOW_MS = 100_000


def half(number: int, group: str) -> HalfBatch:
    return HalfBatch(number, number, HERE, number, 7, 0, group, 1, 100, NOW_MS - 10_000)


def checks_of(table: TransactionTable, checkers: Checkers) -> TransactionChecks:
    replica = SimpleNamespace(
        shard=0, state=SimpleNamespace(transactions=table), driver=SimpleNamespace(now_ms=lambda: NOW_MS)
    )
    unused = cast(Any, None)
    return TransactionChecks(cast(Any, replica), unused, unused, checkers, unused, lambda: 1.0, CheckSettings())


async def test_a_transaction_behind_many_others_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "MAX_LOOKED_AT", 2)
    monkeypatch.setattr(checking, "read_half", lambda replica, half: b"")
    table, checkers, producer = TransactionTable(), Checkers(), Checker("live", lambda topic_id: True)
    checkers.add(producer)
    for number in range(5):
        table.put(half(number, "gone"))
    table.put(half(5, "live"))
    checks = checks_of(table, checkers)
    asked = []
    for _ in range(4):
        checks._look()
        await asyncio.sleep(0)
        asked.append(producer.questions.qsize())
    producer.gone()
    assert asked == [0, 0, 1, 1], "the third look comes to the transaction, and no look asks again"


async def test_a_transaction_that_is_dated_ahead_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of an earlier leader had leapt, so the append time is an hour ahead."""
    monkeypatch.setattr(checking, "read_half", lambda replica, half: b"")
    table, checkers, producer = TransactionTable(), Checkers(), Checker("live", lambda topic_id: True)
    checkers.add(producer)
    table.put(replace(half(0, "live"), since_ms=NOW_MS + 3_600_000))
    checks = checks_of(table, checkers)
    asked = []
    for now_s in (1.0, 6.9, 7.0):
        checks._monotonic_s = lambda now_s=now_s: now_s  # type: ignore[misc]
        checks._look()
        await asyncio.sleep(0)
        asked.append(producer.questions.qsize())
    producer.gone()
    assert asked == [0, 0, 1]
