"""The rows of `make bench-features` say for each figure whether its target is met."""

from __future__ import annotations

from dataclasses import replace

from bench.judging.waiting_log import CancelFigures
from bench.node.shared import LeaseRateFigures, Ledger
from bench.node.timed import LatenessFigures, WaitingFigures
from bench.node.transactions import TransactionRateFigures
from bench.run_features import FeatureResults, text
from bench.suite.feature_rows import (
    burst_rows,
    cancel_rows,
    rate_rows,
    shared_rows,
    transaction_rows,
    waiting_rows,
)
from bench.suite.rows import TargetRow
from ledgermq import SharedMessage

WAITING = WaitingFigures(1_000_000, 60_000, 60.0, 99.0, 1.4, 4.3)
LATE = LatenessFigures("rate", 60_000, 31.0, 16.0, 31.0, 25.0, 42.0, 0.0, 0)
CANCELS = CancelFigures(1_000_000, 60_000, 18_000, 0.7, 7.2, 7.2, 40.0, 48.0)
SEND, TRANSACTION = (
    TransactionRateFigures("one: sends", 1, 600.0, 1.7, 2.0, None),
    TransactionRateFigures("one: transactions", 1, 250.0, 4.1, 6.0, 2.4),
)
MANY = TransactionRateFigures("many: transactions", 200, 2_100.0, 70.0, 100.0, 13.0)
BATCHES = LeaseRateFigures("batches", 16, 8, 200_000, 31_000, 12_000, 13_000, 0, 0)
SINGLES = LeaseRateFigures("singles", 50, 2, 10_000, 1_500, 195, 205, 0, 0)
KEYS = LeaseRateFigures("keys", 8, 2, 50_000, 16_000, 6_000, 6_500, 0, 0)
FAILING = LeaseRateFigures("failing", 8, 2, 30_000, 15_000, 3_000, 3_500, 0, 0)


def met(rows: list[TargetRow]) -> list[bool | None]:
    return [row.met for row in rows]


def test_memory_and_start_with_waiting_messages() -> None:
    assert met(waiting_rows(WAITING)) == [True, True, None]
    assert met(waiting_rows(replace(WAITING, anon_mb_after=101.0, restart_s_after=4.5))) == [False, False, None]
    more = replace(WAITING, waiting=10_000_000, anon_mb_after=150.0)
    assert met(waiting_rows(more))[0], "ten million messages may take more memory"


def test_lateness() -> None:
    assert met(rate_rows(LATE)) == [True, True, True]
    assert met(rate_rows(replace(LATE, late_p50=51.0, late_p99=251.0, early_max=1.0))) == [False, False, False]
    assert met(burst_rows(LATE)) == [False, True, True]
    assert met(burst_rows(replace(LATE, all_s=2.1, elections=1))) == [True, False, True]


def test_cancels_leave_no_trace() -> None:
    assert met(cancel_rows(CANCELS)) == [True, None]
    assert met(cancel_rows(replace(CANCELS, snapshot_kb_after=8_000.0))) == [False, None]


def test_a_transaction_is_compared_with_a_send() -> None:
    rows = transaction_rows([SEND, TRANSACTION, MANY])
    assert met(rows) == [True, True]
    assert rows[0].reached == "2.40 × (4.1 ms of 1.7 ms, p50)"
    slow = [SEND, replace(TRANSACTION, times_a_send=2.6), replace(MANY, per_s=1_999.0)]
    assert met(transaction_rows(slow)) == [False, False]


def test_shared_groups() -> None:
    assert all(row.met in (True, None) for row in shared_rows([BATCHES, SINGLES, KEYS, FAILING]))
    wrong = [
        replace(BATCHES, per_s=29_000),
        replace(SINGLES, per_s=399, fewest=100),
        replace(KEYS, inversions=1),
        replace(FAILING, per_s=1_000, repeated=1),
    ]
    assert met(shared_rows(wrong)) == [False, False, False, False, None, True, False, False]


def test_the_ratio_of_a_failing_key_is_the_median_of_rounds() -> None:
    rounds = [(10_000, 5_000), (10_000, 9_000), (20_000, 18_000)]
    found = [
        each for without, with_it in rounds for each in (replace(KEYS, per_s=without), replace(FAILING, per_s=with_it))
    ]
    assert shared_rows(found)[-2].reached == "0.90 (9,000/s of 10,000/s)"


def test_messages_of_the_failing_key_are_not_counted() -> None:
    def message(key: bytes, offset: int) -> SharedMessage:
        return SharedMessage("shared", 0, offset, 0, 0, key, b"", None, (), 1)

    ledger = Ledger(1, failing=b"7")
    failing, good = message(b"7", 0), message(b"8", 1)
    assert ledger.received(0, [failing]) == []
    assert len(ledger.seen) == 0
    assert ledger.received(0, [failing, good]) == [good]
    assert ledger.is_complete
    assert (ledger.by_member[0], ledger.inversions) == (1, 0)


def test_the_table_has_every_row_and_every_failure() -> None:
    conditions = {"processor": "x, 2 cores", "load before": "0.10", "ledgermq": "1"}
    results = FeatureResults("2026-11-26 02:29 UTC", conditions, rate_rows(LATE), failures=["burst: too slow"])
    told = text(results)
    assert "| ≤ 50 ms | 16.0 ms; at a consumer 25 ms and 42 ms | met |" in told
    assert "FAILED: burst: too slow" in told
    assert "3 of 3 targets met" in told
