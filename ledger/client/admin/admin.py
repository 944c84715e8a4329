"""The asyncio admin client: topics, nodes, members, shards, consumer groups and the start of the log.

The admin client asks a shard's leader about topics and members, so the results are committed. Each node reports its
own status to the admin client.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import grpc.aio

from ledger.access.rules import Rule, Verdict
from ledger.client.admin.checked_calls import checks_arguments
from ledger.client.admin.consumer_group_records import ConsumerGroupDescription, ConsumerGroupSummary, OffsetReset
from ledger.client.admin.consumer_groups_admin import ConsumerGroupsAdmin, ResetTarget
from ledger.client.admin.every_shard import EveryShard
from ledger.client.admin.members_admin import Deadline, MembersAdmin, OnProgress
from ledger.client.admin.message_trace import (
    MAX_ENTRIES,
    MessageTrace,
    OnTraceProgress,
    trace_handle,
    trace_id,
    trace_place,
)
from ledger.client.admin.offsets import QueueTimes, checked_time, in_ms, list_offsets, offsets_for_times
from ledger.client.admin.placement_admin import OnPlacement, PlacementAdmin
from ledger.client.admin.queries import MAX_MESSAGES, get_message, query_messages
from ledger.client.admin.slow_requests import slow_requests
from ledger.client.admin.transactions_admin import (
    MAX_TRANSACTIONS,
    end_transaction,
    get_transaction,
    list_transactions,
)
from ledger.client.admin.users_admin import DelegatedTokenText, RocketmqSecret, UsersAdmin, UserSummary
from ledger.client.admin.waiting_messages import MAX_WAITING, WaitingWanted, get_waiting, list_waiting
from ledger.client.checked_arguments import checked_rng
from ledger.client.checked_numbers import checked_number, checked_whole
from ledger.client.connection.channels import failure
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.environment import cluster_of
from ledger.client.connection.lifetime import AsyncLifetime, security_in
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.connection.routes import topic_of
from ledger.client.placement_records import Placement
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
    WaitingMessage,
)
from ledger.client.transactions.records import TransactionDescription
from ledger.consumer_groups import validate_group_name
from ledger.errors import (
    InvalidArgumentError,
    LedgerError,
    PermissionDeniedError,
    TopicExistsError,
    UnknownTopicError,
    from_wire,
)
from ledger.holds import DEFAULT_TTL_MS
from ledger.slow_request import NodeSlowRequests
from ledger.topics import TOPICS_SHARD, topic_type_of, validate_queue_count, validate_replicas, validate_topic_name
from ledger.v1 import broker_pb2, operations_pb2
from ledger.v1.broker_pb2_grpc import BrokerStub


@checks_arguments
class AsyncAdmin(AsyncLifetime):
    """The asyncio client that administers a cluster: topics, nodes, shards, consumer groups and logs.

    Arguments:

        bootstrap_servers   "host:port,host:port" or a list of addresses; one reachable address is enough
        client_id           the name that this client shows to nodes; None: chosen by the client
        request_timeout_ms  how long a request is repeated while a shard has no leader that answers (default 30,000)
        rng                 randomness for back-offs (default: a new random.Random())

    The security settings `tls`, `ca`, `client_certificate`, `client_key`, `user`, `password`, `password_file`, `token`
    and `profile` are those of every client (docs/GUIDE.md, Connecting).
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        client_id: str | None = None,
        request_timeout_ms: int = 30_000,
        rng: random.Random | None = None,
        tls: bool | None = None,
        ca: str | Path | None = None,
        client_certificate: str | Path | None = None,
        client_key: str | Path | None = None,
        user: str | None = None,
        password: str | None = None,
        password_file: str | Path | None = None,
        token: str | None = None,
        profile: str | None = None,
    ) -> None:
        servers, environment = cluster_of(self._environment, bootstrap_servers, security_in(locals()))
        self._client = ClusterClient(
            servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=20,
            rng=checked_rng(rng),
            environment=environment,
        )
        self._every_shard = EveryShard(self._client)
        self._group_operator = ConsumerGroupsAdmin(self._client)
        self._users = UsersAdmin(self._client)

    async def start(self) -> None:
        """Connect to the cluster. Raises UnavailableError if no node answers."""
        self._client.check_unstarted()
        await self._client.start()

    async def stop(self) -> None:
        """Close the connections of the client. The call is idempotent."""
        self._client.check_loop()
        if self._client.started:
            await self._client.close()

    async def create_topic(
        self, name: str, queues: int = 4, *, exist_ok: bool = False, type: str = "mixed", replicas: int | None = None
    ) -> TopicDescription:
        """Create a topic, and return when clients can use the topic.

        `type` says what producers may send to the topic:

            mixed        everything (default)
            normal       messages without delivery times and outside of transactions
            fifo         the same, and each message needs a key
            delay        only messages with delivery times
            transaction  only messages of transactions

        `replicas` is the number of replicas of the shards in which the topic's queues are (default: the number of the
        cluster). `set_replicas` gives shards a number of their own.

        If the topic exists already, raise TopicExistsError, or with `exist_ok` return its description. An existing
        topic keeps its number of queues and its type. Raises InvalidTopicNameError and InvalidArgumentError too.
        """
        validate_topic_name(name)
        validate_queue_count(queues)
        number = topic_type_of(type)
        if replicas is not None:
            validate_replicas(replicas)
            await PlacementAdmin(self._client).placement()  # an older cluster would ignore the number
        was_there = await self._is_there(name)
        attempt = _Creation(
            broker_pb2.CreateTopicRequest(name=name, queues=queues, type=number.name, replicas=replicas or 0)
        )
        try:
            response = await self._client.call(TOPICS_SHARD, attempt)
        except TopicExistsError:
            if exist_ok:
                return _description(await self._client.topic(name, newest=True))
            if was_there or not attempt.doubtful:
                raise
            # An earlier attempt whose answer was lost has created the topic, or another client has. A different number
            # of queues proves that it was another client.
            topic = await self._client.topic(name)
            if len(topic.shards) != queues or topic.type != type:
                raise
            return _description(topic)
        return _of_type(topic_of(response.topic), type)

    async def alter_topic(self, name: str, queues: int | None = None, *, type: str | None = None) -> TopicDescription:
        """Increase the number of queues of a topic to `queues`, and return when clients can use the new queues. Or
        change the `type` of the topic, as `create_topic` explains it. None (default) keeps what the topic has.

        A new type counts for messages that producers send from now on. Another node may take a second to know it. The
        messages of the topic, and those that wait for delivery, stay as they are.

        The new queues are placed in the shards with the fewest queues. Many keys select another queue after the
        change, so the order of messages with the same key is not kept across the change. The call is idempotent.
        Raises UnknownTopicError, or InvalidArgumentError if the topic already has more than `queues` queues.
        """
        if queues is None and type is None:
            raise InvalidArgumentError("Give `queues` or `type`: there is nothing to change.")
        if queues is not None:
            validate_queue_count(queues)
        number = None if type is None else topic_type_of(type).name
        request = broker_pb2.AlterTopicRequest(name=name, queues=queues or 0, type=number)
        response = await self._client.call(TOPICS_SHARD, lambda stub, s: stub.AlterTopic(request, timeout=s))
        self._client.routes.refresh_soon()
        return _of_type(topic_of(response.topic), type)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with its messages and the progress of consumer groups in it. Return when all shards have
        deleted the topic.

        Later reads and writes of the topic raise UnknownTopicError. A topic that is created later with the same name
        is a different topic. Raises UnknownTopicError, or InvalidTopicNameError for a system topic.
        """
        validate_topic_name(name)
        request = broker_pb2.DeleteTopicRequest(topic_id=(await self._client.topic(name, newest=True)).topic_id)
        await self._client.call(TOPICS_SHARD, lambda stub, s: stub.DeleteTopic(request, timeout=s))
        self._client.routes.refresh_soon()

    async def _is_there(self, name: str) -> bool:
        """Return True if the topic exists.

        `create_topic` calls `_is_there` before its first attempt. After an attempt with a lost answer, the existence
        of the topic proves nothing: a topic does not say which client created it, and its creation time comes from the
        clock of another machine.
        """
        try:
            await self._client.topic(name)
        except UnknownTopicError:
            return False
        return True

    async def list_topics(self) -> list[TopicDescription]:
        """Return the descriptions of all topics, sorted by name; the field `offsets` is empty."""
        request = broker_pb2.GetRouteRequest(linearizable=True)
        response = await self._client.call(TOPICS_SHARD, lambda stub, s: stub.GetRoute(request, timeout=s))
        return sorted((_description(topic_of(topic)) for topic in response.topics), key=lambda topic: topic.name)

    async def describe_topic(self, name: str) -> TopicDescription:
        """Return the description of a topic, with the first offset and the end offset of each queue. Raises
        UnknownTopicError."""
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
        """Return the newest messages of a topic that have the given key, from all queues, newest first.

            begin_ms, end_ms   only messages appended at begin_ms or later and before end_ms (ms since 1970); None: no
                               limit
            max_messages       how many messages are returned at most, 1 to 100,000 (default 64); all are held in
                               memory
            node               ask this node, which answers from the entries that it has applied; None (default): ask
                               the shards' leaders, which find every message that was acknowledged before the query

        Raises UnknownTopicError or InvalidArgumentError.
        """
        self._client.check_open()
        checked = checked_key(key)
        if checked is None:
            raise InvalidArgumentError("The key is None: give a key, because messages without a key are not indexed.")
        return await query_messages(
            self._client,
            await self._client.topic(topic),
            checked,
            begin_ms=None if begin_ms is None else checked_time(begin_ms),
            end_ms=None if end_ms is None else checked_time(end_ms),
            max_messages=checked_whole("max_messages", max_messages, 1, MAX_MESSAGES),
            node=node,
        )

    async def get_message(self, topic: str, queue: int, offset: int) -> Message:
        """Return the message of a topic at the given queue and offset. Both `RecordMetadata` and `Message.id` contain
        the topic, queue and offset of a message.

        Raises UnknownTopicError or UnknownQueueError. Raises OffsetTooLowError if the message is no longer kept, and
        OffsetBeyondEndError if the queue has no message with this offset yet.
        """
        return await get_message(self._client, await self._client.topic(topic), queue, offset)

    async def trace_message(
        self,
        topic: str,
        queue: int,
        offset: int,
        *,
        max_entries: int = MAX_ENTRIES,
        on_progress: OnTraceProgress | None = None,
    ) -> MessageTrace:
        """Return what is known of the life of the message at this place: who sent it, when each replica wrote it and
        knew that it is committed, and which consumer groups received, acknowledged or retried it.

            max_entries  how many entries of the log behind the message are read at most (default 1,000,000); the
                         result says up to where the log was read
            on_progress  called with the entries that were read, and how many there are to read

        Events of groups come from the entries of the log, so they are known as far back as the log is kept. The times
        of the replicas are in their memory: older ones have a `note` instead. Needs the right to read the topic. Events
        of groups that the user may not see are left out.

        Raises UnknownTopicError or UnknownQueueError, and OffsetTooLowError or OffsetBeyondEndError like get_message.
        """
        most = self._checked_entries(max_entries)
        return await trace_place(self._client, await self._client.topic(topic), queue, offset, most, on_progress)

    async def trace_waiting_message(
        self, handle: str, *, max_entries: int = MAX_ENTRIES, on_progress: OnTraceProgress | None = None
    ) -> MessageTrace:
        """Do what trace_message does for a message with a delivery time, by the `handle` of its receipt, also after its
        delivery. Raises OffsetTooLowError if the first entry of the message is no longer in the log, and
        InvalidArgumentError if `handle` is no handle."""
        most = self._checked_entries(max_entries)
        return await trace_handle(self._client, handle, most, on_progress)

    async def trace_message_id(
        self,
        topic: str,
        message_id: bytes | str,
        *,
        max_entries: int = MAX_ENTRIES,
        on_progress: OnTraceProgress | None = None,
    ) -> MessageTrace:
        """Do what trace_message does for a message that was sent with this `message_id` to the topic. Nodes know ids
        for 5 minutes. Raises InvalidArgumentError if they do not know this one."""
        most = self._checked_entries(max_entries)
        return await trace_id(self._client, await self._client.topic(topic), message_id, most, on_progress)

    def _checked_entries(self, max_entries: int) -> int:
        self._client.check_open()
        if max_entries < 1:
            raise InvalidArgumentError(f"max_entries is {max_entries}: it must be 1 or more.")
        return max_entries

    async def waiting_messages(
        self,
        topic: str | None = None,
        *,
        begin: datetime | None = None,
        end: datetime | None = None,
        limit: int = 100,
    ) -> list[WaitingMessage]:
        """Return messages that wait for their delivery times, in the order of these times.

            topic       only messages that will be delivered to this topic; None (default): to all topics that the user
                        may read
            begin, end  only messages with delivery times at `begin` or later and before `end` (each a datetime with a
                        time zone); None: no limit
            limit       how many messages are returned at most, 1 to 10,000 (default 100)

        A message that is being delivered may be in the list or not. Raises UnknownTopicError or InvalidArgumentError.
        """
        self._client.check_open()
        limit = checked_whole("limit", limit, 1, MAX_WAITING)
        wanted = WaitingWanted(
            None if begin is None else in_ms(begin), None if end is None else in_ms(end), limit, with_values=False
        )
        return await list_waiting(self._client, topic, wanted)

    async def waiting_message(self, handle: str) -> WaitingMessage | None:
        """Return a waiting message with its value and headers, or None if no message with this handle waits. `handle`
        is the `handle` of the receipt of the message, or of a list. Raises InvalidArgumentError if it is no handle."""
        self._client.check_open()
        return await get_waiting(self._client, handle)

    async def transactions(self, group: str | None = None, *, limit: int = 100) -> list[TransactionDescription]:
        """Return transactions that are open, the oldest first.

            group  only transactions of this producer group; None (default): of all groups
            limit  how many are returned at most, 1 to 10,000 (default 100)

        Transactions that begin in topics that the user may not read are left out. Raises InvalidArgumentError or
        InvalidGroupNameError.
        """
        self._client.check_open()
        limit = checked_whole("limit", limit, 1, MAX_TRANSACTIONS)
        if group is not None:
            validate_group_name(group)
        return await list_transactions(self._client, group, limit)

    async def transaction(self, transaction: str) -> TransactionDescription | None:
        """Return a transaction with its messages, if it is open, or with its outcome, if it ended less than a day ago.
        Return None if it is unknown, or if the user may not read its topic. Raises InvalidArgumentError if
        `transaction` is no id."""
        self._client.check_open()
        return await get_transaction(self._client, transaction)

    async def commit_transaction(self, transaction: str) -> None:
        """Commit a transaction with all its messages. The program that began it must be dead: otherwise messages that
        it is sending may be left out. If the transaction was committed before, do nothing.

        Raises TransactionEndedError if it ended otherwise, UnknownTransactionError, or InvalidArgumentError.
        """
        self._client.check_open()
        await end_transaction(self._client, transaction, commit=True)

    async def rollback_transaction(self, transaction: str) -> None:
        """Roll a transaction back. If it was rolled back before, do nothing. Raises TransactionEndedError if it ended
        otherwise, UnknownTransactionError, or InvalidArgumentError."""
        self._client.check_open()
        await end_transaction(self._client, transaction, commit=False)

    async def offsets_for_times(self, times: QueueTimes) -> dict[TopicQueue, int]:
        """Return for each queue the offset of the first message appended at the given time (ms since 1970) or later.

        If a queue has no message from the given time or later, its result is the end offset of the queue. Raises
        UnknownTopicError or UnknownQueueError.
        """
        self._client.check_open()
        return await offsets_for_times(self._client, times)

    # -- nodes

    async def cluster(self, *, timeout_ms: float = 2_000) -> list[NodeStatus]:
        """Return the status of every node, sorted by node number. If a node does not answer, the field `reachable` of
        its status is False.

        `timeout_ms` is how long this client waits for each node, in ms.

        The result includes a bootstrap server that is not a member of the cluster if the server answers. Raises
        PermissionDeniedError if the nodes that run refuse, because the user lacks the right to describe the cluster.
        """
        self._client.check_open()
        table = self._client.routes.table
        nodes = sorted(table.nodes.items())
        others = [address for address in table.addresses() if address not in table.nodes.values()]
        asked = [*nodes, *((0, address) for address in others)]
        refusals: list[LedgerError] = []
        answers = await asyncio.gather(
            *(self._status(node, address, timeout_ms / 1000, refusals) for node, address in asked)
        )
        if refusals and not any(one.reachable for one in answers):
            raise refusals[0]
        members, strangers = answers[: len(nodes)], answers[len(nodes) :]
        known = {one.node for one in members}
        found = {one.node: one for one in strangers if one.reachable and one.node not in known}
        return sorted([*members, *found.values()], key=lambda one: one.node)

    async def _status(self, node: int, address: str, seconds: float, refusals: list[LedgerError]) -> NodeStatus:
        """Return the status of a node. If the node refuses to tell this user, append the refusal to `refusals`."""
        try:
            response = await self._client.connections.stub(address).GetStatus(
                broker_pb2.GetStatusRequest(), timeout=seconds
            )
        except (grpc.aio.AioRpcError, LedgerError) as error:
            failed = error if isinstance(error, LedgerError) else failure(address, error)
            if isinstance(failed, PermissionDeniedError):
                refusals.append(failed)
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

    async def slow_requests(self, *, threshold_ms: float = 0.0, node: int | None = None) -> list[NodeSlowRequests]:
        """Return the slow requests that the nodes keep, with the parts of their time: one item for each node, sorted by
        node number.

            threshold_ms  only requests that took at least this time (default 0: all that the nodes keep). A node
                          records no requests that are faster than its setting `slow_request_ms`
            node          ask only this node; None (default): all nodes

        A node keeps its recent slow requests, and the slowest since its start. If a node does not answer, the field
        `error` of its item says why. Raises InvalidArgumentError, and PermissionDeniedError without the right to
        describe the cluster.
        """
        self._client.check_open()
        threshold_ms = checked_number("threshold_ms", threshold_ms, 0)
        return await slow_requests(self._client, threshold_ms, node)

    # -- users and their rights

    async def list_users(self) -> list[UserSummary]:
        """Return all users, sorted by name. Needs the right to administer the cluster, as all methods for users do."""
        self._client.check_open()
        return await self._users.users()

    async def add_user(self, name: str, password: str | None = None) -> None:
        """Add a user without rights. Without `password`, the user authenticates with a client certificate.

        The password does not leave this process: the cluster gets a verifier. Raises UserExistsError or
        InvalidArgumentError.
        """
        self._client.check_open()
        await self._users.add(name, password)

    async def rotate_user(self, name: str, password: str | None = None) -> None:
        """Replace the password of a user. All connections of the user have to prove the new password, and its delegated
        tokens end. A user may replace its own password. Raises UnknownUserError or InvalidArgumentError."""
        self._client.check_open()
        await self._users.rotate(name, password)

    async def remove_user(self, name: str) -> None:
        """Remove a user with its rules and tokens. Its open connections are refused from now on. Raises
        UnknownUserError, or InvalidArgumentError for the last administrator."""
        self._client.check_open()
        await self._users.remove(name)

    async def grant(self, user: str, action: str, resource: str, *, deny: bool = False) -> None:
        """Add a rule: `user` may do `action` with the resources that match `resource`.

            action     publish, subscribe, describe, create, alter, delete, read-log, administer or all
            resource   "topic:NAME", "group:NAME", "cluster" or "*"; a NAME can end with *, as in "topic:orders-*"
            deny       True: the user may not do it, whatever other rules say

        The call is idempotent. Raises UnknownUserError or InvalidArgumentError.
        """
        self._client.check_open()
        await self._users.grant([Rule(user, action, resource, deny)])

    async def revoke(self, user: str, action: str, resource: str, *, deny: bool = False) -> bool:
        """Remove the rule that a `grant` with the same `user`, `action`, `resource` and `deny` has added. Return True
        if it existed. Raises UnknownUserError or InvalidArgumentError."""
        self._client.check_open()
        return await self._users.revoke([Rule(user, action, resource, deny)]) > 0

    async def list_rules(self, user: str | None = None) -> list[Rule]:
        """Return the rules of a user, or of all users, sorted. Raises UnknownUserError."""
        self._client.check_open()
        return await self._users.rules(user or "")

    async def test_right(self, user: str, action: str, resource: str) -> Verdict:
        """Return whether the user has the right to do `action` with one resource, and the rule that decides. Raises
        UnknownUserError or InvalidArgumentError."""
        self._client.check_open()
        return await self._users.test(user, action, resource)

    async def delegate_token(self, rights: Iterable[tuple[str, str]], ttl_ms: int) -> DelegatedTokenText:
        """Return a token that has a part of this user's rights for `ttl_ms` ms (1 s to 30 days), for example for the
        executors of a Spark job. Clients take it as `token`.

            rights   pairs of an action and a resource, such as ("subscribe", "topic:orders")

        The token never has more rights than its user. A new password of the user ends it. Raises
        InvalidArgumentError.
        """
        self._client.check_open()
        return await self._users.delegate(rights, ttl_ms)

    async def make_rocketmq_secret(self, name: str) -> RocketmqSecret:
        """Give a user a new secret for RocketMQ's clients, in place of an earlier one, and return it with its access
        key. It is the only time that the cluster shows the secret. A user may make its own. A new password of the user
        ends the secret. Raises UnknownUserError, or InvalidArgumentError if the nodes have no TLS or no
        `secrets_key_file`."""
        self._client.check_open()
        return await self._users.make_rocketmq_secret(name)

    async def remove_rocketmq_secret(self, name: str) -> None:
        """Remove the RocketMQ secret of a user. The call is idempotent. Raises UnknownUserError."""
        self._client.check_open()
        await self._users.remove_rocketmq_secret(name)

    # -- members and leadership

    async def members(self, *, shard: int = TOPICS_SHARD, timeout_ms: float | None = None) -> Members:
        """Return the leader and the members of a shard, with the lag of each member. Every node is a member of
        shard 0."""
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
        """Add a new node to the cluster as a learner. The node must run at `address`, with the setting `join = true`
        and an empty data directory.

        If `wait` is True, the call returns when the learner has caught up. If `wait` and `promote` are both True, the
        learner then becomes a voter, and the call returns when the node is a voter. If `wait` is False, the call
        returns when the leader has accepted the request. `timeout_ms` limits the wait (default 600,000). If `shard` is
        given, the node joins only that shard; None (default): the node joins all shards, one after the other. The call
        is idempotent. Raises NodeRefusedError, NodeExistsError or OperationTimeoutError. After an
        OperationTimeoutError the operation continues in the cluster.
        """
        if promote and not wait:
            raise InvalidArgumentError(
                "promote is True and wait is False: a node can be promoted only after it has caught up, so set wait to "
                "True."
            )
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
        """Make a learner a voter. The learner must have caught up with the leader's log. If `wait` is True, return
        when the node is a voter.

        `shard` limits the call to one shard; None (default) means all shards. Raises NodeBehindError if the node lags
        or does not answer, UnknownNodeError or OperationTimeoutError.
        """
        self._client.check_open()
        await self._every_shard.promote(node, shard, wait=wait, timeout_ms=timeout_ms, on_progress=on_progress)

    async def remove_node(
        self,
        node: int,
        *,
        shard: int | None = None,
        force: bool = False,
        wait: bool = True,
        timeout_ms: float = 600_000,
        on_progress: OnProgress | None = None,
        on_placement: OnPlacement | None = None,
    ) -> None:
        """Remove a node from the cluster. First its replicas and leaderships move to other nodes. Return when the node
        is no node of the cluster any more.

        `shard` limits the call to one shard, from which the node is removed at once; None (default): the node leaves
        the cluster. With `force`, nothing moves: the node is removed from each shard at once. If `wait` is False,
        return when the cluster has accepted the request. While the call waits, it calls `on_placement` with the
        placement, or `on_progress` with the members of a shard. An interrupted removal goes on in the cluster;
        `stop_draining` ends it.

        Raises ShardShortError if a shard would have too few replicas then, UnknownNodeError, LastVoterError or
        OperationTimeoutError.
        """
        self._client.check_open()
        if shard is None and not force:
            admin, deadline = PlacementAdmin(self._client), Deadline(timeout_ms)
            await admin.drain(node, removes=True)
            if wait:
                await admin.until(
                    lambda placement: placement.node(node) is None,
                    f"node {node} is still a node of the cluster",
                    deadline,
                    on_placement,
                )
            return
        await self._every_shard.remove(
            node, shard, force=force, wait=wait, timeout_ms=timeout_ms, on_progress=on_progress
        )

    async def transfer_leadership(
        self,
        to: int = 0,
        *,
        shard: int = TOPICS_SHARD,
        pin: bool = False,
        wait: bool = True,
        timeout_ms: float = 30_000,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Make the voter `to` the leader of a shard, and return the number of the new leader. If `to` is 0, the
        present leader chooses the most up-to-date other voter.

        If the shard has a preferred leader or a pinned leader, that node takes leadership back soon
        (`Members.preference_ms`). If `pin` is True, `to` is pinned first, as `pin_leader` explains, and so keeps
        leadership. If `wait` is True, the call returns when the chosen node leads the shard. Raises
        TransferRefusedError, or TransferFailedError if the chosen node did not become the leader. After these errors a
        node that was pinned stays pinned.
        """
        if pin and not to:
            raise InvalidArgumentError("pin is True and to is 0: say with `to` which node is to be pinned.")
        self._client.check_open()
        (shard,) = await self._every_shard.numbers(shard)
        members = MembersAdmin(self._client, shard)
        if pin:
            await members.pin(to, timeout_ms)
        return await members.transfer(to, wait=wait, timeout_ms=timeout_ms, on_progress=on_progress)

    async def pin_leader(self, node: int, *, shard: int = TOPICS_SHARD, timeout_ms: float = 30_000) -> None:
        """Pin the voter `node` as the leader of a shard: it leads whenever it can, also after elections and restarts,
        and in place of the preferred leader. An earlier pin is replaced. The pin is stored in the shard's log.

        The present leader hands over by itself, within `Members.preference_ms` or a little later. While the pinned node
        is down, another node leads. The pin ends when the node is removed from the shard. The call is idempotent.
        Raises UnknownNodeError, or InvalidArgumentError if the node is a learner or a node runs an older version.
        """
        if node < 1:
            raise InvalidArgumentError(f"{node} cannot be the number of a node: numbers begin at 1.")
        self._client.check_open()
        (shard,) = await self._every_shard.numbers(shard)
        await MembersAdmin(self._client, shard).pin(node, timeout_ms)

    async def unpin_leader(self, *, shard: int = TOPICS_SHARD, timeout_ms: float = 30_000) -> None:
        """Remove the pin of a shard's leader. Then leadership returns to the preferred leader, if the shard has one.
        The call is idempotent."""
        self._client.check_open()
        (shard,) = await self._every_shard.numbers(shard)
        await MembersAdmin(self._client, shard).pin(0, timeout_ms)

    async def recover_node(
        self, node: int, *, shard: int | None = None, accept_loss: bool = False, timeout_ms: float = 10_000
    ) -> list[Doubt]:
        """Return a `Doubt` for each shard in which a node is suspect; the `Doubt` says which entries the node may have
        lost. The call needs no leader, because it asks the node itself. If `accept_loss` is True, the node votes again
        and its acknowledgements count again. With `accept_loss`, the missing entries may be lost for good. Raises
        NotSuspectError, or RecoveryRefusedError if a leader is restoring the missing entries.
        """
        self._client.check_open()
        return await self._every_shard.recover(node, shard, accept_loss=accept_loss, timeout_ms=timeout_ms)

    # -- the placement of replicas

    async def placement(self) -> Placement:
        """Return where the replicas of all shards are, and what the cluster does about it."""
        self._client.check_open()
        return await PlacementAdmin(self._client).placement()

    async def set_replicas(self, replicas: int | None, *, shard: int | None = None) -> None:
        """Set how many replicas each shard shall have, 1 to 9. From then on, the cluster makes missing replicas and
        removes surplus ones. Without a setting, a shard shall have 3, and surplus replicas stay.

        With `shard`, only this shard gets the number, for topics that are created with the same number
        (`create_topic`). None takes the number of the shard away. Shard 0 cannot have a number of its own."""
        self._client.check_open()
        await PlacementAdmin(self._client).set_replicas(replicas, shard)

    async def rebalance(self, *, stop: bool = False) -> None:
        """Let replicas move from nodes with many to nodes with few, until the numbers differ by at most 1. Then let the
        nodes lead equally many shards. Return when the cluster has accepted the request; `placement` shows the moves.
        With `stop`, no further move begins."""
        self._client.check_open()
        await PlacementAdmin(self._client).balance(stop=stop)

    async def pause_placement(self, *, resume: bool = False) -> None:
        """Pause all moves of replicas before their next step. `resume` = True: go on with them."""
        self._client.check_open()
        await PlacementAdmin(self._client).pause(resume=resume)

    async def drain_node(
        self,
        node: int,
        *,
        wait: bool = True,
        timeout_ms: float = 3_600_000,
        on_progress: OnPlacement | None = None,
    ) -> None:
        """Move all replicas of a node to other nodes, except that of shard 0. The node gets no replicas until
        `stop_draining`. If `wait` is True, return when the node has no replicas.

        `on_progress` is called with the placement while the call waits. Raises ShardShortError if a shard would have
        too few replicas, UnknownNodeError, or OperationTimeoutError; the drain then goes on in the cluster.
        """
        self._client.check_open()
        admin, deadline = PlacementAdmin(self._client), Deadline(timeout_ms)
        await admin.drain(node)
        if wait:
            await admin.until(
                lambda placement: not placement.shards_on(node),
                f"node {node} still has replicas",
                deadline,
                on_progress,
            )

    async def stop_draining(self, node: int) -> None:
        """End the drain or the removal of a node. Moves that are under way end by themselves."""
        self._client.check_open()
        await PlacementAdmin(self._client).drain(node, stop=True)

    # -- shards

    async def shards(self, *, linearizable: bool = False) -> list[int]:
        """Return the numbers of all shards, in ascending order.

        By default these are the shards that this client knows, and a shard that was added a moment ago may be missing.
        With `linearizable`, the leader of shard 0 answers, and every shard that was added before the call is there.
        Raises LedgerError if the leader does not answer.
        """
        self._client.check_open()
        return await (self._client.shards() if linearizable else self._every_shard.numbers())

    async def add_shard(self, nodes: Sequence[int] = ()) -> int:
        """Add a shard for topics and queues that are created later, and return the number of the shard.

        `nodes` are the nodes that get the shard's first replicas; they must be members of shard 0. If `nodes` is
        empty, the three nodes with the fewest replicas are chosen. The chosen nodes start the shard on their own, so
        no further call is needed. Raises UnknownNodeError, or InvalidArgumentError if the cluster already has the
        maximum number of shards.
        """
        self._client.check_open()
        request = operations_pb2.AddShardRequest(nodes=nodes, shards=len(await self._client.shards()))
        response = await self._client.call(TOPICS_SHARD, lambda stub, s: stub.AddShard(request, timeout=s))
        return int(response.shard)

    # -- consumer groups

    async def list_consumer_groups(self) -> list[ConsumerGroupSummary]:
        """Return a summary of each consumer group that has members, progress in a queue, or messages in its retry
        topic. The summaries are sorted by name."""
        self._client.check_open()
        return await self._group_operator.list_all()

    async def create_consumer_group(
        self, group: str, *, mode: str = "shared", order: str | None = None, max_attempts: int = 16
    ) -> None:
        """Create a consumer group, and fix how its members share the work. The call is idempotent.

            mode          "shared" (default): each message is leased by itself to one of the members (SharedConsumer).
                          "queue": each queue belongs to one member at a time (GroupConsumer, PushConsumer)
            order         "key": a shared group hands out messages with one key one after another. None (default): no
                          order
            max_attempts  a message of a shared group that was handed out so often, and not acknowledged, goes to the
                          dead letters (default 16)

        A queue group need not be created: its first member creates it. Raises GroupConflictError if the group exists
        with another mode, or has members or progress of the other mode."""
        await self._group_operator.create(group, mode, order, max_attempts)

    async def describe_consumer_group(self, group: str) -> ConsumerGroupDescription:
        """Return the members of a consumer group and its progress in each queue. Raises UnknownGroupError."""
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
        """Set new offsets for a consumer group. The group may have members; each member continues at the new offsets
        of its queues soon after.

        A message that was handed out and is not finished is handed out again if it lies at or after the new offset of
        its queue.

            to              "earliest", "latest" (the present end), an offset, or a datetime with a time zone (the
                            first message appended then or later)
            topic, queues   reset only these; None (default): all queues that the group consumes
            dry_run         return the new offsets without changing anything (default False)

        Raises UnknownGroupError, UnknownTopicError, UnknownQueueError, OffsetTooLowError, OffsetBeyondEndError or
        InvalidArgumentError. All arguments are checked before the first offset is changed.
        """
        self._client.check_open()
        return await self._group_operator.reset(group, to, topic=topic, queues=queues, dry_run=dry_run)

    async def delete_consumer_group(self, group: str) -> int:
        """Delete the progress of a consumer group, and return the number of queues in which the group had progress.

        The retry topic and the dead-letter topic of the group are deleted with their messages. A consumer that joins
        the group later begins each queue at the consumer's setting `start`. Raises UnknownGroupError or
        GroupNotEmptyError.
        """
        self._client.check_open()
        return await self._group_operator.delete(group)

    async def move_coordinator(self, group: str, shard: int) -> None:
        """Let a shard coordinate a consumer group from now on: its leader keeps the members and assigns the queues. New
        groups are coordinated in the shard with the fewest groups, so a move is seldom needed.

        The call returns when the move is committed. The members join the new coordinator by themselves, within about a
        second; up to then some messages may be delivered twice. Members of older versions cannot follow. The call is
        idempotent. Raises UnknownGroupError, GroupConflictError if the group is shared, or InvalidArgumentError if
        there is no such shard or a node runs an older version.
        """
        self._client.check_open()
        await self._group_operator.move_coordinator(group, shard)

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
        """Remove the oldest messages permanently from the log of one shard or of all shards, on all nodes. Return when
        the shard's leader has removed the messages; the other replicas remove them soon after.

        Exactly one of the arguments `before_time_ms`, `keep_bytes` and `before` says which messages are kept. Only
        whole segments are removed; the segment that the log appends to is never removed.

            before_time_ms   keep messages appended at this time (ms since 1970) or later
            keep_bytes       keep the last `keep_bytes` bytes of the log
            before           keep the messages of (topic, queue, offset) from that offset on
            shard            trim only this shard; None (default): all shards, or with `before` the shard of that queue
            dry_run          return what would be removed if the log had no hold, and the names of the holds (default
                             False)

        Raises LogHeldError, UnknownTopicError, UnknownQueueError, OffsetBeyondEndError or InvalidArgumentError.
        """
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
        """Take a hold on the log of one shard or of all shards. While the hold exists, the log keeps all its entries,
        even if they are older than the retention settings allow. Return the hold that expires first.

        The hold ends with a call of `release_log`, or after `ttl_ms` milliseconds. `ttl_ms` must be one second to 366
        days. If a hold with this name exists already, its end is changed to `ttl_ms` milliseconds from now. `shard`
        limits the call to one shard; None (default) means all shards. Raises InvalidArgumentError if an argument is
        invalid, or if the log already has 1,000 holds.
        """
        self._client.check_open()
        return await self._every_shard.hold(name, shard, ttl_ms=ttl_ms, timeout_ms=timeout_ms)

    async def release_log(self, name: str, *, shard: int | None = None, timeout_ms: float | None = None) -> bool:
        """End the hold with this name. Return True if the log of a shard had the hold. If an answer is lost, the
        request is repeated, and the result can then be False."""
        self._client.check_open()
        return await self._every_shard.release(name, shard, timeout_ms=timeout_ms)

    async def log_holds(self, *, shard: int | None = None, timeout_ms: float | None = None) -> list[LogHold]:
        """Return all holds that were not released and have not expired, sorted by shard and by name."""
        self._client.check_open()
        return await self._every_shard.holds(shard, timeout_ms=timeout_ms)


