"""The synchronous client Admin.

It runs an AsyncAdmin on an event loop, in a thread of its own, and waits for the result of each call.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from ledger.access.rules import Rule, Verdict
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.admin.consumer_group_records import ConsumerGroupDescription, ConsumerGroupSummary, OffsetReset
from ledger.client.admin.consumer_groups_admin import ResetTarget
from ledger.client.admin.members_admin import OnProgress
from ledger.client.admin.message_trace import MAX_ENTRIES, MessageTrace, OnTraceProgress
from ledger.client.admin.offsets import QueueTimes
from ledger.client.admin.placement_admin import OnPlacement
from ledger.client.admin.users_admin import DelegatedTokenText, RocketmqSecret, UserSummary
from ledger.client.connection.lifetime import Lifetime, settings_in
from ledger.client.placement_records import Placement
from ledger.client.records import (
    Doubt,
    LogCut,
    LogHold,
    Members,
    Message,
    NodeStatus,
    TopicDescription,
    TopicQueue,
    WaitingMessage,
)
from ledger.client.sync.loop_thread import started, stopped
from ledger.client.transactions.records import TransactionDescription
from ledger.holds import DEFAULT_TTL_MS
from ledger.slow_request import NodeSlowRequests


class Admin(Lifetime):
    """The synchronous form of AsyncAdmin, with the same arguments and methods. The constructor connects to the cluster.

    A function that is passed as `on_progress` is called on the client's own thread.
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
        self._client = AsyncAdmin(**settings_in(locals()))
        self._thread = started(self._client, "ledgermq-admin")

    def create_topic(
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
        return self._thread.run(
            self._client.create_topic(name, queues, exist_ok=exist_ok, type=type, replicas=replicas)
        )

    def alter_topic(self, name: str, queues: int | None = None, *, type: str | None = None) -> TopicDescription:
        """Increase the number of queues of a topic to `queues`, and return when clients can use the new queues. Or
        change the `type` of the topic, as `create_topic` explains it. None (default) keeps what the topic has.

        A new type counts for messages that producers send from now on. Another node may take a second to know it. The
        messages of the topic, and those that wait for delivery, stay as they are.

        The new queues are placed in the shards with the fewest queues. Many keys select another queue after the
        change, so the order of messages with the same key is not kept across the change. The call is idempotent.
        Raises UnknownTopicError, or InvalidArgumentError if the topic already has more than `queues` queues.
        """
        return self._thread.run(self._client.alter_topic(name, queues, type=type))

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its messages and the progress of consumer groups in it. Return when all shards have
        deleted the topic.

        Later reads and writes of the topic raise UnknownTopicError. A topic that is created later with the same name
        is a different topic. Raises UnknownTopicError, or InvalidTopicNameError for a system topic.
        """
        self._thread.run(self._client.delete_topic(name))

    def list_topics(self) -> list[TopicDescription]:
        """Return the descriptions of all topics, sorted by name; the field `offsets` is empty."""
        return self._thread.run(self._client.list_topics())

    def describe_topic(self, name: str) -> TopicDescription:
        """Return the description of a topic, with the first offset and the end offset of each queue. Raises
        UnknownTopicError."""
        return self._thread.run(self._client.describe_topic(name))

    def query_messages(
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
        return self._thread.run(
            self._client.query_messages(
                topic, key, begin_ms=begin_ms, end_ms=end_ms, max_messages=max_messages, node=node
            )
        )

    def get_message(self, topic: str, queue: int, offset: int) -> Message:
        """Return the message of a topic at the given queue and offset. Both `RecordMetadata` and `Message.id` contain
        the topic, queue and offset of a message.

        Raises UnknownTopicError or UnknownQueueError. Raises OffsetTooLowError if the message is no longer kept, and
        OffsetBeyondEndError if the queue has no message with this offset yet.
        """
        return self._thread.run(self._client.get_message(topic, queue, offset))

    def trace_message(
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
        return self._thread.run(
            self._client.trace_message(topic, queue, offset, max_entries=max_entries, on_progress=on_progress)
        )

    def trace_waiting_message(
        self, handle: str, *, max_entries: int = MAX_ENTRIES, on_progress: OnTraceProgress | None = None
    ) -> MessageTrace:
        """Do what trace_message does for a message with a delivery time, by the `handle` of its receipt, also after its
        delivery. Raises OffsetTooLowError if the first entry of the message is no longer in the log, and
        InvalidArgumentError if `handle` is no handle."""
        return self._thread.run(
            self._client.trace_waiting_message(handle, max_entries=max_entries, on_progress=on_progress)
        )

    def trace_message_id(
        self,
        topic: str,
        message_id: bytes | str,
        *,
        max_entries: int = MAX_ENTRIES,
        on_progress: OnTraceProgress | None = None,
    ) -> MessageTrace:
        """Do what trace_message does for a message that was sent with this `message_id` to the topic. Nodes know ids
        for 5 minutes. Raises InvalidArgumentError if they do not know this one."""
        return self._thread.run(
            self._client.trace_message_id(topic, message_id, max_entries=max_entries, on_progress=on_progress)
        )

    def waiting_messages(
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
        return self._thread.run(self._client.waiting_messages(topic, begin=begin, end=end, limit=limit))

    def waiting_message(self, handle: str) -> WaitingMessage | None:
        """Return a waiting message with its value and headers, or None if no message with this handle waits. `handle`
        is the `handle` of the receipt of the message, or of a list. Raises InvalidArgumentError if it is no handle."""
        return self._thread.run(self._client.waiting_message(handle))

    def transactions(self, group: str | None = None, *, limit: int = 100) -> list[TransactionDescription]:
        """Return transactions that are open, the oldest first.

            group  only transactions of this producer group; None (default): of all groups
            limit  how many are returned at most, 1 to 10,000 (default 100)

        Transactions that begin in topics that the user may not read are left out. Raises InvalidArgumentError or
        InvalidGroupNameError.
        """
        return self._thread.run(self._client.transactions(group, limit=limit))

    def transaction(self, transaction: str) -> TransactionDescription | None:
        """Return a transaction with its messages, if it is open, or with its outcome, if it ended less than a day ago.
        Return None if it is unknown, or if the user may not read its topic. Raises InvalidArgumentError if
        `transaction` is no id."""
        return self._thread.run(self._client.transaction(transaction))

    def commit_transaction(self, transaction: str) -> None:
        """Commit a transaction with all its messages. The program that began it must be dead: otherwise messages that
        it is sending may be left out. If the transaction was committed before, do nothing.

        Raises TransactionEndedError if it ended otherwise, UnknownTransactionError, or InvalidArgumentError.
        """
        self._thread.run(self._client.commit_transaction(transaction))

    def rollback_transaction(self, transaction: str) -> None:
        """Roll a transaction back. If it was rolled back before, do nothing. Raises TransactionEndedError if it ended
        otherwise, UnknownTransactionError, or InvalidArgumentError."""
        self._thread.run(self._client.rollback_transaction(transaction))

    def offsets_for_times(self, times: QueueTimes) -> dict[TopicQueue, int]:
        """Return for each queue the offset of the first message appended at the given time (ms since 1970) or later.

        If a queue has no message from the given time or later, its result is the end offset of the queue. Raises
        UnknownTopicError or UnknownQueueError.
        """
        return self._thread.run(self._client.offsets_for_times(times))

    def cluster(self, *, timeout_ms: float = 2_000) -> list[NodeStatus]:
        """Return the status of every node, sorted by node number. If a node does not answer, the field `reachable` of
        its status is False.

        `timeout_ms` is how long this client waits for each node, in ms.

        The result includes a bootstrap server that is not a member of the cluster if the server answers. Raises
        PermissionDeniedError if the nodes that run refuse, because the user lacks the right to describe the cluster.
        """
        return self._thread.run(self._client.cluster(timeout_ms=timeout_ms))

    def slow_requests(self, *, threshold_ms: float = 0.0, node: int | None = None) -> list[NodeSlowRequests]:
        """Return the slow requests that the nodes keep, with the parts of their time: one item for each node, sorted by
        node number.

            threshold_ms  only requests that took at least this time (default 0: all that the nodes keep). A node
                          records no requests that are faster than its setting `slow_request_ms`
            node          ask only this node; None (default): all nodes

        A node keeps its recent slow requests, and the slowest since its start. If a node does not answer, the field
        `error` of its item says why. Raises InvalidArgumentError, and PermissionDeniedError without the right to
        describe the cluster.
        """
        return self._thread.run(self._client.slow_requests(threshold_ms=threshold_ms, node=node))

    def list_users(self) -> list[UserSummary]:
        """Return all users, sorted by name. Needs the right to administer the cluster, as all methods for users do."""
        return self._thread.run(self._client.list_users())

    def add_user(self, name: str, password: str | None = None) -> None:
        """Add a user without rights. Without `password`, the user authenticates with a client certificate.

        The password does not leave this process: the cluster gets a verifier. Raises UserExistsError or
        InvalidArgumentError.
        """
        self._thread.run(self._client.add_user(name, password))

    def rotate_user(self, name: str, password: str | None = None) -> None:
        """Replace the password of a user. All connections of the user have to prove the new password, and its delegated
        tokens end. A user may replace its own password. Raises UnknownUserError or InvalidArgumentError."""
        self._thread.run(self._client.rotate_user(name, password))

    def remove_user(self, name: str) -> None:
        """Remove a user with its rules and tokens. Its open connections are refused from now on. Raises
        UnknownUserError, or InvalidArgumentError for the last administrator."""
        self._thread.run(self._client.remove_user(name))

    def grant(self, user: str, action: str, resource: str, *, deny: bool = False) -> None:
        """Add a rule: `user` may do `action` with the resources that match `resource`.

            action     publish, subscribe, describe, create, alter, delete, read-log, administer or all
            resource   "topic:NAME", "group:NAME", "cluster" or "*"; a NAME can end with *, as in "topic:orders-*"
            deny       True: the user may not do it, whatever other rules say

        The call is idempotent. Raises UnknownUserError or InvalidArgumentError.
        """
        self._thread.run(self._client.grant(user, action, resource, deny=deny))

    def revoke(self, user: str, action: str, resource: str, *, deny: bool = False) -> bool:
        """Remove the rule that a `grant` with the same `user`, `action`, `resource` and `deny` has added. Return True
        if it existed. Raises UnknownUserError or InvalidArgumentError."""
        return self._thread.run(self._client.revoke(user, action, resource, deny=deny))

    def list_rules(self, user: str | None = None) -> list[Rule]:
        """Return the rules of a user, or of all users, sorted. Raises UnknownUserError."""
        return self._thread.run(self._client.list_rules(user))

    def test_right(self, user: str, action: str, resource: str) -> Verdict:
        """Return whether the user has the right to do `action` with one resource, and the rule that decides. Raises
        UnknownUserError or InvalidArgumentError."""
        return self._thread.run(self._client.test_right(user, action, resource))

    def delegate_token(self, rights: Iterable[tuple[str, str]], ttl_ms: int) -> DelegatedTokenText:
        """Return a token that has a part of this user's rights for `ttl_ms` ms (1 s to 30 days), for example for the
        executors of a Spark job. Clients take it as `token`.

            rights   pairs of an action and a resource, such as ("subscribe", "topic:orders")

        The token never has more rights than its user. A new password of the user ends it. Raises
        InvalidArgumentError.
        """
        return self._thread.run(self._client.delegate_token(rights, ttl_ms))

    def make_rocketmq_secret(self, name: str) -> RocketmqSecret:
        """Give a user a new secret for RocketMQ's clients, in place of an earlier one, and return it with its access
        key. It is the only time that the cluster shows the secret. A user may make its own. A new password of the user
        ends the secret. Raises UnknownUserError, or InvalidArgumentError if the nodes have no TLS or no
        `secrets_key_file`."""
        return self._thread.run(self._client.make_rocketmq_secret(name))

    def remove_rocketmq_secret(self, name: str) -> None:
        """Remove the RocketMQ secret of a user. The call is idempotent. Raises UnknownUserError."""
        self._thread.run(self._client.remove_rocketmq_secret(name))

    def members(self, *, shard: int = 0, timeout_ms: float | None = None) -> Members:
        """Return the leader and the members of a shard, with the lag of each member. Every node is a member of
        shard 0."""
        return self._thread.run(self._client.members(shard=shard, timeout_ms=timeout_ms))

    def add_node(
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
        self._thread.run(
            self._client.add_node(
                node, address, shard=shard, promote=promote, wait=wait, timeout_ms=timeout_ms, on_progress=on_progress
            )
        )

    def promote_node(
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
        self._thread.run(
            self._client.promote_node(node, shard=shard, wait=wait, timeout_ms=timeout_ms, on_progress=on_progress)
        )

    def remove_node(
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
        self._thread.run(
            self._client.remove_node(
                node,
                shard=shard,
                force=force,
                wait=wait,
                timeout_ms=timeout_ms,
                on_progress=on_progress,
                on_placement=on_placement,
            )
        )

    def transfer_leadership(
        self,
        to: int = 0,
        *,
        shard: int = 0,
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
        return self._thread.run(
            self._client.transfer_leadership(
                to, shard=shard, pin=pin, wait=wait, timeout_ms=timeout_ms, on_progress=on_progress
            )
        )

    def pin_leader(self, node: int, *, shard: int = 0, timeout_ms: float = 30_000) -> None:
        """Pin the voter `node` as the leader of a shard: it leads whenever it can, also after elections and restarts,
        and in place of the preferred leader. An earlier pin is replaced. The pin is stored in the shard's log.

        The present leader hands over by itself, within `Members.preference_ms` or a little later. While the pinned node
        is down, another node leads. The pin ends when the node is removed from the shard. The call is idempotent.
        Raises UnknownNodeError, or InvalidArgumentError if the node is a learner or a node runs an older version.
        """
        self._thread.run(self._client.pin_leader(node, shard=shard, timeout_ms=timeout_ms))

    def unpin_leader(self, *, shard: int = 0, timeout_ms: float = 30_000) -> None:
        """Remove the pin of a shard's leader. Then leadership returns to the preferred leader, if the shard has one.
        The call is idempotent."""
        self._thread.run(self._client.unpin_leader(shard=shard, timeout_ms=timeout_ms))

    def recover_node(
        self, node: int, *, shard: int | None = None, accept_loss: bool = False, timeout_ms: float = 10_000
    ) -> list[Doubt]:
        """Return a `Doubt` for each shard in which a node is suspect; the `Doubt` says which entries the node may have
        lost. The call needs no leader, because it asks the node itself. If `accept_loss` is True, the node votes again
        and its acknowledgements count again. With `accept_loss`, the missing entries may be lost for good. Raises
        NotSuspectError, or RecoveryRefusedError if a leader is restoring the missing entries.
        """
        return self._thread.run(
            self._client.recover_node(node, shard=shard, accept_loss=accept_loss, timeout_ms=timeout_ms)
        )

    def placement(self) -> Placement:
        """Return where the replicas of all shards are, and what the cluster does about it."""
        return self._thread.run(self._client.placement())

    def set_replicas(self, replicas: int | None, *, shard: int | None = None) -> None:
        """Set how many replicas each shard shall have, 1 to 9. From then on, the cluster makes missing replicas and
        removes surplus ones. Without a setting, a shard shall have 3, and surplus replicas stay.

        With `shard`, only this shard gets the number, for topics that are created with the same number
        (`create_topic`). None takes the number of the shard away. Shard 0 cannot have a number of its own."""
        self._thread.run(self._client.set_replicas(replicas, shard=shard))

    def rebalance(self, *, stop: bool = False) -> None:
        """Let replicas move from nodes with many to nodes with few, until the numbers differ by at most 1. Then let the
        nodes lead equally many shards. Return when the cluster has accepted the request; `placement` shows the moves.
        With `stop`, no further move begins."""
        self._thread.run(self._client.rebalance(stop=stop))

    def pause_placement(self, *, resume: bool = False) -> None:
        """Pause all moves of replicas before their next step. `resume` = True: go on with them."""
        self._thread.run(self._client.pause_placement(resume=resume))

    def drain_node(
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
        self._thread.run(self._client.drain_node(node, wait=wait, timeout_ms=timeout_ms, on_progress=on_progress))

    def stop_draining(self, node: int) -> None:
        """End the drain or the removal of a node. Moves that are under way end by themselves."""
        self._thread.run(self._client.stop_draining(node))

    def shards(self, *, linearizable: bool = False) -> list[int]:
        """Return the numbers of all shards, in ascending order.

        By default these are the shards that this client knows, and a shard that was added a moment ago may be missing.
        With `linearizable`, the leader of shard 0 answers, and every shard that was added before the call is there.
        Raises LedgerError if the leader does not answer.
        """
        return self._thread.run(self._client.shards(linearizable=linearizable))

    def add_shard(self, nodes: Sequence[int] = ()) -> int:
        """Add a shard for topics and queues that are created later, and return the number of the shard.

        `nodes` are the nodes that get the shard's first replicas; they must be members of shard 0. If `nodes` is
        empty, the three nodes with the fewest replicas are chosen. The chosen nodes start the shard on their own, so
        no further call is needed. Raises UnknownNodeError, or InvalidArgumentError if the cluster already has the
        maximum number of shards.
        """
        return self._thread.run(self._client.add_shard(nodes))

    def list_consumer_groups(self) -> list[ConsumerGroupSummary]:
        """Return a summary of each consumer group that has members, progress in a queue, or messages in its retry
        topic. The summaries are sorted by name."""
        return self._thread.run(self._client.list_consumer_groups())

    def create_consumer_group(
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
        self._thread.run(self._client.create_consumer_group(group, mode=mode, order=order, max_attempts=max_attempts))

    def describe_consumer_group(self, group: str) -> ConsumerGroupDescription:
        """Return the members of a consumer group and its progress in each queue. Raises UnknownGroupError."""
        return self._thread.run(self._client.describe_consumer_group(group))

    def reset_offsets(
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
        return self._thread.run(self._client.reset_offsets(group, to, topic=topic, queues=queues, dry_run=dry_run))

    def delete_consumer_group(self, group: str) -> int:
        """Delete the progress of a consumer group, and return the number of queues in which the group had progress.

        The retry topic and the dead-letter topic of the group are deleted with their messages. A consumer that joins
        the group later begins each queue at the consumer's setting `start`. Raises UnknownGroupError or
        GroupNotEmptyError.
        """
        return self._thread.run(self._client.delete_consumer_group(group))

    def move_coordinator(self, group: str, shard: int) -> None:
        """Let a shard coordinate a consumer group from now on: its leader keeps the members and assigns the queues. New
        groups are coordinated in the shard with the fewest groups, so a move is seldom needed.

        The call returns when the move is committed. The members join the new coordinator by themselves, within about a
        second; up to then some messages may be delivered twice. Members of older versions cannot follow. The call is
        idempotent. Raises UnknownGroupError, GroupConflictError if the group is shared, or InvalidArgumentError if
        there is no such shard or a node runs an older version.
        """
        self._thread.run(self._client.move_coordinator(group, shard))

    def trim_log(
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
        return self._thread.run(
            self._client.trim_log(
                before_time_ms=before_time_ms,
                keep_bytes=keep_bytes,
                before=before,
                shard=shard,
                dry_run=dry_run,
                timeout_ms=timeout_ms,
            )
        )

    def hold_log(
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
        return self._thread.run(self._client.hold_log(name, ttl_ms=ttl_ms, shard=shard, timeout_ms=timeout_ms))

    def release_log(self, name: str, *, shard: int | None = None, timeout_ms: float | None = None) -> bool:
        """End the hold with this name. Return True if the log of a shard had the hold. If an answer is lost, the
        request is repeated, and the result can then be False."""
        return self._thread.run(self._client.release_log(name, shard=shard, timeout_ms=timeout_ms))

    def log_holds(self, *, shard: int | None = None, timeout_ms: float | None = None) -> list[LogHold]:
        """Return all holds that were not released and have not expired, sorted by shard and by name."""
        return self._thread.run(self._client.log_holds(shard=shard, timeout_ms=timeout_ms))

    def close(self) -> None:
        stopped(self._client.stop(), self._thread)
