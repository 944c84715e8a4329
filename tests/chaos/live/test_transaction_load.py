"""The decisions about the transactions of a chaos run, what its checkers answer, and what its producers record."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from chaos.live.load import transacting
from chaos.live.load.decisions import Decisions
from chaos.live.load.spec import ClientSpec
from chaos.live.load.transacting import LoadChecker
from ledger.client.transactions.records import CheckedTransaction, PreparedMessage
from ledger.errors import DeliveryTimeoutError, LedgerError, TransactionEndedError
from ledger.history import Decide, EndRequest, HistoryWriter, OperationOutcome, Prepare, read_history
from ledger.transactions import TransactionId


def spec_of(tmp_path: Path) -> ClientSpec:
    return ClientSpec(
        role="checkers",
        first_process=9,
        bootstrap=(),
        nodes=(1,),
        topics=("t", "u"),
        queues=4,
        rate=3_000.0,
        largest_bytes=2_000,
        delivery_timeout_ms=1,
        seed=1,
        history=str(tmp_path / "history"),
        run=1,
        transactions=0.5,
    )


def asked(name: str, checks: int = 0) -> CheckedTransaction:
    message = PreparedMessage("t", 0, b"value", None, None, (("transaction", name.encode()),), 0)
    return CheckedTransaction("x1_id", "chaos", datetime.now(UTC), checks, (message,))


def test_the_first_decision_stands(tmp_path: Path) -> None:
    one, other = Decisions(tmp_path / "decisions"), Decisions(tmp_path / "decisions")
    assert one.decided("a") is None
    assert one.decide("a", commit=True) is True
    assert other.decide("a", commit=False) is True
    assert other.decide("b", commit=False) is False
    assert one.decide("b", commit=True) is False
    assert (one.decided("a"), one.decided("b")) == (True, False)


def test_a_checker_says_what_was_decided_and_else_rolls_back_at_the_second_check(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "history") as writer:
        checker = LoadChecker(spec_of(tmp_path), 9, writer)
        checker.decisions.decide("a", commit=True)
        assert checker.answer(asked("a")) == "commit"
        assert checker.answer(asked("b")) == "unknown"
        assert checker.answer(asked("b", checks=1)) == "rollback"
        assert checker.answer(asked("b")) == "rollback"
    told = [(one.transaction, one.commit) for one in read_history(tmp_path / "history") if isinstance(one, Decide)]
    assert told == [("a", True), ("b", False), ("b", False)]


class Transaction:
    """A transaction of a cluster that is not there. `failure` is the error of its second send."""

    def __init__(self, number: int, failure: LedgerError | None, trouble: LedgerError | None) -> None:
        self.id: str | None = None
        self.asked: list[str] = []
        self._number, self._failure, self._trouble = number, failure, trouble
        self.sent = 0

    async def send(self, value: bytes, **_: Any) -> None:
        self.sent += 1
        if self._failure is not None and self.sent == 2:
            raise self._failure
        self.id = str(TransactionId(1, 3, self._number))

    async def commit(self) -> None:
        await self._end("commit")

    async def rollback(self) -> None:
        await self._end("rollback")

    async def _end(self, how: str) -> None:
        self.asked.append(how)
        if self._trouble is not None:
            raise self._trouble


class Producer:
    def __init__(self, failure: LedgerError | None = None, trouble: LedgerError | None = None) -> None:
        self.begun: list[Transaction] = []
        self._failure, self._trouble = failure, trouble

    def transaction(self, topic: str, *, group: str) -> Transaction:
        self.begun.append(Transaction(len(self.begun), self._failure, self._trouble))
        return self.begun[-1]


def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, producer: Producer, count: int = 200) -> list[Any]:
    """Make `count` transactions and return what the history says."""
    monkeypatch.setattr(transacting, "_AGAIN_S", 0)

    async def run() -> None:
        stop = asyncio.Event()
        stop.set()  # it does not wait
        with HistoryWriter(tmp_path / "history") as writer:
            one = transacting._TransactionLoad(
                replace(spec_of(tmp_path), role="producers"), 9, cast("Any", producer), writer, Random(1), stop
            )
            for number in range(count):
                await one._one(f"9-{number}")

    asyncio.run(run())
    return list(read_history(tmp_path / "history"))


def test_each_decision_is_in_the_history_before_the_cluster_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = Producer()
    history = load(tmp_path, monkeypatch, producer)
    decided: dict[str, bool] = {}
    ends = Counter[bool]()
    for line in history:
        match line:
            case Decide():
                decided[line.transaction] = line.commit
            case EndRequest():
                assert decided[line.transaction] == line.commit
                assert line.outcome is OperationOutcome.OK
                ends[line.commit] += 1
            case Prepare():
                assert (line.outcome, line.shard) == (OperationOutcome.OK, 3)
    assert ends[True] > ends[False] > 20
    # Some are left to a check, with a decision and without one.
    silent = {f"9-{number}" for number, one in enumerate(producer.begun) if not one.asked}
    assert 5 < len(silent & decided.keys()) < len(silent) < 80
    assert sum(one.sent for one in producer.begun) == sum(isinstance(line, Prepare) for line in history)


def test_a_transaction_with_a_failed_send_is_never_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = Producer(failure=DeliveryTimeoutError("late", maybe_committed=True))
    history = load(tmp_path, monkeypatch, producer)
    failed = {line.transaction for line in history if isinstance(line, Prepare) and line.number is None}
    assert len(failed) > 50
    assert {line.outcome for line in history if isinstance(line, Prepare) and line.number is None} == {
        OperationOutcome.UNKNOWN
    }
    assert not [line for line in history if isinstance(line, Decide) and line.commit and line.transaction in failed]


@pytest.mark.parametrize(
    ("trouble", "outcome", "most"),
    [
        (DeliveryTimeoutError("late", maybe_committed=True), OperationOutcome.UNKNOWN, 2),
        (TransactionEndedError("it was rolled back"), OperationOutcome.FAIL, 1),
    ],
)
def test_the_answers_to_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: LedgerError, outcome: OperationOutcome, most: int
) -> None:
    producer = Producer(trouble=trouble)
    history = load(tmp_path, monkeypatch, producer)
    assert {line.outcome for line in history if isinstance(line, EndRequest)} == {outcome}
    assert max(len(one.asked) for one in producer.begun) == most
