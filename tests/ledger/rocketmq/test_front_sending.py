"""Which queue a message of a RocketMQ client goes to."""

from __future__ import annotations

from ledger.hashing import queue_of
from ledger.rocketmq.outgoing_message import FrontLimits, FrontMessage, outgoing_message
from ledger.rocketmq.sending import queue_for
from ledger.rocketmq.v2 import definition_pb2 as pb

QUEUES = 8


def message(message_id: str, group: str | None = None) -> FrontMessage:
    system = pb.SystemProperties(message_id=message_id, message_group=group)
    return outgoing_message(pb.Message(body=b"x", system_properties=system), "orders", FrontLimits(), 0)


def queue(message_id: str) -> int | None:
    return queue_for(message(message_id), QUEUES)


def test_messages_that_a_client_sends_one_after_another_share_a_queue() -> None:
    assert {queue(f"01AABBCCDDEEFF00016B079EB7{number:08X}") for number in range(0x40, 0x50)} == {
        queue("01AABBCCDDEEFF00016B079EB700000040")
    }


def test_the_messages_of_a_client_use_all_queues() -> None:
    assert {queue(f"01AABBCCDDEEFF00016B079EB7{number:08X}") for number in range(2_000)} == set(range(QUEUES))


def test_short_ids_choose_by_all_their_characters() -> None:
    assert [queue(f"order-{number}") for number in range(5)] == [
        queue_of(b"order-%d" % number, QUEUES) for number in range(5)
    ]


def test_a_message_group_chooses_the_queue_as_a_key() -> None:
    assert queue_for(message("01AABBCCDDEEFF00016B079EB700000001", "customer 7"), QUEUES) is None
