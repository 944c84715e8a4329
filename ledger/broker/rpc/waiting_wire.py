"""Turns lists of waiting messages into protobuf."""

from __future__ import annotations

from ledger.broker.timed.listing import WaitingList, WaitingQuery
from ledger.timed import MAX_DELIVERY_MS
from ledger.v1 import broker_pb2
from store import TimedKey


def waiting_query(request: broker_pb2.ListTimedRequest) -> WaitingQuery:
    """Return the query of a request."""
    after = request.after
    return WaitingQuery(
        topic_id=request.topic_id,
        from_ms=request.from_ms if request.HasField("from_ms") else 0,
        to_ms=request.to_ms if request.HasField("to_ms") else MAX_DELIVERY_MS + 1,
        limit=request.limit,
        after=TimedKey(after.delivery_ms, after.identity) if request.HasField("after") else None,
        with_values=request.with_values,
    )


def put_waiting(found: WaitingList, response: broker_pb2.ListTimedResponse) -> None:
    """Put the messages into the response."""
    for message in found.messages:
        response.messages.add(
            place=_place(message.place),
            topic_id=message.topic_id,
            queue=message.queue,
            timestamp_ms=message.timestamp_ms,
            key=message.key,
            tag=message.tag,
            size=message.size,
            value=message.value,
            headers=[broker_pb2.ListedHeader(name=name, value=value) for name, value in message.headers],
            unreadable=message.unreadable,
            look_up_keys=message.look_up_keys,
        )
    if found.next is not None:
        response.next.CopyFrom(_place(found.next))


def _place(key: TimedKey) -> broker_pb2.WaitingPlace:
    return broker_pb2.WaitingPlace(delivery_ms=key.time_ms, identity=key.identity)
