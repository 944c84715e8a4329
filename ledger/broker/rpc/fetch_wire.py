"""The answer to a fetch, and how it is written in protobuf's wire format, `ledger.v1.FetchResponse`.

    FetchResponse    (0x0A | length | FetchedQueue) ... | configuration_index
    FetchedQueue     (0x22 | length | FetchedBatch) ... | all other fields, as protobuf writes them
    FetchedBatch     0x22 | length | body | all other fields, as protobuf writes them

Protobuf copies each body into a message, and the message into an encoding that grows as it goes. Here bodies are
views of the log until the answer is joined from them, once. Fields may come in any order. Queues that give nothing
are left to protobuf.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ledger.v1 import broker_pb2, error_pb2
from ledger.wire_field import field_head

_QUEUE, _BATCH, _BODY = 0x0A, 0x22, 0x22
"""Fields 1, 4 and 4, of the wire type with a length."""


class GivenBatch(NamedTuple):
    """A `FetchedBatch`. The body may be a view of the log, which keeps a whole segment's mapping: not to be kept."""

    base_offset: int
    append_time_ms: int
    term: int
    body: bytes | memoryview


@dataclass(slots=True)
class GivenQueue:
    """A `FetchedQueue`."""

    topic_id: int
    queue: int
    next_offset: int
    first_offset: int = 0
    end_offset: int = 0
    error: error_pb2.Error | None = None
    batches: list[GivenBatch] = field(default_factory=list)


@dataclass(slots=True)
class FetchAnswer:
    """A `FetchResponse`."""

    queues: list[GivenQueue] = field(default_factory=list)
    configuration_index: int = 0


def serialize(answer: FetchAnswer) -> bytes:
    parts: list[bytes | memoryview] = []
    rest = broker_pb2.FetchResponse(configuration_index=answer.configuration_index)
    for queue in answer.queues:
        if queue.batches:
            inside = [*_parts(queue.batches), _without_batches(queue).SerializeToString()]
            parts += (field_head(_QUEUE, sum(map(len, inside))), *inside)
        else:
            rest.queues.append(_without_batches(queue))
    return b"".join((*parts, rest.SerializeToString()))


def _parts(batches: Iterable[GivenBatch]) -> list[bytes | memoryview]:
    parts: list[bytes | memoryview] = []
    for batch in batches:
        rest = broker_pb2.FetchedBatch(
            base_offset=batch.base_offset, append_time_ms=batch.append_time_ms, term=batch.term
        ).SerializeToString()
        head = field_head(_BODY, len(batch.body))
        parts += (field_head(_BATCH, len(head) + len(batch.body) + len(rest)), head, batch.body, rest)
    return parts


def _without_batches(given: GivenQueue) -> broker_pb2.FetchedQueue:
    return broker_pb2.FetchedQueue(
        topic_id=given.topic_id,
        queue=given.queue,
        error=given.error,
        next_offset=given.next_offset,
        first_offset=given.first_offset,
        end_offset=given.end_offset,
    )
