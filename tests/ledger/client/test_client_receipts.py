"""Tests the result of `send_many`: offset ranges in order, and errors that say what was acknowledged."""

from __future__ import annotations

import pytest

from ledger.client.producer.producer_batch import Acknowledged
from ledger.client.producer.receipts import ManyReceipt
from ledger.client.records import RecordRange
from ledger.errors import DeliveryTimeoutError, MessageTooLargeError, RequestTimeoutError

ANSWER = Acknowledged(0, 1, 9, duplicate=False)


async def test_the_ranges_come_in_the_order_of_the_slices() -> None:
    receipt = ManyReceipt("t")
    first, second = receipt.slice(2), receipt.slice(3)
    second.acknowledged(1, 7, 3, ANSWER)
    first.acknowledged(0, 5, 2, ANSWER)
    assert await receipt.result() == [RecordRange("t", 0, 5, 2), RecordRange("t", 1, 7, 3)]


async def test_an_error_carries_what_was_acknowledged() -> None:
    receipt = ManyReceipt("t")
    slices = [receipt.slice(10) for _ in range(3)]
    slices[2].acknowledged(0, 20, 10, ANSWER)
    slices[1].failed(RequestTimeoutError("too late"))
    slices[0].acknowledged(0, 5, 10, ANSWER)
    with pytest.raises(RequestTimeoutError, match="too late") as raised:
        await receipt.result()
    assert vars(raised.value)["acknowledged"] == [RecordRange("t", 0, 5, 10), RecordRange("t", 0, 20, 10)]
    assert raised.value.__notes__ == ["Of the first 30 messages, 20 were acknowledged: see `acknowledged`."]


async def test_two_whose_messages_shared_a_batch_do_not_share_what_was_acknowledged() -> None:
    error = DeliveryTimeoutError("too late", maybe_committed=True)
    error.__cause__ = RequestTimeoutError("no answer")
    told = []
    for offset in (5, 6):
        receipt = ManyReceipt("t")
        receipt.slice(1).acknowledged(0, offset, 1, ANSWER)
        receipt.slice(1).failed(error)
        with pytest.raises(DeliveryTimeoutError, match="too late") as raised:
            await receipt.result()
        told.append(raised.value)
    assert [vars(one)["acknowledged"][0].first_offset for one in told] == [5, 6]
    assert [len(one.__notes__) for one in told] == [1, 1]
    assert all(one.maybe_committed and one.__cause__ is error.__cause__ for one in told)
    assert str(told[0]) == told[0].message == "too late"


@pytest.mark.parametrize("unknown_first", [True, False])
async def test_that_a_fate_is_unknown_is_said_before_anything_else(unknown_first: bool) -> None:
    receipt = ManyReceipt("t")
    errors = [DeliveryTimeoutError("unknown", maybe_committed=True), MessageTooLargeError("too large")]
    for error in errors if unknown_first else reversed(errors):
        receipt.slice(1).failed(error)
    with pytest.raises(DeliveryTimeoutError, match="unknown"):
        await receipt.result()
