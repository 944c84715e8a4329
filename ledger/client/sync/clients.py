"""The synchronous clients Producer, Consumer and Admin.

Each synchronous client runs an asyncio client on an event loop, in a thread of its own, and waits for the result of
each call. A method without a docstring does the same as the method of the asyncio client with this name.
"""

from __future__ import annotations

import concurrent.futures
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ledger.access.rules import Rule, Verdict
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.admin.consumer_group_records import ConsumerGroupDescription, ConsumerGroupSummary, OffsetReset
from ledger.client.admin.consumer_groups_admin import ResetTarget
from ledger.client.admin.members_admin import OnProgress
from ledger.client.admin.offsets import QueueTimes
from ledger.client.admin.users_admin import DelegatedTokenText, RocketmqSecret, UserSummary
from ledger.client.connection.lifetime import Lifetime
from ledger.client.consumer.consumer import AsyncConsumer
from ledger.client.consumer.cursor import QueueBatch
from ledger.client.producer.outgoing import Outgoing
from ledger.client.producer.producer import AsyncProducer
from ledger.client.producer.producer_batch import Headers
from ledger.client.records import (
    Doubt,
    LogCut,
    LogHold,
    Members,
    Message,
    NodeStatus,
    RecordMetadata,
    RecordRange,
    TopicDescription,
    TopicQueue,
)
from ledger.client.sync.handover import Handover
from ledger.client.sync.loop_thread import made, started, stopped
from ledger.client.sync.read_ahead import next_ahead
from ledger.errors import ClosedError
from ledger.holds import DEFAULT_TTL_MS

_ITERATION_MESSAGES = 500


class Producer(Lifetime):
    """The synchronous form of AsyncProducer, with the same arguments. The constructor connects to the cluster."""

    def __init__(self, bootstrap_servers: str | list[str] | tuple[str, ...], **settings: Any) -> None:
        self._client = AsyncProducer(bootstrap_servers, **settings)
        self._thread = started(self._client, "ledgermq-producer")
        self._handover = Handover(self._thread, self._client._accept)

    def send(
        self,
        topic: str,
        value: bytes,
        *,
        key: bytes | str | None = None,
        tag: str | None = None,
        headers: Headers | Mapping[str, bytes] | None = None,
        timestamp_ms: int | None = None,
        queue: int | None = None,
    ) -> RecordMetadata:
        """Send one message. Return the queue and the offset of the message when a majority of the shard's voters has
        the message. Raises the same errors as AsyncProducer.send.
        """
        return self._thread.run(
            self._client.send(topic, value, key=key, tag=tag, headers=headers, timestamp_ms=timestamp_ms, queue=queue)
        )

    def send_nowait(
        self,
        topic: str,
        value: bytes,
        *,
        key: bytes | str | None = None,
        tag: str | None = None,
        headers: Headers | Mapping[str, bytes] | None = None,
        timestamp_ms: int | None = None,
        queue: int | None = None,
    ) -> concurrent.futures.Future[RecordMetadata]:
        """Pass one message to the producer, and return a future. The future gets the metadata of the message or an
        error. If the buffer has no room, the error is BufferFullError.

        The call does not wait for the cluster. If 2,048 messages, or 8 MiB, wait for the client's own thread, the call
        waits until this thread has taken them. Raises ClosedError.
        """
        size = len(value) if isinstance(value, bytes) else 0  # the client's own thread refuses other types
        return self._handover.put(size, topic, (value, key, tag, headers, timestamp_ms, queue))

    def send_many(
        self,
        topic: str,
        values: Iterable[Outgoing],
        *,
        key: bytes | str | None = None,
        tag: str | None = None,
        queue: int | None = None,
    ) -> list[RecordRange]:
        """Send many messages fast, and return their queues and offsets, as AsyncProducer.send_many does. If `values`
        is an iterator, it is read on the client's own thread.
        """
        return self._thread.run(self._client.send_many(topic, values, key=key, tag=tag, queue=queue))

    def flush(self) -> None:
        """Return when every message accepted so far is acknowledged or has failed."""
        self._thread.run(self._client.flush())

    def close(self) -> None:
        """Wait for at most delivery_timeout_ms until every send has a result, and close the producer. The call is
        idempotent."""
        stopped(self._client, self._thread)


