"""Serves the method TraceMessage: checks which places a caller may follow, and turns what is found into protobuf."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.replicas import Replicas
from ledger.broker.rpc.slow_wire import client_on_the_wire
from ledger.broker.rpc.topic_rights import TopicRights
from ledger.broker.slow.senders import Senders
from ledger.broker.tracing.history import MAX_PLACES, MessageHistory
from ledger.broker.tracing.replica_times import replica_times
from ledger.broker.tracing.scan import scan
from ledger.broker.tracing.starts import start_at, waiting_place
from ledger.errors import InvalidArgumentError, PermissionDeniedError, UnknownTopicError
from ledger.message_trace import ReplicaTimes, TracedEntry, TracedPlace, TraceEvent
from ledger.retries import consumer_group_of
from ledger.topics import check_readable
from ledger.v1 import message_trace_pb2 as wire


class MessageTraces:
    """Traces messages on one node. `senders` are the clients of the producers that send to this node."""

    def __init__(self, replicas: Replicas, rights: TopicRights, senders: Senders) -> None:
        self._replicas = replicas
        self._rights = rights
        self._senders = senders

    async def put(self, request: wire.TraceMessageRequest, response: wire.TraceMessageResponse) -> None:
        """Fill in the response. The caller has the right to read the topic of the request. Raises LedgerError, and
        StoreError."""
        replica = self._replicas.require(request.shard)
        start = start_at(replica, self._place(replica, request), self._senders)
        places = [start.place, *self._checked(request.places)]
        response.place.CopyFrom(self._on_the_wire(start.place))
        response.entry.CopyFrom(_entry(start.entry))
        response.times.CopyFrom(_times(replica_times(replica, start.entry.index)))
        events: Iterable[TraceEvent] = start.events
        if request.from_index:
            history = MessageHistory(places, self._topic_name, start.base_offset)
            scanned = await scan(replica, history, request.from_index)
            response.looked_through, response.applied = scanned.through, scanned.applied
            events, places = history.events, history.places
        visible = self._rights.visible_groups({event.group for event in events if event.group})
        for event in events:
            if not event.group or event.group in visible:
                response.events.append(self._event(event))
        response.places.extend(map(self._on_the_wire, self._visible(places, visible)))

    def _place(self, replica: BrokerReplica, request: wire.TraceMessageRequest) -> TracedPlace:
        match request.WhichOneof("message"):
            case "place":
                check_readable(replica.state.topics.require(request.topic_id, request.place.queue).name)
                return TracedPlace(request.topic_id, request.place.queue, request.place.offset)
            case "identity":
                return waiting_place(replica, request.topic_id, request.identity)
            case "message_id":
                found = replica.state.message_ids.known(request.topic_id, [request.message_id], 0)
                for _, record in found:
                    return TracedPlace(record.place_topic_id, record.queue, record.offset)
                raise InvalidArgumentError(
                    f"shard {replica.shard} remembers no message with this id: ids are known for 5 minutes"
                )
            case _:
                raise InvalidArgumentError("a trace must name a message: by its place, its identity, or its id")

    def _checked(self, places: Iterable[wire.TracedPlace]) -> list[TracedPlace]:
        """Return the other places of a request. Raises InvalidArgumentError, or PermissionDeniedError if the caller may
        not know of one of them."""
        given = [TracedPlace(each.topic_id, each.queue, each.offset) for each in places]
        if len(given) > MAX_PLACES:
            raise InvalidArgumentError(f"a message has at most {MAX_PLACES} places, and {len(given)} are given")
        for place in given:
            if not self._may_follow(place):
                raise PermissionDeniedError(f"the caller may not read topic {place.topic_id}")
        return given

    def _may_follow(self, place: TracedPlace) -> bool:
        """Return True if the caller may read the topic, or see the group whose topic it is."""
        group = consumer_group_of(self._topic_name(place.topic_id))
        if group is not None and self._rights.visible_groups([group]):
            return True
        return self._rights.may_read(place.topic_id)

    def _visible(self, places: Iterable[TracedPlace], groups: set[str]) -> list[TracedPlace]:
        return [
            place
            for place in places
            if consumer_group_of(self._topic_name(place.topic_id)) in groups or self._may_follow(place)
        ]

    def _topic_name(self, topic_id: int) -> str:
        try:
            topic = self._replicas.topic(topic_id)
        except UnknownTopicError:
            return ""
        return "" if topic is None else topic.name

    def _on_the_wire(self, place: TracedPlace) -> wire.TracedPlace:
        return wire.TracedPlace(**place._asdict(), topic=self._topic_name(place.topic_id))

    def _event(self, event: TraceEvent) -> wire.TraceEvent:
        return wire.TraceEvent(
            time_ms=event.time_ms,
            index=event.index,
            kind=event.kind,
            group=event.group,
            text=event.text,
            at=self._on_the_wire(event.at),
            to=None if event.to is None else self._on_the_wire(event.to),
        )


def _entry(entry: TracedEntry) -> wire.TracedEntry:
    client = entry.client
    return wire.TracedEntry(
        index=entry.index,
        term=entry.term,
        append_time_ms=entry.append_time_ms,
        count=entry.count,
        producer_id=entry.producer_id,
        epoch=entry.epoch,
        sequence=entry.sequence,
        timestamp_ms=entry.timestamp_ms,
        client=None if client is None else client_on_the_wire(client),
    )


def _times(times: ReplicaTimes) -> wire.ReplicaTimes:
    return wire.ReplicaTimes(
        node=times.node,
        written_ms=times.written_ms,
        flushed_ms=times.flushed_ms,
        committed_ms=times.committed_ms,
        applied_ms=times.applied_ms,
        acknowledged_ms=dict(times.acknowledged_ms),
        leads=times.leads,
        note=times.note,
    )
