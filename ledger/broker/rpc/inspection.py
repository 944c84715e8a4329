"""The Inspection service: what people who look at a cluster ask of each single node.

Each node answers for itself, from its memory and the headers in its log, and also without a leader. So the answers of
all nodes side by side show whether the replicas agree.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ledger.broker.access.audit import AuditLog
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.node_events import NodeEvents
from ledger.broker.replicas import Replicas
from ledger.broker.rpc.refusals import RefusingService, answers, storage_checked
from ledger.broker.rpc.slow_wire import put_slow_requests
from ledger.broker.rpc.trace_wire import MessageTraces
from ledger.broker.slow.slow_requests import SlowRequests
from ledger.errors import InvalidArgumentError
from ledger.v1 import inspection_pb2, inspection_pb2_grpc, message_trace_pb2, slow_requests_pb2
from ledger.version import VERSION
from store import Header

# The most entries of one answer.
MAX_ENTRIES = 500


@dataclass(slots=True)
class Traffic:
    """What a node has taken and given out for one topic since its start."""

    messages_in: int = 0
    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0


@dataclass(frozen=True, slots=True)
class Inspected:
    """What the service shows of its node. `run` is a number of this run of the node. `traffic()` returns the traffic by
    topic, and `disk_use_ratio()` the used part of the log's disk, from 0 to 1. `slow` are the slow requests,
    and `traces` traces messages."""

    run: int
    events: NodeEvents
    audit: AuditLog
    traffic: Callable[[], Mapping[str, Traffic]]
    disk_use_ratio: Callable[[], float]
    slow: SlowRequests
    traces: MessageTraces
    # The settings of the node as JSON, without secrets, and the newest lines of its log.
    settings: str = "{}"
    log_lines: Callable[[], Sequence[str]] = list


class InspectionService(RefusingService, inspection_pb2_grpc.InspectionServicer):
    def __init__(self, replicas: Replicas, inspected: Inspected) -> None:
        self._replicas = replicas
        self._inspected = inspected

    @answers(inspection_pb2.GetEventsResponse)
    async def GetEvents(  # noqa: N802 (gRPC names)
        self, request: inspection_pb2.GetEventsRequest, response: inspection_pb2.GetEventsResponse
    ) -> None:
        response.run = self._inspected.run
        after = request.after if request.run == self._inspected.run else 0
        for event in self._inspected.events.after(after):
            response.events.add(
                number=event.number,
                time_ms=event.time_ms,
                shard=event.shard,
                kind=event.kind,
                text=event.text,
                term=event.term,
                subject=event.subject,
            )

    @answers(inspection_pb2.ListEntriesResponse)
    async def ListEntries(  # noqa: N802
        self, request: inspection_pb2.ListEntriesRequest, response: inspection_pb2.ListEntriesResponse
    ) -> None:
        replica = self._replicas.require(request.shard)
        log = replica.log
        response.first_index, response.last_index = log.first_index, log.last_index
        response.commit, response.applied = replica.driver.raft.commit, replica.driver.applied
        with storage_checked("this node cannot read its log"):
            response.entries.extend(listed(header) for header in headers(replica, request.last, request.count))

    @answers(inspection_pb2.GetTrafficResponse)
    async def GetTraffic(  # noqa: N802
        self, request: inspection_pb2.GetTrafficRequest, response: inspection_pb2.GetTrafficResponse
    ) -> None:
        response.disk_use_ratio = self._inspected.disk_use_ratio()
        for topic, traffic in self._inspected.traffic().items():
            response.topics.add(
                topic=topic,
                messages_in=traffic.messages_in,
                bytes_in=traffic.bytes_in,
                messages_out=traffic.messages_out,
                bytes_out=traffic.bytes_out,
            )

    @answers(inspection_pb2.GetAuditLogResponse)
    async def GetAuditLog(  # noqa: N802
        self, request: inspection_pb2.GetAuditLogRequest, response: inspection_pb2.GetAuditLogResponse
    ) -> None:
        for line in self._inspected.audit.after(request.after):
            response.lines.add(number=line.number, time_ms=line.time_ms, text=line.text)

    @answers(slow_requests_pb2.GetSlowRequestsResponse)
    async def GetSlowRequests(  # noqa: N802
        self,
        request: slow_requests_pb2.GetSlowRequestsRequest,
        response: slow_requests_pb2.GetSlowRequestsResponse,
    ) -> None:
        put_slow_requests(self._inspected.slow, request.threshold_ms, response)

    @answers(message_trace_pb2.TraceMessageResponse)
    async def TraceMessage(  # noqa: N802
        self, request: message_trace_pb2.TraceMessageRequest, response: message_trace_pb2.TraceMessageResponse
    ) -> None:
        with storage_checked("this node cannot read its log"):
            await self._inspected.traces.put(request, response)

    @answers(inspection_pb2.GetNodeReportResponse)
    async def GetNodeReport(  # noqa: N802
        self, request: inspection_pb2.GetNodeReportRequest, response: inspection_pb2.GetNodeReportResponse
    ) -> None:
        response.settings = self._inspected.settings
        response.log_lines.extend(self._inspected.log_lines())
        response.versions["ledgermq"] = VERSION
        response.versions["python"] = platform.python_version()
        response.versions["system"] = platform.platform()


def headers(replica: BrokerReplica, last: int, count: int) -> list[Header]:
    """Return the headers of up to `count` entries, which end at entry `last`, or at the end of the log if `last` is 0
    or beyond the end. Raises InvalidArgumentError."""
    if not 0 < count <= MAX_ENTRIES:
        raise InvalidArgumentError(f"count = {count} is out of range: ask for 1 to {MAX_ENTRIES} entries")
    log = replica.log
    end = min(last or log.last_index, log.last_index)
    first = max(log.first_index, end - count + 1)
    return [log.reading.header(index) for index in range(first, end + 1)]


def listed(header: Header) -> inspection_pb2.ListedEntry:
    return inspection_pb2.ListedEntry(
        index=header.index,
        term=header.term,
        kind=header.kind.name.lower().replace("_", " "),
        position=header.position,
        size=header.size,
        append_time_ms=header.append_time_ms,
        crc=header.crc,
        chain=header.chain,
        count=header.count,
        topic_id=header.topic_id,
        queue=header.queue,
        base_offset=header.base_offset,
    )
