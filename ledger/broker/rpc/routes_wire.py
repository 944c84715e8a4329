"""Converts routes and status to protobuf messages."""

from __future__ import annotations

from ledger.broker.node_view import NodeRoutes, NodeView, ReplicaStatus, TopicRoutes
from ledger.state import Topic
from ledger.v1 import broker_pb2


class KnownRoutes:
    """The routes of all topics, as one node knows them. The conversion to protobuf takes milliseconds if there are
    thousands of topics, so it is done only after a change."""

    def __init__(self, view: NodeView) -> None:
        self._view = view
        # The routes that `_response` has.
        self._converted: tuple[NodeRoutes, TopicRoutes] | None = None
        self._response = broker_pb2.GetRouteResponse()

    def response(self) -> broker_pb2.GetRouteResponse:
        """Return the routes. The result is the same object until the routes change, and callers must not change it."""
        nodes, topics = known = (self._view.nodes(), self._view.topics())
        if known != self._converted:
            response = broker_pb2.GetRouteResponse()
            put_nodes(nodes, response)
            put_topics(topics, response)
            self._converted, self._response = known, response
        return self._response


def put_nodes(routes: NodeRoutes, response: broker_pb2.GetRouteResponse) -> None:
    """Put the nodes of the cluster into the response."""
    response.node = routes.node
    response.cluster = routes.cluster
    response.max_message_bytes = routes.max_message_bytes
    response.coordinators = routes.coordinators
    for each in routes.nodes:
        response.nodes.add(
            node=each.node,
            address=each.address,
            room=each.room,
            outside_address=each.outside_address,
            rocketmq_address=each.rocketmq.plain,
            rocketmq_tls_address=each.rocketmq.tls,
            rocketmq_outside_host=each.rocketmq.outside_host,
        )
    response.configuration_index = routes.configuration_index


def put_topics(routes: TopicRoutes, response: broker_pb2.GetRouteResponse) -> None:
    """Put the leader of each shard and the topics into the response."""
    for each in routes.shards:
        response.shards.add(shard=each.shard, term=each.term, leader=each.leader)
    response.topics_index = routes.topics_index
    response.topics.extend(map(topic_route, routes.topics))


def topic_route(topic: Topic) -> broker_pb2.TopicRoute:
    """Return the protobuf message that describes a topic to clients. The result has only the open queues of the
    topic."""
    return broker_pb2.TopicRoute(
        name=topic.name,
        topic_id=topic.topic_id,
        shards=topic.shards[: topic.opened],
        created_ms=topic.created_ms,
        type=topic.type.name,
    )


def shard_status(status: ReplicaStatus) -> broker_pb2.ShardStatus:
    """Return the status of a replica in protobuf."""
    return broker_pb2.ShardStatus(
        shard=status.shard,
        role=status.role,
        term=status.term,
        leader=status.leader,
        last_index=status.last_index,
        commit=status.commit,
        applied=status.applied,
        end_position=status.end_position,
        chain=status.chain,
        suspect=status.suspect,
        feature_level=status.feature_level,
        stopped=status.stopped,
        diverged=status.diverged,
        unacknowledged_by=status.unacknowledged_by,
        rebuilt=status.rebuilt,
        no_writes=status.no_writes,
        clock_offsets_ms=status.clock_offsets_ms,
        first_index=status.first_index,
        start_position=status.start_position,
        flushed_position=status.flushed_position,
        commit_position=status.commit_position,
        applied_position=status.applied_position,
        voted_for=status.voted_for,
        pinned_leader=status.pinned_leader,
        preferred_leader=status.preferred_leader,
    )
