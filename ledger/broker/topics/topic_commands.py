"""Proposes the commands that change topics and add shards.

`open_topic` and `delete_topic` are proposed in any shard; all other commands are proposed in shard 0. The leader
chooses the shards of new queues, because the leader knows which topics are being created. The command that creates
a topic states the shards that the leader has chosen. Every function raises LedgerError if the replica does not
lead. A returned future ends in LedgerError if the replica stops leading before the commit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.topics.placement import place_queues, place_shard
from ledger.errors import BusyError, InvalidArgumentError, UnknownNodeError, UnknownTopicError
from ledger.state import DeletedTopic, Topic
from ledger.state.commands import AddShard, AlterTopic, CreateTopic, DeleteTopic, OpenTopic, TopicOpened
from ledger.topics import MAX_QUEUES, TopicType, validate_queue_count, validate_topic_name, validate_topic_type

# The most bytes of a command that one queue needs.
_BYTES_A_QUEUE = 5


def create_topic(
    replica: BrokerReplica, name: str, queues: int, topic_type: int = TopicType.MIXED, replicas: int = 0
) -> asyncio.Future[Topic]:
    """Create a topic of a user. The topic's queues are placed in the shards with the fewest queues, of those that shall
    have `replicas` replicas (0: the number of the cluster). `topic_type` is the number of its type. Raises LedgerError,
    for example TopicExistsError, InvalidTopicNameError."""
    validate_topic_name(name)
    validate_queue_count(queues)
    validate_topic_type(topic_type)
    projected = replica.leading_state(queues * _BYTES_A_QUEUE)
    if topic_type != TopicType.MIXED:
        replica.state.require_topic_types()
    shards = place_queues(queues, _shards_of_class(replica, replicas), projected.placed())
    projected.admit_topic(name, queues, shards)
    return replica.propose_command(CreateTopic(name, queues, shards, topic_type))


async def keep_topic(replica: BrokerReplica, name: str, queues: int) -> Topic:
    """Return the internal topic of this name with `queues` queues in each shard. Create the topic, or add queues for
    new shards, if needed."""
    replica.check_leads(0)
    wanted = tuple(shard for shard in replica.state.shards.numbers for _ in range(queues))
    topic: Topic | None = replica.state.topics.named(name)
    if topic is None:
        replica.leading_state(len(wanted) * _BYTES_A_QUEUE).admit_topic(name, len(wanted), wanted)
        created: Topic = await asyncio.shield(replica.propose_command(CreateTopic(name, len(wanted), wanted)))
        return created
    new = [shard for shard in wanted if shard not in topic.shards]
    if not new:
        return topic
    more = AlterTopic(topic.topic_id, (*topic.shards, *new))
    altered: Topic = await asyncio.shield(replica.propose_checked(more))
    return altered


async def alter_topic(
    replica: BrokerReplica, name: str, wanted_queues: int | None, topic_type: int | None = None
) -> Topic:
    """Add queues to a topic, so that it has `wanted_queues` queues, give it the type with the number `topic_type`, and
    return the topic. None keeps what the topic has. Raises LedgerError, for example UnknownTopicError, or
    InvalidArgumentError if the topic has more than `wanted_queues` queues."""
    validate_topic_name(name)  # the name of an internal topic is refused
    if wanted_queues is None and topic_type is None:
        raise InvalidArgumentError("nothing is to be changed: give a number of queues, or a type")
    validate_queue_count(1 if wanted_queues is None else wanted_queues)
    validate_topic_type(topic_type or 0)
    projected = replica.leading_state((wanted_queues or MAX_QUEUES) * _BYTES_A_QUEUE)
    if topic_type is not None:
        replica.state.require_topic_types()
    topic = replica.state.topics.named(name)
    if topic is None:
        raise UnknownTopicError(f"there is no topic {name!r}: check the name")
    queues = topic.queues if wanted_queues is None else wanted_queues
    if queues < topic.queues:
        raise InvalidArgumentError(
            f"topic {name!r} has {topic.queues} queues, and queues cannot be removed: ask for more than {topic.queues}"
        )
    if queues == topic.queues and topic_type in (None, topic.type):
        return topic
    projected.check_queues(queues - topic.queues)
    same_class = _shards_of_class(replica, replica.state.placement.replicas_of(topic.shards[0]))
    new = place_queues(queues - topic.queues, same_class, projected.placed())
    wanted = AlterTopic(topic.topic_id, (*topic.shards, *new), topic_type)
    altered: Topic = await asyncio.shield(replica.propose_command(wanted))
    if altered.queues != queues:
        raise BusyError(f"another request changed the queues of topic {name!r} meanwhile: try again")
    return altered


def delete_topic(replica: BrokerReplica, topic_id: int) -> asyncio.Future[DeletedTopic | None]:
    """Remove a topic from the replica's shard. The result of the returned future is None if the shard does not have
    the topic. After the entry of this command, the log contains no batch of the topic."""
    return replica.delete_topic(DeleteTopic(topic_id))


def topic_opened(replica: BrokerReplica, topic: Topic) -> asyncio.Future[Topic]:
    """Record in shard 0 that all queues of `topic` are open in their shards."""
    return replica.propose_checked(TopicOpened(topic.topic_id, topic.queues))


def open_topic(replica: BrokerReplica, topic: Topic) -> asyncio.Future[Topic]:
    """Open the topic's queues in the replica's shard for writing."""
    return replica.propose_checked(OpenTopic(topic.topic_id, topic.name, topic.shards, topic.created_ms))


async def ensure_shard(
    replica: BrokerReplica, nodes: Sequence[int], *, known_shards: int, rooms: Mapping[int, str] | None = None
) -> int:
    """Add a shard like `add_shard`, for a client that knows `known_shards` shards. If exactly one more shard
    exists, an earlier request of the client has added this shard, and no further shard is added. The value 0 means
    that the client does not know the number of shards. Returns the number of the shard."""
    shards = replica.state.shards
    if known_shards and len(shards.numbers) == known_shards + 1:
        return shards.numbers[-1]
    return await add_shard(replica, nodes, rooms)


async def add_shard(replica: BrokerReplica, wanted: Sequence[int] = (), rooms: Mapping[int, str] | None = None) -> int:
    """Add a shard on the nodes `wanted`, or by default on the nodes with the fewest replicas, in different machine
    rooms if that can be had. `rooms` has the rooms of the nodes, as far as they are known. Returns the number of
    the new shard when the command is committed. Raises LedgerError, for example UnknownNodeError."""
    shards, configuration = replica.state.shards, replica.newest_configuration()
    assert configuration is not None, "what a leader has begins with its own configuration"
    if strangers := sorted(set(wanted) - configuration.members.keys()):
        raise UnknownNodeError(f"node {strangers[0]} is not a member of shard 0: add the node to the cluster first")
    number = shards.numbers[-1] + 1
    placement = replica.state.placement
    drained = {drain.node for drain in placement.drains}
    able = [node for node in configuration.voters if node not in drained] or [*configuration.voters]
    others = (nodes for _, nodes in shards)
    nodes = tuple(wanted) or place_shard(number, able, others, rooms, placement.replicas)
    incarnations = tuple(configuration.members[node].incarnation for node in nodes)
    await asyncio.shield(replica.propose_checked(AddShard(number, nodes, incarnations)))
    return number


def _shards_of_class(replica: BrokerReplica, replicas: int) -> list[int]:
    """Return the shards that shall have so many replicas; 0: as many as the cluster's shards have by default. Raises
    InvalidArgumentError if there is no such shard."""
    placement, shards = replica.state.placement, replica.state.shards.numbers
    wanted = replicas or placement.replicas
    found = [shard for shard in shards if placement.replicas_of(shard) == wanted]
    if not found:
        raise InvalidArgumentError(
            f"no shard shall have {wanted} replicas: set that for a shard with `ledgermq cluster set-replicas {wanted} "
            "--shard SHARD` first"
        )
    return found
