"""What a mirror makes of received messages and routes, without servers."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.errors import HeadersTooLargeError, InvalidArgumentError, TooManyHeadersError
from ledger.rocketmq.mirror.mirrored_message import mirrored_message
from ledger.rocketmq.mirror.source_routes import source_route
from ledger.rocketmq.mirror.source_settings import MirrorError, SourceAddress, SourceSettings
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2

NOW_MS = 1_800_000_000_000
ACCESS_POINT = SourceAddress("10.0.0.9", 8081)


def message(properties: dict[str, str] | None = None, **system: Any) -> pb.Message:
    return pb.Message(
        topic=pb.Resource(name="orders"),
        body=b"body",
        user_properties=properties or {},
        system_properties=pb.SystemProperties(**{"message_id": "01AB", **system}),
    )


def test_the_message_group_is_no_property_too() -> None:
    found = mirrored_message(message({"__SHARDINGKEY": "g", "a": "b"}, message_group="g"), NOW_MS)
    assert (found.key, found.headers) == ("g", (("a", b"b"), ("%MESSAGE_ID", b"01AB")))


def test_a_property_with_the_name_of_a_reserved_header_is_copied() -> None:
    found = mirrored_message(message({"%MESSAGE_ID": "theirs"}), NOW_MS)
    assert found.headers == (("\x01%MESSAGE_ID", b"theirs"), ("%MESSAGE_ID", b"01AB"))


def test_a_delivery_time_is_kept_while_it_is_ahead() -> None:
    given = message()
    given.system_properties.delivery_timestamp.FromMilliseconds(NOW_MS + 5)
    assert mirrored_message(given, NOW_MS).deliver_at_ms == NOW_MS + 5
    assert mirrored_message(given, NOW_MS + 5).deliver_at_ms is None


def test_times_that_are_none_are_left_out() -> None:
    given = message()
    given.system_properties.born_timestamp.seconds = 1 << 60
    given.system_properties.delivery_timestamp.nanos = -1
    found = mirrored_message(given, NOW_MS)
    assert (found.timestamp_ms, found.deliver_at_ms) == (None, None)


@pytest.mark.parametrize("message_id", ["", "x" * 257])
def test_a_message_without_a_usable_id_is_known_by_its_place(message_id: str) -> None:
    given = message(message_id=message_id, store_host="10.0.0.1:1", queue_id=3, queue_offset=7)
    assert mirrored_message(given, NOW_MS).message_id == "orders:10.0.0.1:1:3:7"


def test_what_the_cluster_cannot_store_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="without a name"):
        mirrored_message(message({"": "x"}), NOW_MS)
    with pytest.raises(TooManyHeadersError):
        mirrored_message(message({str(number): "" for number in range(129)}), NOW_MS)
    with pytest.raises(HeadersTooLargeError):
        mirrored_message(message({"a": "x" * 20_000}), NOW_MS)


def queue(broker: str, number: int, host: str, *kinds: pb.MessageType, permission: Any = pb.READ_WRITE) -> Any:
    endpoints = pb.Endpoints(scheme=pb.IPv4, addresses=[pb.Address(host=host, port=8081)])
    return pb.MessageQueue(
        id=number, permission=permission, broker=pb.Broker(name=broker, endpoints=endpoints), accept_message_types=kinds
    )


def route_of(*queues: Any) -> Any:
    answer = service_pb2.QueryRouteResponse(message_queues=queues)
    return source_route(answer, SourceSettings([ACCESS_POINT], "mirror", "client"), "orders")


def test_each_broker_is_asked_at_its_own_address_first() -> None:
    route = route_of(
        queue("a", 0, "10.0.0.1", pb.FIFO),
        queue("b", 0, "10.0.0.2", pb.FIFO),
        queue("a", 1, "10.0.0.1", pb.FIFO),
        queue("c", 0, "10.0.0.3", pb.FIFO, permission=pb.WRITE),
    )
    assert [each.name for each in route.brokers] == ["a", "b"]
    assert [str(each) for each in route.brokers[1].addresses] == ["10.0.0.2:8081", "10.0.0.1:8081", "10.0.0.9:8081"]
    assert (route.queues, route.only_groups) == (3, True)


def test_a_topic_that_takes_other_messages_too_has_no_order() -> None:
    assert not route_of(queue("a", 0, "10.0.0.1", pb.NORMAL, pb.FIFO)).only_groups
    assert not route_of(queue("a", 0, "10.0.0.1")).only_groups


def test_a_topic_without_readable_queues_is_told() -> None:
    with pytest.raises(MirrorError, match="no queue"):
        route_of(queue("a", 0, "10.0.0.1", permission=pb.WRITE))


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:0", "host:65536", "host:x"])
def test_an_address_has_a_host_and_a_port(text: str) -> None:
    with pytest.raises(ValueError, match="no address"):
        SourceAddress.parse(text)


def test_an_address_of_version_6_has_brackets() -> None:
    address = SourceAddress.parse("[::1]:8081")
    assert (address.host, str(address)) == ("::1", "[::1]:8081")
