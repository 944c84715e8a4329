"""The asyncio admin client: makes and describes topics, asks nodes how they are, changes members, moves leadership,
lets go of old messages, tells and sets how far consumer groups have come.

The one idea: every answer about topics and members comes from the leader, so it is what is committed at that moment;
every answer about a node comes from that node. It must not know how messages are sent or read.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

import grpc.aio

from ledger.client.admin.consumer_group_records import ConsumerGroupDescription, ConsumerGroupSummary, OffsetReset
from ledger.client.admin.consumer_groups_admin import ConsumerGroupsAdmin, ResetTarget
from ledger.client.admin.every_shard import EveryShard
from ledger.client.admin.members_admin import MembersAdmin, OnProgress
from ledger.client.admin.offsets import QueueTimes, checked_time, list_offsets, offsets_for_times
from ledger.client.admin.queries import MAX_MESSAGES, get_message, query_messages
from ledger.client.connection.channels import failure
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.environment import PROCESS, Environment
from ledger.client.connection.lifetime import AsyncLifetime
from ledger.client.connection.route_table import Topic
from ledger.client.connection.routes import topic_of
from ledger.client.producer.arguments import checked_key
from ledger.client.producer.producer_batch import leaves_doubt
from ledger.client.records import (
    Doubt,
    LogCut,
    LogHold,
    Members,
    Message,
    NodeStatus,
    ShardStatus,
    TopicDescription,
    TopicQueue,
)
from ledger.errors import InvalidArgumentError, LedgerError, TopicExistsError, UnknownTopicError, from_wire
from ledger.holds import DEFAULT_TTL_MS
from ledger.topics import TOPICS_SHARD, validate_queue_count, validate_topic_name
from ledger.v1 import broker_pb2, operations_pb2
from ledger.v1.broker_pb2_grpc import BrokerStub

_STATUS_SECONDS = 2.0


class AsyncAdmin(AsyncLifetime):
    """`request_timeout_ms`: how long to go on where there is no leader, or none that answers."""

    def __init__(
        self,
        bootstrap_servers: str | list[str] | tuple[str, ...],
        *,
        client_id: str | None = None,
        request_timeout_ms: int = 30_000,
        rng: random.Random | None = None,
        _environment: Environment = PROCESS,
    ) -> None:
        self._client = ClusterClient(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=20,
            rng=rng or random.Random(),
            environment=_environment,
        )
        self._every_shard = EveryShard(self._client)
        self._group_operator = ConsumerGroupsAdmin(self._client)

    async def start(self) -> None:
        """Connect; raises UnavailableError where no node answers."""
        await self._client.start()

    async def stop(self) -> None:
        if self._client.started:
            await self._client.close()

    async def create_topic(self, name: str, queues: int = 4) -> TopicDescription:
        """Make a topic; returns when it can be used. Raises TopicExistsError, InvalidTopicNameError, ..."""
        validate_topic_name(name)
        validate_queue_count(queues)
        was_there = await self._is_there(name)
        attempt = _Creation(broker_pb2.CreateTopicRequest(name=name, queues=queues))
        try:
            response = await self._client.call(TOPICS_SHARD, attempt)
        except TopicExistsError:
            if was_there or not attempt.doubtful:
                raise
            # Made since: by an earlier attempt whose answer was lost, unless its queues say that it was somebody else.
            topic = await self._client.topic(name)
            if len(topic.shards) != queues:
                raise
            return _description(topic)
        return _description(topic_of(response.topic))

    async def alter_topic(self, name: str, queues: int) -> TopicDescription:
        """Give a topic more queues, in the shards with the fewest; returns when they can be used. Whoever sends with
        keys sends them to other queues then. To ask for as many as it has is no error. Raises UnknownTopicError,
        InvalidArgumentError (fewer than it has)."""
        validate_queue_count(queues)
        request = broker_pb2.AlterTopicRequest(name=name, queues=queues)
        response = await self._client.call(TOPICS_SHARD, lambda stub, s: stub.AlterTopic(request, timeout=s))
        self._client.routes.refresh_soon()
        return _description(topic_of(response.topic))

    async def delete_topic(self, name: str) -> None:
        """Delete a topic, with its messages and with how far consumer groups have come with it; returns when it is gone
        everywhere. Who writes to it or reads it is refused from then on (UnknownTopicError); a topic of this name that
        is made later is another one. Raises UnknownTopicError, InvalidTopicNameError (the broker's own)."""
        validate_topic_name(name)
        request = broker_pb2.DeleteTopicRequest(topic_id=(await self._client.topic(name, newest=True)).topic_id)
        await self._client.call(TOPICS_SHARD, lambda stub, s: stub.DeleteTopic(request, timeout=s))
        self._client.routes.refresh_soon()

    async def _is_there(self, name: str) -> bool:
        """Whether there is such a topic. Behind an attempt whose answer was lost it is too late to ask: a topic does
        not say who made it, and the time that it tells is of another clock."""
        try:
            await self._client.topic(name)
        except UnknownTopicError:
            return False
        return True

    async def list_topics(self) -> list[TopicDescription]:
        """All topics, by name, without their offsets."""
        request = broker_pb2.GetRouteRequest(linearizable=True)
        response = await self._client.call(TOPICS_SHARD, lambda stub, s: stub.GetRoute(request, timeout=s))
        return sorted((_description(topic_of(topic)) for topic in response.topics), key=lambda topic: topic.name)

    async def describe_topic(self, name: str) -> TopicDescription:
        """One topic with the offsets of its queues. Raises UnknownTopicError."""
        topic = await self._client.topic(name, newest=True)
        offsets = await list_offsets(self._client, topic, range(len(topic.shards)))
        return replace(_description(topic), offsets=tuple(offsets[queue] for queue in sorted(offsets)))

    # -- messages

    async def query_messages(
        self,
        topic: str,
        key: bytes | str,
        *,
        begin_ms: int | None = None,
        end_ms: int | None = None,
        max_messages: int = 64,
        node: int | None = None,
    ) -> list[Message]:
        """The newest messages with this key, in all queues of the topic, the newest first.

        begin_ms, end_ms   only what was appended at begin_ms or later, and before end_ms (ms since 1970)
        max_messages       1 to 100,000, all of which come into memory
        node               ask this node, which tells what it has applied; None: the leader, who knows of all that was
                           acknowledged before the question

        Raises UnknownTopicError."""
        self._client.check_open()
        checked = checked_key(key)
        if checked is None:
            raise InvalidArgumentError("Name a key: messages without one are not indexed.")
        if not 1 <= max_messages <= MAX_MESSAGES:
            raise InvalidArgumentError(f"max_messages is {max_messages}: it must be 1 to {MAX_MESSAGES}.")
        return await query_messages(
            self._client,
            await self._client.topic(topic),
            checked,
            begin_ms=None if begin_ms is None else checked_time(begin_ms),
            end_ms=None if end_ms is None else checked_time(end_ms),
            max_messages=max_messages,
            node=node,
        )

    async def get_message(self, topic: str, queue: int, offset: int) -> Message:
        """One message by its place, which a receipt names, and `Message.id` too.

        Raises UnknownTopicError, UnknownQueueError, OffsetTooLowError (it is not kept any more), OffsetBeyondEndError
        (there is none yet)."""
        return await get_message(self._client, await self._client.topic(topic), queue, offset)

    async def offsets_for_times(self, times: QueueTimes) -> dict[TopicQueue, int]:
        """For each queue the offset of the first message that was appended at that time (ms since 1970) or later; the
        end offset where there is none yet. Raises UnknownTopicError, UnknownQueueError."""
        self._client.check_open()
        return await offsets_for_times(self._client, times)

    # -- nodes

    async def cluster(self) -> list[NodeStatus]:
        """Every node of the cluster as it describes itself, by id; those that do not answer are marked so. A node that
        was named as a bootstrap server and is no member (not yet, or not any more) is among them if it answers."""
        self._client.check_open()
        table = self._client.routes.table
        nodes = sorted(table.nodes.items())
        others = [address for address in table.addresses() if address not in table.nodes.values()]
        asked = [*nodes, *((0, address) for address in others)]
        answers = await asyncio.gather(*(self._status(node, address) for node, address in asked))
        members, strangers = answers[: len(nodes)], answers[len(nodes) :]
        known = {one.node for one in members}
        found = {one.node: one for one in strangers if one.reachable and one.node not in known}
        return sorted([*members, *found.values()], key=lambda one: one.node)

    async def _status(self, node: int, address: str) -> NodeStatus:
        try:
            response = await self._client.connections.stub(address).GetStatus(
                broker_pb2.GetStatusRequest(), timeout=_STATUS_SECONDS
            )
        except grpc.aio.AioRpcError as error:
            failed: LedgerError = failure(address, error)
            return NodeStatus(node, address, reachable=False, error=failed.message)
        return NodeStatus(
            node=response.node,
            address=address,
            reachable=True,
            cluster=response.cluster,
            http_address=response.http_address,
            data_directory=response.data_directory,
            version=response.version,
            shards=tuple(_shard_status(shard) for shard in response.shards),
        )

    # -- members and leadership

    async def members(self, *, shard: int = TOPICS_SHARD, timeout_ms: float | None = None) -> Members:
        """Who belongs to that shard, how far each member is, and who leads; all nodes belong to shard 0."""
        self._client.check_open()
        (shard,) = await self._every_shard.numbers(shard)
        return await MembersAdmin(self._client, shard).members(timeout_ms)

    async def add_node(
        self,
        node: int,
        address: str,
        *,
        shard: int | None = None,
        promote: bool = False,
        wait: bool = True,
        timeout_ms: float = 600_000,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Make a learner of a new node, which waits for that at `address` (`join = true`) with an empty directory.

        With `wait` this returns when it has caught up, and with `promote` when it votes; without, as soon as the leader
        has taken the request. To add it once more is no error. Raises NodeRefusedError, NodeExistsError,
        OperationTimeoutError (it goes on). `shard`, here and below: in that one alone; None: in all, one after the
        other."""
        if promote and not wait:
            raise InvalidArgumentError("A node can be promoted only once it has caught up: leave wait on.")
        self._client.check_open()
        await self._every_shard.add(
            node, address, shard, promote=promote, wait=wait, timeout_ms=timeout_ms, on_progress=on_progress
        )

    async def promote_node(
        self,
        node: int,
        *,
        shard: int | None = None,
        wait: bool = True,
        timeout_ms: float = 30_000,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Make a voter of a learner that has caught up. With `wait` this returns when it votes.

        Raises NodeBehindError where it lags or does not answer, UnknownNodeError, OperationTimeoutError."""
        self._client.check_open()
        await self._every_shard.promote(node, shard, wait=wait, timeout_ms=timeout_ms, on_progress=on_progress)

    async def remove_node(
        self,
        node: int,
        *,
        shard: int | None = None,
        wait: bool = True,
        timeout_ms: float = 30_000,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Remove a voter or a learner; a leader hands over by that. With `wait` this returns when that is committed,
        and a leader has applied it.

        Raises UnknownNodeError, LastVoterError, OperationTimeoutError."""
        self._client.check_open()
        await self._every_shard.remove(node, shard, wait=wait, timeout_ms=timeout_ms, on_progress=on_progress)

    async def transfer_leadership(
        self,
        to: int = 0,
        *,
        shard: int = TOPICS_SHARD,
        wait: bool = True,
        timeout_ms: float = 30_000,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Make that voter lead that shard; 0: the most up-to-date other one. Returns which. With `wait` this returns
        when it does.

        Raises TransferRefusedError, or TransferFailedError where it did not take over: the leader went on then."""
        self._client.check_open()
        (shard,) = await self._every_shard.numbers(shard)
        return await MembersAdmin(self._client, shard).transfer(
            to, wait=wait, timeout_ms=timeout_ms, on_progress=on_progress
        )

    async def recover_node(
        self, node: int, *, shard: int | None = None, accept_loss: bool = False, timeout_ms: float = 10_000
    ) -> list[Doubt]:
        """Ask a suspect node what it may have lost, in each shard where it is suspect; with `accept_loss`, have it vote
        and count again, although that may then be lost for good. It need not have a leader.

        Raises NotSuspectError, and RecoveryRefusedError where a leader is giving it back what it lacks."""
        self._client.check_open()
        return await self._every_shard.recover(node, shard, accept_loss=accept_loss, timeout_ms=timeout_ms)

    # -- shards

    async def shards(self) -> list[int]:
        """The numbers of all shards, ascending."""
        self._client.check_open()
        return await self._every_shard.numbers()

    async def add_shard(self, nodes: Sequence[int] = ()) -> int:
        """One more shard, for topics and queues that come from now on; returns its number. `nodes`: those that it
        begins on, members of shard 0; empty: the three with the fewest replicas. The nodes begin it by themselves.

        Raises UnknownNodeError, InvalidArgumentError (there are as many shards as there may be)."""
        self._client.check_open()
        request = operations_pb2.AddShardRequest(nodes=nodes, shards=len(await self._client.shards()))
        response = await self._client.call(TOPICS_SHARD, lambda stub, s: stub.AddShard(request, timeout=s))
        return int(response.shard)

    # -- consumer groups

    async def list_consumer_groups(self) -> list[ConsumerGroupSummary]:
        """All that have members, or have begun with a queue, by name."""
        self._client.check_open()
        return await self._group_operator.list_all()

    async def describe_consumer_group(self, group: str) -> ConsumerGroupDescription:
        """Its members, and how far it has come with each queue. Raises UnknownGroupError."""
        self._client.check_open()
        return await self._group_operator.describe(group)

    async def reset_offsets(
        self,
        group: str,
        to: ResetTarget,
        *,
        topic: str | None = None,
        queues: Iterable[int] | None = None,
        dry_run: bool = False,
    ) -> list[OffsetReset]:
        """Have a consumer group go on at "earliest", at "latest" (behind what is there now), at an offset, or at what
        was appended at a time (a datetime with a time zone) or later, whether it has members or not: members go on
        there within a moment. What they have in hand then is handed out again if it lies behind that place.

        topic, queues   only these; None: all that it consumes
        dry_run         only tell what would be

        Raises UnknownGroupError, UnknownTopicError, UnknownQueueError, OffsetTooLowError, OffsetBeyondEndError,
        InvalidArgumentError: nothing has changed."""
        self._client.check_open()
        return await self._group_operator.reset(group, to, topic=topic, queues=queues, dry_run=dry_run)

    async def delete_consumer_group(self, group: str) -> int:
        """Forget how far a consumer group has come; returns with how many queues it had begun. A consumer that joins
        it later begins at its `start`. Its retry and dead letter topics are deleted, with what is in them.

        Raises UnknownGroupError, GroupNotEmptyError."""
        self._client.check_open()
        return await self._group_operator.delete(group)

    # -- the log's start

    async def trim_log(
        self,
        *,
        before_time_ms: int | None = None,
        keep_bytes: int | None = None,
        before: tuple[str, int, int] | None = None,
        shard: int | None = None,
        dry_run: bool = False,
        timeout_ms: float | None = None,
    ) -> LogCut:
        """Let go of the oldest messages, on all nodes, for good. One argument says what is to stay: what was appended
        at `before_time_ms` (ms since 1970) or later, the last `keep_bytes` bytes of the log, or the messages of
        `before`, (topic, queue, offset), from that offset on. Whole segments go, those that hold nothing of it, and
        never the one in use. Returns when they are gone for the leader; the others follow. `shard`: in that one alone;
        None: in all, or, with `before`, in the one of that queue.

        Raises LogHeldError, UnknownTopicError, UnknownQueueError, OffsetBeyondEndError, InvalidArgumentError. A dry run
        tells what would go if nobody held the log, and who does."""
        self._client.check_open()
        return await self._every_shard.trim(
            shard,
            before_time_ms=before_time_ms,
            keep_bytes=keep_bytes,
            before=before,
            dry_run=dry_run,
            timeout_ms=timeout_ms,
        )

    async def hold_log(
        self,
        name: str,
        *,
        ttl_ms: int = DEFAULT_TTL_MS,
        shard: int | None = None,
        timeout_ms: float | None = None,
    ) -> LogHold:
        """Keep all that the log holds now, whatever the settings say, until `release_log`, or for `ttl_ms` (a second to
        366 days). A hold of this name that is there already lasts for that long from now on. `shard`, here and below:
        in that one alone; None: in all. Returns the hold that expires first.

        Raises InvalidArgumentError, where there are too many holds (1,000) too."""
        self._client.check_open()
        return await self._every_shard.hold(name, shard, ttl_ms=ttl_ms, timeout_ms=timeout_ms)

    async def release_log(self, name: str, *, shard: int | None = None, timeout_ms: float | None = None) -> bool:
        """End a hold. Returns whether there was one; a repeat whose first answer was lost finds none."""
        self._client.check_open()
        return await self._every_shard.release(name, shard, timeout_ms=timeout_ms)

    async def log_holds(self, *, shard: int | None = None, timeout_ms: float | None = None) -> list[LogHold]:
        """All holds that have not been released and have not expired, by shard and name."""
        self._client.check_open()
        return await self._every_shard.holds(shard, timeout_ms=timeout_ms)


class _Creation:
    """An attempt to create a topic, and all that repeat it. `doubtful`: one that failed may have made the topic."""

    def __init__(self, request: broker_pb2.CreateTopicRequest) -> None:
        self.doubtful = False
        self._request = request

    async def __call__(self, stub: BrokerStub, seconds: float) -> broker_pb2.CreateTopicResponse:
        try:
            response: broker_pb2.CreateTopicResponse = await stub.CreateTopic(self._request, timeout=seconds)
        except grpc.aio.AioRpcError:
            self.doubtful = True
            raise
        if response.HasField("error"):
            error = from_wire(response.error)
            self.doubtful |= leaves_doubt(error) and not isinstance(error, TopicExistsError)
        return response


def _description(topic: Topic) -> TopicDescription:
    return TopicDescription(topic.name, topic.topic_id, topic.shards, topic.created_ms)


def _shard_status(shard: broker_pb2.ShardStatus) -> ShardStatus:
    return ShardStatus(
        shard=shard.shard,
        role=shard.role,
        term=shard.term,
        leader=shard.leader,
        last_index=shard.last_index,
        commit=shard.commit,
        applied=shard.applied,
        end_position=shard.end_position,
        chain=shard.chain,
        suspect=shard.suspect,
    )
