"""Answers which queues a topic has, and from which of them a consumer receives.

A queue of the cluster is a queue of the protocol, with the same number. A shard is a *broker*, whose name never
changes. A consumer of a group without order receives from all queues of a shard at once, so it is assigned one queue
with the number -1 for each shard.
"""

from __future__ import annotations

from collections.abc import Mapping

from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.route_table import RoutedTopic
from ledger.errors import UnknownTopicError
from ledger.rocketmq.calls import FrontCall
from ledger.rocketmq.endpoints import HostPort, endpoints_for, is_outside, node_addresses
from ledger.rocketmq.names import group_of, topic_of
from ledger.rocketmq.refusals import FrontRefusal, ok
from ledger.rocketmq.topic_types import named_types
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2

ALL_QUEUES = -1
_SEPARATOR = "-"


async def routed_topic(cluster: ClusterClient, resource: pb.Resource) -> RoutedTopic:
    """Return the topic. Raises FrontRefusal and LedgerError."""
    name = topic_of(resource)
    try:
        return await cluster.topic(name)
    except UnknownTopicError:
        raise FrontRefusal(
            pb.TOPIC_NOT_FOUND,
            f"there is no topic {resource.name!r}: create it with `ledgermq topic create`, or check the name. "
            # Apache's words, which the suite of the Node.js client looks for.
            f"CODE: 17  DESC: No topic route info in name server for the topic: {resource.name}",
        ) from None


async def query_route(
    request: service_pb2.QueryRouteRequest, call: FrontCall, cluster: ClusterClient
) -> service_pb2.QueryRouteResponse:
    topic = await routed_topic(cluster, request.topic)
    addresses = addresses_for(call, request.endpoints, cluster)
    response = service_pb2.QueryRouteResponse(status=ok())
    # A client that repeats a send takes the next queue, which must lead it to another node. If one node leads all
    # queues, they take turns at the nodes.
    takes_turns = len({cluster.routes.table.leader_node(shard) for shard in topic.shards}) == 1
    for queue, shard in enumerate(topic.shards):
        response.message_queues.add(
            topic=request.topic,
            id=queue,
            permission=pb.READ_WRITE,
            broker=broker_of(call, addresses, cluster, shard, queue if takes_turns else 0),
            accept_message_types=named_types(topic, call),
        )
    return response


async def query_assignment(
    request: service_pb2.QueryAssignmentRequest, call: FrontCall, cluster: ClusterClient, *, by_key: bool
) -> service_pb2.QueryAssignmentResponse:
    """Return what a consumer receives from. `by_key`: the group has order by key."""
    group_of(request.group)
    topic = await routed_topic(cluster, request.topic)
    addresses = addresses_for(call, request.endpoints, cluster)
    response = service_pb2.QueryAssignmentResponse(status=ok())
    for shard in dict.fromkeys(topic.shards):
        response.assignments.add().message_queue.CopyFrom(
            pb.MessageQueue(
                topic=request.topic,
                id=topic.shards.index(shard) if by_key else ALL_QUEUES,
                permission=pb.READ_WRITE,
                broker=broker_of(call, addresses, cluster, shard, 0),
                accept_message_types=named_types(topic, call),
            )
        )
    return response


def addresses_for(call: FrontCall, access_point: pb.Endpoints, cluster: ClusterClient) -> dict[int, HostPort]:
    """Return the addresses for this client, by node. Raises FrontRefusal if no node has told its address."""
    known = cluster.routes.table.rocketmq_endpoints()
    addresses = node_addresses(known, is_tls=call.is_tls, outside=is_outside(access_point, known))
    if not addresses:
        raise FrontRefusal(pb.HA_NOT_AVAILABLE, "no node has told its address for RocketMQ clients yet: try again")
    return addresses


def broker_of(
    call: FrontCall, addresses: Mapping[int, HostPort], cluster: ClusterClient, shard: int, turn: int
) -> pb.Broker:
    """Return the broker of a queue. With a larger `turn`, a client that takes one address gets another one."""
    table = cluster.routes.table
    endpoints = endpoints_for(call, addresses, turn, table.leader_node(shard))
    return pb.Broker(name=f"{table.cluster}{_SEPARATOR}{shard}", id=0, endpoints=endpoints)


def shard_of(queue: pb.MessageQueue, cluster: ClusterClient, topic: RoutedTopic) -> int | None:
    """Return the shard that a message queue of a request names, or None if it names none of the topic's."""
    cluster_name, _, number = queue.broker.name.rpartition(_SEPARATOR)
    if cluster_name != cluster.routes.table.cluster or not number.isdecimal() or len(number) > 10:
        return None
    return int(number) if int(number) in topic.shards else None
