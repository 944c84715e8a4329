"""Finds the servers that have the queues of a topic."""

from __future__ import annotations

from dataclasses import dataclass

from ledger.rocketmq.mirror.source_connection import SourceConnection
from ledger.rocketmq.mirror.source_settings import MirrorError, SourceAddress, SourceSettings
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2

MAX_BROKERS = 1_000


@dataclass(frozen=True, slots=True)
class SourceBroker:
    """A broker, one of its queues, and the addresses at which it is served."""

    name: str
    queue: int
    addresses: tuple[SourceAddress, ...]


@dataclass(frozen=True, slots=True)
class SourceRoute:
    """The brokers of a topic, and how many queues it has. `only_groups`: all its messages have message groups."""

    brokers: tuple[SourceBroker, ...]
    queues: int
    only_groups: bool


async def query_source_route(connection: SourceConnection, settings: SourceSettings, topic: str) -> SourceRoute:
    """Return the route of a topic. Raises MirrorError."""
    request = service_pb2.QueryRouteRequest(topic=pb.Resource(name=topic), endpoints=settings.endpoints)
    answer = await connection.call("QueryRoute", request)
    connection.check(answer.status, f"the route of topic {topic!r}")
    return source_route(answer, settings, topic)


async def check_source_group(connection: SourceConnection, settings: SourceSettings, topic: str) -> None:
    """Raise MirrorError if the servers refuse the consumer group of the mirror."""
    request = service_pb2.QueryAssignmentRequest(
        topic=pb.Resource(name=topic), group=pb.Resource(name=settings.group), endpoints=settings.endpoints
    )
    answer = await connection.call("QueryAssignment", request)
    connection.check(answer.status, f"group {settings.group!r}")


def source_route(answer: service_pb2.QueryRouteResponse, settings: SourceSettings, topic: str) -> SourceRoute:
    """Return what an answer says. The addresses of a broker are followed by those of the others, because each proxy
    serves all of them. Raises MirrorError if no queue can be read."""
    queues = [queue for queue in answer.message_queues if queue.permission in (pb.READ, pb.READ_WRITE)]
    firsts = {queue.broker.name: queue for queue in reversed(queues)}
    if not 1 <= len(firsts) <= MAX_BROKERS:
        raise MirrorError(f"topic {topic!r} has no queue that can be read", retriable=True)
    all_addresses = [address for queue in queues for address in _addresses(queue.broker.endpoints)]
    others = [*all_addresses, *settings.access_points]
    types = {kind for queue in queues for kind in queue.accept_message_types}
    return SourceRoute(
        tuple(
            SourceBroker(name, queue.id, tuple(dict.fromkeys((*_addresses(queue.broker.endpoints), *others))))
            for name, queue in sorted(firsts.items())
        ),
        len(queues),
        only_groups=types == {pb.FIFO},
    )


def _addresses(endpoints: pb.Endpoints) -> list[SourceAddress]:
    return [
        SourceAddress(each.host.strip("[]"), each.port)
        for each in endpoints.addresses
        if each.host and 0 < each.port < 1 << 16
    ]
