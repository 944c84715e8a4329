"""Traces one message: asks every node when it had the message, and one node for the events in the log behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import grpc.aio

from ledger.client.admin.queries import get_message
from ledger.client.admin.slow_requests import calling_client
from ledger.client.connection.channels import failure
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.producer.arguments import checked_message_id
from ledger.client.records import Message
from ledger.errors import (
    InvalidArgumentError,
    LedgerError,
    NoLeaderError,
    NotLeaderError,
    PermissionDeniedError,
    from_wire,
)
from ledger.message_trace import ReplicaTimes, TracedEntry, TracedPlace, TraceEvent
from ledger.timed import TimedHandle
from ledger.v1 import message_trace_pb2 as wire

# Entries that a trace reads by default: about 20 s of a node's work at the most.
MAX_ENTRIES = 1_000_000
_SECONDS = 10.0

# Called with the entries that were read so far, and how many there are to read.
OnTraceProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class MessageTrace:
    """What is known of the life of one message. All times are in ms since 1970."""

    topic: str
    queue: int
    offset: int
    shard: int
    # The message, or None if it waits for its delivery or for the end of its transaction.
    message: Message | None
    entry: TracedEntry
    # One item for each node with a replica of the shard, sorted by node.
    replicas: tuple[ReplicaTimes, ...]
    # In the order of the log. Events of groups that the user may not see are left out.
    events: tuple[TraceEvent, ...]
    # The names of the topics of the places in `events`, by id.
    topics: Mapping[int, str] = field(default_factory=dict)
    # The log was read up to the entry `looked_through`, and had `applied` entries when the trace began.
    looked_through: int = 0
    applied: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether the log was read to its end."""
        return self.looked_through >= self.applied

    def name_of(self, place: TracedPlace) -> str:
        """Return `topic:queue:offset` of a place."""
        return f"{self.topics.get(place.topic_id) or '(deleted)'}:{place.queue}:{place.offset}"


async def trace_place(
    client: ClusterClient, topic: RoutedTopic, queue: int, offset: int, most: int, on_progress: OnTraceProgress | None
) -> MessageTrace:
    """Trace the message at this place. Raises LedgerError if there is none."""
    message = await get_message(client, topic, queue, offset)
    request = wire.TraceMessageRequest(shard=topic.shards[queue], topic_id=topic.topic_id)
    request.place.queue, request.place.offset = queue, offset
    return replace(await _trace(client, request, most, on_progress), message=message)


async def trace_handle(
    client: ClusterClient, text: str, most: int, on_progress: OnTraceProgress | None
) -> MessageTrace:
    """Trace a message that waits, or waited, for its delivery time. Raises LedgerError if there is none."""
    handle = TimedHandle.parse(text)
    request = wire.TraceMessageRequest(shard=handle.shard, topic_id=handle.topic_id, identity=handle.identity)
    return await _trace(client, request, most, on_progress)


async def trace_id(
    client: ClusterClient, topic: RoutedTopic, message_id: bytes | str, most: int, on_progress: OnTraceProgress | None
) -> MessageTrace:
    """Trace the message that was sent to the topic with this id. Raises InvalidArgumentError if no shard remembers
    it."""
    hashed, unknown = checked_message_id(message_id), None
    for shard in sorted(set(topic.shards)):
        request = wire.TraceMessageRequest(shard=shard, topic_id=topic.topic_id, message_id=hashed)
        try:
            return await _trace(client, request, most, on_progress)
        except InvalidArgumentError as error:
            unknown = error
    raise InvalidArgumentError(
        f"No message with the id {message_id!r} was sent to the topic in the last 5 minutes: find it by its key."
    ) from unknown


async def _trace(
    client: ClusterClient, request: wire.TraceMessageRequest, most: int, on_progress: OnTraceProgress | None
) -> MessageTrace:
    nodes = sorted(client.routes.table.nodes.items())
    answers = await asyncio.gather(*(_ask(client, node, address, request) for node, address in nodes))
    found = [answer for answer in answers if isinstance(answer, wire.TraceMessageResponse)]
    if not found:
        raise next((each for each in answers if isinstance(each, LedgerError)), NoLeaderError("No node answered."))
    best = max(found, key=lambda answer: answer.times.leads)
    known = next((answer for answer in found if answer.entry.HasField("client")), best)
    history = await _History(client, request, best).read(most, on_progress)
    place = best.place
    return MessageTrace(
        place.topic,
        place.queue,
        place.offset,
        request.shard,
        None,
        _entry(known.entry),
        tuple(_replica(node, answer) for (node, _), answer in zip(nodes, answers, strict=True) if answer is not None),
        tuple(history.events),
        history.topics,
        history.through,
        history.applied,
    )