class Consumer(Lifetime):
    """The synchronous form of AsyncConsumer, with the same arguments. The constructor connects to the cluster."""

    def __init__(self, *topics: str, bootstrap_servers: str | list[str] | tuple[str, ...], **settings: Any) -> None:
        self._client = AsyncConsumer(*topics, bootstrap_servers=bootstrap_servers, **settings)
        self._thread = started(self._client, "ledgermq-consumer")
        # Messages read ahead for iteration. Asking the other thread for each single message would be slow.
        self._ahead: deque[Message] = deque()

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        """Return the next message, and wait for it without a time limit. The iteration ends when the consumer is
        closed."""
        try:
            message = self._next_ahead()
            while message is None and not self._client.closed:
                self._ahead.extend(self._thread.run(self._client.getmany(_ITERATION_MESSAGES)))
                message = self._next_ahead()
        except ClosedError:
            if not self._client.closed:
                raise  # the process was forked, so the client's thread does not exist here
        if self._client.closed or message is None:
            raise StopIteration
        return message

    def getmany(self, max_messages: int = 500, timeout_ms: float | None = None) -> list[Message]:
        """Return up to `max_messages` messages that were fetched and not handed out yet.

        If there is no fetched message, wait for messages for up to `timeout_ms` milliseconds (None: without limit). If
        no message arrives before this timeout, return an empty list.
        """
        messages: list[Message] = []
        while len(messages) < max_messages and (message := self._next_ahead()) is not None:
            messages.append(message)
        return messages or self._thread.run(self._client.getmany(max_messages, timeout_ms))

    def getbatches(self, timeout_ms: float | None = None) -> list[QueueBatch]:
        """Return all fetched batches, as AsyncConsumer.getbatches does. Do not use getbatches() together with
        iteration: getbatches() does not return the messages that an iteration has read ahead.
        """
        return self._thread.run(self._client.getbatches(timeout_ms))

    def seek(self, topic: str, queue: int, offset: int) -> None:
        """Continue reading this queue at `offset`."""
        self._thread.run(self._client.seek(topic, queue, offset))
        self._ahead = deque(one for one in self._ahead if (one.topic, one.queue) != (topic, queue))

    def pause(self, *places: tuple[str, int]) -> None:
        """Stop reading the queues `places` until resume() is called. Each queue is given as (topic, queue); without
        arguments, all queues are paused."""
        self._thread.run(made(lambda: self._client.pause(*places)))

    def resume(self, *places: tuple[str, int]) -> None:
        """Read the paused queues `places` again; without arguments, read all paused queues again."""
        self._thread.run(made(lambda: self._client.resume(*places)))

    @property
    def paused(self) -> list[TopicQueue]:
        """The paused queues of this consumer, each as (topic, queue)."""
        return self._thread.run(made(lambda: self._client.paused))

    def position(self, topic: str, queue: int) -> int:
        """Return the offset of the next message that the consumer hands out from this queue."""
        for message in self._ahead:
            if (message.topic, message.queue) == (topic, queue):
                return message.offset
        return self._thread.run(made(lambda: self._client.position(topic, queue)))

    def beginning_offsets(self) -> dict[TopicQueue, int]:
        return self._thread.run(self._client.beginning_offsets())

    def end_offsets(self) -> dict[TopicQueue, int]:
        return self._thread.run(self._client.end_offsets())

    def offsets_for_times(self, times: QueueTimes) -> dict[TopicQueue, int]:
        return self._thread.run(self._client.offsets_for_times(times))

    def close(self) -> None:
        """Close the consumer. If another thread waits for messages, its iteration ends, and its getmany() raises
        ClosedError."""
        stopped(self._client, self._thread)

    def _next_ahead(self) -> Message | None:
        """Remove and return the first message that was read ahead and that is not of a paused queue. If there is no
        such message, return None."""
        return next_ahead(self._ahead, lambda message: not self._client.is_paused(message.topic, message.queue))


