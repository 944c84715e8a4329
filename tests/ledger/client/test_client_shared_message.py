"""Messages of a shared group, as a client makes them from the answer of a node."""

from __future__ import annotations

import pytest

from ledger.batch import encode
from ledger.client.shared.shared_message import EXTEND, MessageLease, SentChange, changes_of, leased_messages
from ledger.errors import CorruptBatchError
from ledger.v1.consumer_group_pb2 import SharedBatch


def batch(*attempts: int) -> SharedBatch:
    body = encode(
        [b"a", b"b"], topic_id=1, queue=2, producer_id=1, epoch=0, first_sequence=0, base_timestamp_ms=0
    )  # fmt: skip
    return SharedBatch(topic_id=1, queue=2, base_offset=40, body=body, lease=7, resets=3, attempts=attempts)


def test_messages_have_their_leases_and_attempts() -> None:
    first, second = leased_messages(5, "orders", batch(1, 4), 10.0, 40.0, check_crc=True)
    assert (first.value, first.lease, first.attempt) == (b"a", MessageLease(5, 1, 2, 40, 7, 3), 1)
    assert (second.value, second.lease, second.attempt) == (b"b", MessageLease(5, 1, 2, 41, 7, 3), 4)
    assert (second.asked_s, second.ends_s) == (10.0, 40.0)


@pytest.mark.parametrize("attempts", [(), (1,), (1, 1, 1)])
def test_a_batch_with_attempts_of_other_messages_is_refused(attempts: tuple[int, ...]) -> None:
    with pytest.raises(CorruptBatchError, match='2 messages of queue 2 of topic "orders" with attempts of'):
        leased_messages(5, "orders", batch(*attempts), 10.0, 40.0, check_crc=True)


def test_a_change_names_the_leases_from_which_it_was_made() -> None:
    leases = [MessageLease(5, 1, 2, offset, 7, 3) for offset in (41, 40, 43)]
    changes = [SentChange(5, change, counted=1) for change in changes_of(leases, EXTEND, 1_000)]
    assert [list(each.leases) for each in changes] == [[leases[1], leases[0]], [leases[2]]]
    assert [each.counts_for_all for each in changes] == [False, True]