async def _ask(
    client: ClusterClient, node: int, address: str, request: wire.TraceMessageRequest
) -> wire.TraceMessageResponse | LedgerError | None:
    """Return the answer of a node, why there is none, or None if the node has no replica of the shard. Raises
    PermissionDeniedError."""
    try:
        response: wire.TraceMessageResponse = await client.connections.stub(address).TraceMessage(
            request, timeout=_SECONDS
        )
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            return LedgerError(f"Node {node} runs an older version of ledgermq: upgrade it.")
        failed = failure(address, error)
        if isinstance(failed, PermissionDeniedError):
            raise failed from error
        return failed
    if not response.HasField("error"):
        return response
    refusal = client.routes.table.with_names(from_wire(response.error))
    return None if isinstance(refusal, NotLeaderError) else refusal


class _History:
    """Reads the events behind the message, from the node that gave `first`."""

    def __init__(
        self, client: ClusterClient, request: wire.TraceMessageRequest, first: wire.TraceMessageResponse
    ) -> None:
        self.events: list[TraceEvent] = []
        self.topics: dict[int, str] = {}
        self.through = first.entry.index
        self.applied = 0
        self._client = client
        self._request = wire.TraceMessageRequest()
        self._request.CopyFrom(request)
        self._address = client.node_address(first.times.node)
        # (group, place) of acknowledgements that are listed. Each answer begins anew.
        self._listed: set[tuple[str, TracedPlace]] = set()
        self._add(first)

    async def read(self, most: int, on_progress: OnTraceProgress | None) -> _History:
        begin = self.through
        while self.through - begin < most:
            self._request.from_index = self.through + 1
            response = await self._client.connections.stub(self._address).TraceMessage(self._request, timeout=_SECONDS)
            if response.HasField("error"):
                raise self._client.routes.table.with_names(from_wire(response.error))
            self.applied = self.applied or response.applied
            is_at_end = response.looked_through >= self.applied or response.looked_through <= self.through
            self.through = max(self.through, response.looked_through)
            self._add(response)
            if on_progress is not None:
                on_progress(self.through - begin, min(most, self.applied - begin))
            if is_at_end:
                break
        return self

    def _add(self, response: wire.TraceMessageResponse) -> None:
        for place in response.places:
            self.topics[place.topic_id] = place.topic
        del self._request.places[:]
        self._request.places.extend(response.places[1:])
        for each in response.events:
            event = _event(each)
            for place in (each.at, each.to):
                if place.topic:
                    self.topics[place.topic_id] = place.topic
            key = (event.group, event.at)
            if event.kind == "acknowledged":
                if key in self._listed:
                    continue
                self._listed.add(key)
            elif event.kind in ("reset", "forgotten"):
                self._listed.discard(key)
            self.events.append(event)


def _replica(node: int, answer: wire.TraceMessageResponse | LedgerError | None) -> ReplicaTimes:
    if not isinstance(answer, wire.TraceMessageResponse):
        return ReplicaTimes(node, note=f"no answer: {answer}")
    times = answer.times
    return ReplicaTimes(
        node,
        times.written_ms if times.HasField("written_ms") else None,
        times.flushed_ms if times.HasField("flushed_ms") else None,
        times.committed_ms if times.HasField("committed_ms") else None,
        times.applied_ms if times.HasField("applied_ms") else None,
        tuple(sorted(times.acknowledged_ms.items())),
        times.leads,
        times.note,
    )


def _entry(entry: wire.TracedEntry) -> TracedEntry:
    return TracedEntry(
        entry.index,
        entry.term,
        entry.append_time_ms,
        entry.count,
        entry.producer_id,
        entry.epoch,
        entry.sequence,
        entry.timestamp_ms,
        calling_client(entry.client) if entry.HasField("client") else None,
    )


def _event(event: wire.TraceEvent) -> TraceEvent:
    to = TracedPlace(event.to.topic_id, event.to.queue, event.to.offset) if event.HasField("to") else None
    at = TracedPlace(event.at.topic_id, event.at.queue, event.at.offset)
    return TraceEvent(event.time_ms, event.index, event.kind, event.group, event.text, at, to)
