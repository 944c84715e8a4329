"""Tests when a producer logs that messages wait long for their acknowledgement, and what it logs."""

from __future__ import annotations

import random

from ledger.client.connection.backoff import Backoff
from ledger.client.producer.accumulator import Accumulator
from ledger.client.producer.delivery import DeliverySettings
from ledger.client.producer.producer_batch import Acknowledged, Piece
from ledger.client.producer.wait_warnings import WARN_AFTER_MS, WARN_AGAIN_MS, Wait, WaitWarnings
from ledger.errors import DeliveryTimeoutError, DiskFullError
from tests.ledger.client.naive_broker import Fate

FULL = DiskFullError("the disk of node 3 is 93% full")


def test_a_warning_comes_after_some_seconds_and_again_after_some_more() -> None:
    warnings, said = WaitWarnings(), []
    for now in range(0, 100_000, 500):
        said += [(now, text) for text in warnings.look({2: Wait(now, FULL)}, now)]
    assert [now for now, _ in said] == [WARN_AFTER_MS + each * WARN_AGAIN_MS for each in range(4)]
    assert said[0][1] == (
        "Messages for shard 2 have waited 5 s for an acknowledgement, and are sent again; the last error was: the disk "
        "of node 3 is 93% full."
    )


def test_each_shard_has_its_own_warning_and_a_new_wait_a_new_one() -> None:
    warnings = WaitWarnings()
    assert len(warnings.look({1: Wait(6_000, None), 2: Wait(6_000, FULL), 3: Wait(100, None)}, 6_000)) == 2
    assert warnings.look({1: Wait(7_000, None), 2: Wait(7_000, FULL)}, 7_000) == []
    assert warnings.look({2: Wait(8_000, FULL)}, 8_000) == []
    (text,) = warnings.look({1: Wait(5_000, None), 2: Wait(9_000, FULL)}, 9_000)
    assert text == "Messages for shard 1 have waited 5 s for an acknowledgement, and are sent again."


def test_the_accumulator_tells_how_long_and_why_and_the_last_error_too() -> None:
    accumulator = Accumulator(
        DeliverySettings(producer_id=1, delivery_timeout_ms=10_000), Backoff(20, 100, random.Random(1))
    )
    sequencer, receipt = accumulator.sequencer(1, 0, 4), Fate([b"one"])
    accumulator.add(sequencer, Piece([b"one"], 3, receipt), 1_000, 0)
    assert accumulator.waits(1_000) == {4: Wait(0, None)}
    (dispatch,) = accumulator.poll(1_000).dispatches
    accumulator.answered(sequencer, dispatch.batches[0], FULL, 1_010)
    assert accumulator.waits(7_000) == {4: Wait(6_000, FULL)}
    owed = accumulator.poll(11_000)
    (result,), (dispatch,) = owed.results, owed.dispatches
    assert isinstance(result.outcome, DeliveryTimeoutError)
    assert "the disk of node 3 is 93% full" in result.outcome.message
    assert accumulator.waits(12_000) == {4: Wait(0, FULL)}, "its receipt has its result"
    accumulator.answered(sequencer, dispatch.batches[0], Acknowledged(0, 1, 1, duplicate=False), 12_001)
    accumulator.poll(12_002)
    assert accumulator.waits(13_000) == {}
