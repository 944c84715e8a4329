"""Writes the result of a fetch in protobuf's wire format (`ledger.v1.FetchResponse`), and copies the message bytes
only once.

    FetchResponse    (0x0A | length | FetchedQueue) ... | configuration_index
    FetchedQueue     (0x22 | length | FetchedBatch) ... | all other fields, written by protobuf
    FetchedBatch     0x22 | length | body | all other fields, written by protobuf

The protobuf library would copy each body into a message object, and then the message into a growing buffer. In this
module, bodies are views of the log until they are copied once, into the response. Protobuf allows the fields of a
message in any order. This module writes the queues with batches first, and the protobuf library writes the queues
without batches after them.
"""

from __future__ import annotations

from collections.abc import Iterable

from ledger.broker.fetch.fetch import MAX_FETCH_QUEUES
from ledger.broker.fetch.fetch_result import FetchedBatch, FetchedQueue, FetchResult
from ledger.errors import LedgerError, to_wire
from ledger.v1 import broker_pb2
from ledger.wire_field import field_head

# Fields 1, 4 and 4, of the wire type with a length.
_QUEUE, _BATCH, _BODY = 0x0A, 0x22, 0x22


def serialize(result: FetchResult, configuration_index: int) -> bytes:
    """Return the bytes of a FetchResponse."""
    parts: list[bytes | memoryview] = []
    rest = broker_pb2.FetchResponse(configuration_index=configuration_index)
    for queue in result.queues:
        if queue.batches:
            inside = [*_parts(queue.batches), _without_batches(queue).SerializeToString()]
            parts += (field_head(_QUEUE, sum(map(len, inside))), *inside)
        else:
            rest.queues.append(_without_batches(queue))
    return b"".join((*parts, rest.SerializeToString()))


def serialize_refusal(request: broker_pb2.FetchRequest, error: LedgerError) -> bytes:
    """Return the bytes of a FetchResponse that refuses the queues of the request, of which the first MAX_FETCH_QUEUES
    count."""
    why = to_wire(error)
    response = broker_pb2.FetchResponse()
    for each in request.queues[:MAX_FETCH_QUEUES]:
        response.queues.add(topic_id=each.topic_id, queue=each.queue, next_offset=each.offset, error=why)
    return response.SerializeToString()


def _parts(batches: Iterable[FetchedBatch]) -> list[bytes | memoryview]:
    parts: list[bytes | memoryview] = []
    for batch in batches:
        rest = broker_pb2.FetchedBatch(
            base_offset=batch.base_offset, append_time_ms=batch.append_time_ms, term=batch.term
        ).SerializeToString()
        head = field_head(_BODY, len(batch.body))
        parts += (field_head(_BATCH, len(head) + len(batch.body) + len(rest)), head, batch.body, rest)
    return parts


def _without_batches(given: FetchedQueue) -> broker_pb2.FetchedQueue:
    return broker_pb2.FetchedQueue(
        topic_id=given.topic_id,
        queue=given.queue,
        error=None if given.error is None else to_wire(given.error),
        next_offset=given.next_offset,
        first_offset=given.first_offset,
        end_offset=given.end_offset,
    )
