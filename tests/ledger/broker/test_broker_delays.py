"""When the messages of a retry topic are due."""

from __future__ import annotations

import pytest

from ledger.batch import encode
from ledger.broker.consumer_groups.delays import Delays, Due
from ledger.errors import StorageFailedError
from ledger.retries import retry_topic
from ledger.state import TopicQueueId
from ledger.state.commands import CreateTopic
from store import EntryDraft, EntryKind
from tests.ledger.broker.shared.leader import GROUP, NOW_MS, ORDERS, LeasingLeader

RETRIES = TopicQueueId(3, 0)


def leader_with_retries(*passed_ms: int) -> LeasingLeader:
    """Return a leader whose retry topic gets one message after each of these times."""
    leader = LeasingLeader()
    leader.append(CreateTopic(retry_topic(GROUP), 1))
    for offset, passed in enumerate(passed_ms):
        leader.pass_ms(passed)
        body = encode(
            [b"again"], topic_id=RETRIES.topic_id, queue=0, producer_id=offset + 1, epoch=0, first_sequence=0,
            base_timestamp_ms=NOW_MS,
        )  # fmt: skip
        leader.append(EntryDraft(EntryKind.BATCH, body, RETRIES.topic_id, 0, offset, 1))
    return leader


def test_a_message_is_due_after_the_delay_of_its_queue() -> None:
    leader = leader_with_retries(0, 4_000)
    delays = Delays([10.0])
    assert delays.due(leader.replica, *RETRIES) == Due(0, 6.0)
    leader.pass_ms(6_000)
    assert delays.due(leader.replica, *RETRIES) == Due(1, 4.0)
    leader.pass_ms(4_000)
    assert delays.due(leader.replica, *RETRIES) == Due(2, None)


def test_a_message_of_another_topic_has_no_delay() -> None:
    assert Delays([10.0]).due(leader_with_retries().replica, ORDERS, 0) is None


def test_a_damaged_entry_is_told_as_a_failed_storage() -> None:
    leader = leader_with_retries(0, 4_000)
    leader.spoil(RETRIES, 0)
    with pytest.raises(StorageFailedError, match="this node cannot read when messages are due: "):
        Delays([10.0]).due(leader.replica, *RETRIES)
