"""Tests of the texts by which RocketMQ clients acknowledge and recall messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.client.shared.shared_message import MessageLease
from ledger.limits import MAX_OFFSET
from ledger.rocketmq.handles import ReceiptHandle, read_recall_handle, recall_handle
from ledger.rocketmq.refusals import FrontRefusal
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.timed import TimedHandle

U32, U64 = (st.integers(0, (1 << bits) - 1) for bits in (32, 64))
LEASES = st.builds(MessageLease, U32, U32, U32, st.integers(0, MAX_OFFSET - 1), U64, U64)
LEASE = MessageLease(1, 7, 3, 12, 99, 0)


@given(LEASES, st.booleans())
def test_a_receipt_handle_comes_back_from_its_text(lease: MessageLease, in_time: bool) -> None:
    handle = ReceiptHandle.of("billing", lease, in_time=in_time)
    assert ReceiptHandle.parse(str(handle), "billing", lease.topic_id) == handle
    assert str(handle).isascii()
    assert " " not in str(handle)


def test_a_handle_that_was_changed_has_a_larger_serial() -> None:
    handle = ReceiptHandle.of("billing", LEASE)
    changed = ReceiptHandle.parse(str(handle.changed()), "billing", LEASE.topic_id)
    assert (changed.lease, changed.serial) == (LEASE, handle.serial + 1)


@pytest.mark.parametrize(("group", "topic_id"), [("other", LEASE.topic_id), ("billing", LEASE.topic_id + 1)])
def test_a_handle_of_another_group_or_topic_is_refused(group: str, topic_id: int) -> None:
    text = str(ReceiptHandle.of("billing", LEASE))
    with pytest.raises(FrontRefusal) as refused:
        ReceiptHandle.parse(text, group, topic_id)
    assert refused.value.code == pb.INVALID_RECEIPT_HANDLE


@pytest.mark.parametrize("offset", [MAX_OFFSET, MAX_OFFSET + 1, (1 << 64) - 1])
def test_a_handle_of_an_offset_that_no_message_has_is_refused(offset: int) -> None:
    text = str(ReceiptHandle.of("billing", LEASE._replace(offset=offset)))
    with pytest.raises(FrontRefusal, match="names no message"):
        ReceiptHandle.parse(text, "billing", LEASE.topic_id)


@given(st.text(max_size=120))
def test_a_text_that_is_no_handle_is_refused(text: str) -> None:
    with pytest.raises(FrontRefusal):
        ReceiptHandle.parse(text, "billing", 7)
    with pytest.raises(FrontRefusal):
        read_recall_handle(text)


@given(st.integers(0, 100), st.characters(codec="ascii"))
def test_a_handle_with_another_character_is_refused(at: int, letter: str) -> None:
    text = str(ReceiptHandle.of("billing", LEASE))
    at %= len(text)
    if text[at] == letter:
        return
    with pytest.raises(FrontRefusal):
        ReceiptHandle.parse(text[:at] + letter + text[at + 1 :], "billing", LEASE.topic_id)


@given(st.text(min_size=1, max_size=60))
def test_a_recall_handle_has_the_message_id(message_id: str) -> None:
    native = TimedHandle(3, 2, 1_000, 1_800_000_000_000)
    assert read_recall_handle(recall_handle(str(native), message_id)) == (native, message_id)