class _Creation:
    """A request that creates one topic, and all attempts to send it. `doubtful` is True if a failed attempt may
    have created the topic."""

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


def _of_type(topic: RoutedTopic, type: str | None) -> TopicDescription:
    """Return the description of a topic that was created or altered. Raises InvalidArgumentError if the node was too
    old to give it the type."""
    if type is not None and topic.type != type:
        raise InvalidArgumentError(
            f'Topic "{topic.name}" has the type {topic.type} and not {type}, because a node runs an older version of '
            f"ledgermq: upgrade all nodes, then use `ledgermq topic alter {topic.name} --type {type}`."
        )
    return _description(topic)


def _description(topic: RoutedTopic) -> TopicDescription:
    return TopicDescription(topic.name, topic.topic_id, topic.shards, topic.created_ms, type=topic.type)


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
        feature_level=shard.feature_level,
        stopped=shard.stopped,
        diverged=shard.diverged,
        unacknowledged_by=tuple(shard.unacknowledged_by),
        rebuilt=shard.rebuilt,
        no_writes=shard.no_writes,
        clock_offsets_ms=dict(shard.clock_offsets_ms),
        first_index=shard.first_index,
        start_position=shard.start_position,
        flushed_position=shard.flushed_position,
        commit_position=shard.commit_position,
        applied_position=shard.applied_position,
        voted_for=shard.voted_for,
        pinned_leader=shard.pinned_leader,
        preferred_leader=shard.preferred_leader,
    )
