"""What changes topics, and which shards there are, as commands to the leader of shard 0; `open_topic` and
`delete_topic` to any other.

Where new queues go is decided once, by the leader, who knows what is on its way; the command says it. All raise
LedgerError where the replica does not lead, and the futures end in one where it stops leading first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.topics.placement import place_queues, place_shard
from ledger.errors import BusyError, InvalidArgumentError, UnknownNodeError, UnknownTopicError
from ledger.state import DeletedTopic, Topic
from ledger.topics import validate_queue_count, validate_topic_name
from ledger.v1 import command_pb2

_BYTES_A_QUEUE = 5
"""In a command, at most."""


def create_topic(replica: BrokerReplica, name: str, queues: int) -> asyncio.Future[Topic]:
    """A user's new topic, its queues where there are fewest. Raises TopicExistsError, InvalidTopicNameError, ..."""
    validate_topic_name(name)
    validate_queue_count(queues)
    projected = replica.leading_state(queues * _BYTES_A_QUEUE)
    shards = place_queues(queues, replica.state.shards.numbers, projected.placed())
    projected.admit_topic(name, queues, shards)
    wanted = command_pb2.CreateTopic(name=name, queues=queues, shards=shards)
    return replica.propose_command(command_pb2.Command(create_topic=wanted))


async def keep_topic(replica: BrokerReplica, name: str, queues: int) -> Topic:
    """The broker's own topic of that name, with so many queues in each shard; made, or given more, where that is
    missing."""
    replica.check_leads(0)
    wanted = tuple(shard for shard in replica.state.shards.numbers for _ in range(queues))
    topic: Topic | None = replica.state.topics.named(name)
    if topic is None:
        replica.leading_state(len(wanted) * _BYTES_A_QUEUE).admit_topic(name, len(wanted), wanted)
        made = command_pb2.CreateTopic(name=name, queues=len(wanted), shards=wanted)
        created: Topic = await asyncio.shield(replica.propose_command(command_pb2.Command(create_topic=made)))
        return created
    new = [shard for shard in wanted if shard not in topic.shards]
    if not new:
        return topic
    more = command_pb2.AlterTopic(topic_id=topic.topic_id, shards=(*topic.shards, *new))  # for shards that have come
    altered: Topic = await asyncio.shield(replica.propose_checked(command_pb2.Command(alter_topic=more)))
    return altered


async def alter_topic(replica: BrokerReplica, name: str, queues: int) -> Topic:
    """The topic with so many queues, not fewer than it has. Raises UnknownTopicError, InvalidArgumentError, ..."""
    validate_topic_name(name)  # how many queues the broker's own topics have is the broker's affair
    validate_queue_count(queues)
    projected = replica.leading_state(queues * _BYTES_A_QUEUE)
    topic = replica.state.topics.named(name)
    if topic is None:
        raise UnknownTopicError(f"there is no topic {name!r}: check the name")
    if queues < topic.queues:
        raise InvalidArgumentError(f"topic {name!r} has {topic.queues} queues: it can only be given more, not {queues}")
    if queues == topic.queues:
        return topic
    new = place_queues(queues - topic.queues, replica.state.shards.numbers, projected.placed())
    wanted = command_pb2.AlterTopic(topic_id=topic.topic_id, shards=(*topic.shards, *new))
    altered: Topic = await asyncio.shield(replica.propose_command(command_pb2.Command(alter_topic=wanted)))
    if altered.queues != queues:
        raise BusyError(f"topic {name!r} was given other queues meanwhile: try again")
    return altered


def delete_topic(replica: BrokerReplica, topic_id: int) -> asyncio.Future[DeletedTopic | None]:
    """To any shard: nothing of that topic is here any more, nor comes behind that. None: there was nothing."""
    deleted = command_pb2.DeleteTopic(topic_id=topic_id)
    replica.check_leads(deleted.ByteSize()).admit_deletion(topic_id)
    return replica.propose_command(command_pb2.Command(delete_topic=deleted))


def topic_opened(replica: BrokerReplica, topic: Topic) -> asyncio.Future[Topic]:
    """All queues that `topic` has are open in their shards."""
    opened = command_pb2.TopicOpened(topic_id=topic.topic_id, queues=topic.queues)
    return replica.propose_checked(command_pb2.Command(topic_opened=opened))


def open_topic(replica: BrokerReplica, topic: Topic) -> asyncio.Future[Topic]:
    """The queues of this topic that live in the replica's shard may be written to."""
    opened = command_pb2.OpenTopic(
        topic_id=topic.topic_id, name=topic.name, shards=topic.shards, created_ms=topic.created_ms
    )
    return replica.propose_checked(command_pb2.Command(open_topic=opened))


async def add_shard(replica: BrokerReplica, wanted: Sequence[int] = ()) -> int:
    """One more shard, on these nodes, or else where there are fewest shards. Its number, once it is in shard 0's table.
    Raises LedgerError, UnknownNodeError among them."""
    shards, configuration = replica.state.shards, replica.newest_configuration()  # which is before this in the log
    assert configuration is not None, "what a leader has begins with its own configuration"
    if strangers := sorted(set(wanted) - configuration.members.keys()):
        raise UnknownNodeError(f"node {strangers[0]} is no member of shard 0: add it to that first")
    number = shards.numbers[-1] + 1
    nodes = tuple(wanted) or place_shard(number, configuration.voters, (nodes for _, nodes in shards))
    incarnations = [configuration.members[node].incarnation for node in nodes]
    added = command_pb2.AddShard(shard=number, nodes=nodes, incarnations=incarnations)
    await asyncio.shield(replica.propose_checked(command_pb2.Command(add_shard=added)))
    return number