class Admin(Lifetime):
    """The synchronous form of AsyncAdmin, with the same arguments and methods. The constructor connects to the cluster.

    A function that is passed as `on_progress` is called on the client's own thread.
    """

    def __init__(self, bootstrap_servers: str | list[str] | tuple[str, ...], **settings: Any) -> None:
        self._client = AsyncAdmin(bootstrap_servers, **settings)
        self._thread = started(self._client, "ledgermq-admin")

    def create_topic(self, name: str, queues: int = 4) -> TopicDescription:
        return self._thread.run(self._client.create_topic(name, queues))

    def alter_topic(self, name: str, queues: int) -> TopicDescription:
        return self._thread.run(self._client.alter_topic(name, queues))

    def delete_topic(self, name: str) -> None:
        self._thread.run(self._client.delete_topic(name))

    def list_topics(self) -> list[TopicDescription]:
        return self._thread.run(self._client.list_topics())

    def describe_topic(self, name: str) -> TopicDescription:
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
        return self._thread.run(
            self._client.query_messages(
                topic, key, begin_ms=begin_ms, end_ms=end_ms, max_messages=max_messages, node=node
            )
        )

    def get_message(self, topic: str, queue: int, offset: int) -> Message:
        return self._thread.run(self._client.get_message(topic, queue, offset))

    def offsets_for_times(self, times: QueueTimes) -> dict[TopicQueue, int]:
        return self._thread.run(self._client.offsets_for_times(times))

    def cluster(self) -> list[NodeStatus]:
        return self._thread.run(self._client.cluster())

    def list_users(self) -> list[UserSummary]:
        return self._thread.run(self._client.list_users())

    def add_user(self, name: str, password: str | None = None) -> None:
        self._thread.run(self._client.add_user(name, password))

    def rotate_user(self, name: str, password: str | None = None) -> None:
        self._thread.run(self._client.rotate_user(name, password))

    def remove_user(self, name: str) -> None:
        self._thread.run(self._client.remove_user(name))

    def grant(self, user: str, action: str, resource: str, *, deny: bool = False) -> None:
        self._thread.run(self._client.grant(user, action, resource, deny=deny))

    def revoke(self, user: str, action: str, resource: str, *, deny: bool = False) -> bool:
        return self._thread.run(self._client.revoke(user, action, resource, deny=deny))

    def list_rules(self, user: str | None = None) -> list[Rule]:
        return self._thread.run(self._client.list_rules(user))

    def test_right(self, user: str, action: str, resource: str) -> Verdict:
        return self._thread.run(self._client.test_right(user, action, resource))

    def delegate_token(self, rights: Iterable[tuple[str, str]], ttl_ms: int) -> DelegatedTokenText:
        return self._thread.run(self._client.delegate_token(rights, ttl_ms))

    def make_rocketmq_secret(self, name: str) -> RocketmqSecret:
        return self._thread.run(self._client.make_rocketmq_secret(name))

    def remove_rocketmq_secret(self, name: str) -> None:
        self._thread.run(self._client.remove_rocketmq_secret(name))

    def members(self, *, shard: int = 0, timeout_ms: float | None = None) -> Members:
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
        self._thread.run(
            self._client.promote_node(node, shard=shard, wait=wait, timeout_ms=timeout_ms, on_progress=on_progress)
        )

    def remove_node(
        self,
        node: int,
        *,
        shard: int | None = None,
        wait: bool = True,
        timeout_ms: float = 30_000,
        on_progress: OnProgress | None = None,
    ) -> None:
        self._thread.run(
            self._client.remove_node(node, shard=shard, wait=wait, timeout_ms=timeout_ms, on_progress=on_progress)
        )

    def transfer_leadership(
        self,
        to: int = 0,
        *,
        shard: int = 0,
        wait: bool = True,
        timeout_ms: float = 30_000,
        on_progress: OnProgress | None = None,
    ) -> int:
        return self._thread.run(
            self._client.transfer_leadership(to, shard=shard, wait=wait, timeout_ms=timeout_ms, on_progress=on_progress)
        )

    def recover_node(
        self, node: int, *, shard: int | None = None, accept_loss: bool = False, timeout_ms: float = 10_000
    ) -> list[Doubt]:
        return self._thread.run(
            self._client.recover_node(node, shard=shard, accept_loss=accept_loss, timeout_ms=timeout_ms)
        )

    def shards(self) -> list[int]:
        return self._thread.run(self._client.shards())

    def add_shard(self, nodes: Sequence[int] = ()) -> int:
        return self._thread.run(self._client.add_shard(nodes))

    def list_consumer_groups(self) -> list[ConsumerGroupSummary]:
        return self._thread.run(self._client.list_consumer_groups())

    def describe_consumer_group(self, group: str) -> ConsumerGroupDescription:
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
        return self._thread.run(self._client.reset_offsets(group, to, topic=topic, queues=queues, dry_run=dry_run))

    def delete_consumer_group(self, group: str) -> int:
        return self._thread.run(self._client.delete_consumer_group(group))

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
        return self._thread.run(self._client.hold_log(name, ttl_ms=ttl_ms, shard=shard, timeout_ms=timeout_ms))

    def release_log(self, name: str, *, shard: int | None = None, timeout_ms: float | None = None) -> bool:
        return self._thread.run(self._client.release_log(name, shard=shard, timeout_ms=timeout_ms))

    def log_holds(self, *, shard: int | None = None, timeout_ms: float | None = None) -> list[LogHold]:
        return self._thread.run(self._client.log_holds(shard=shard, timeout_ms=timeout_ms))

    def close(self) -> None:
        stopped(self._client, self._thread)
