"""Receives messages for RocketMQ consumers.

A push consumer asks each shard of the topic by itself, as it was assigned. A simple consumer asks one queue that it has
chosen at random; it gets messages of any queue of the topic, first those of the shard of that queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import xxhash

from ledger.broker.access.places import Places
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.shared.shard_link import Ask
from ledger.client.shared.shared_message import SharedMessage, leased_messages
from ledger.consumer_groups import MAX_MEMBER_LENGTH
from ledger.errors import ConsumerFencedError
from ledger.rocketmq.acknowledging import MAX_INVISIBLE_MS
from ledger.rocketmq.calls import ANSWER_MS, Context, FrontCall
from ledger.rocketmq.client_settings import RECEIVE_BATCH
from ledger.rocketmq.durations import milliseconds
from ledger.rocketmq.filters import FrontFilter, filter_of
from ledger.rocketmq.groups import FrontGroups
from ledger.rocketmq.handles import ReceiptHandle
from ledger.rocketmq.incoming_message import FrontDelivery, incoming_message
from ledger.rocketmq.leases import RENEWED_MS, FrontLeases
from ledger.rocketmq.members import MAX_RECEIVES, FrontMember
from ledger.rocketmq.names import group_of
from ledger.rocketmq.native_clients import NativeClients
from ledger.rocketmq.polling import Poll
from ledger.rocketmq.refusals import FrontRefusal, ok
from ledger.rocketmq.routing import routed_topic, shard_of
from ledger.rocketmq.sessions import ALIVE_S, FrontSession
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2
from ledger.shared import MAX_RECEIVED_BYTES
from ledger.v1 import consumer_group_pb2

MIN_INVISIBLE_MS = 10_000
MIN_POLL_MS, MAX_POLL_MS = 5_000, 20_000
# How much longer than a receive a shard may take that has not answered once, unless the client gives up before.
MAX_PATIENCE_MS = 5_000
MAX_ATTEMPT_ID_CHARACTERS = 255
# Receives that wait on this node, and those of one caller.
MAX_POLLS, MAX_POLLS_OF_A_CALLER = 20_000, 10_000
# Members that have not received for this time are closed.
IDLE_S = 90.0
LOOK_S = 10.0

_MemberKey = tuple[str, str, str, int]


class _Wanted(NamedTuple):
    """A checked receive. `invisible_ms` is None if the node extends the leases."""

    group: str
    topic: RoutedTopic
    shards: Sequence[int]
    messages: int
    invisible_ms: int | None
    poll_ms: int
    # How much longer a shard may take that has not answered once.
    patience_ms: int
    attempt_id: int
    is_repeatable: bool
    filter: FrontFilter


class FrontReceiving:
    """Serves the consumers of this node."""

    def __init__(
        self,
        groups: FrontGroups,
        leases: FrontLeases,
        now_ms: Callable[[], int],
        monotonic_s: Callable[[], float],
        new_id: Callable[[], int],
    ) -> None:
        """`new_id()` returns a random number of 64 bits."""
        self._groups = groups
        self._leases = leases
        self._now_ms = now_ms
        self._monotonic_s = monotonic_s
        self._new_id = new_id
        # By caller, client id, group and topic id.
        self._members: dict[_MemberKey, FrontMember] = {}
        # Receives that wait.
        self.polls = Places(MAX_POLLS, MAX_POLLS_OF_A_CALLER)
        self._tasks: set[asyncio.Task[Any]] = set()

    # -- receiving

    async def receive(
        self,
        request: service_pb2.ReceiveMessageRequest,
        call: FrontCall,
        session: FrontSession,
        clients: NativeClients,
        context: Context,
    ) -> None:
        """Write the answers of one receive: a status, the messages, and the time. Raises FrontRefusal, LedgerError."""
        wanted = await self._wanted(request, call, clients)
        if refusal := self.polls.take(call.holder):
            raise FrontRefusal(pb.TOO_MANY_REQUESTS, f"too many receives wait on this node: {refusal}")
        try:
            messages = await self._leased(await self._member(call, session, clients, wanted), wanted, clients)
        finally:
            self.polls.give_back(call.holder)
        await self._hand_out(messages, wanted, request, session, clients, context)

    async def _wanted(
        self, request: service_pb2.ReceiveMessageRequest, call: FrontCall, clients: NativeClients
    ) -> _Wanted:
        group = group_of(request.group)
        topic = await routed_topic(clients.cluster, request.message_queue.topic)
        wanted_messages = filter_of(request.filter_expression)
        invisible_ms = None
        if request.auto_renew and self._leases.is_full(call.holder):
            raise FrontRefusal(pb.TOO_MANY_REQUESTS, "this node extends as many leases as it can: try again shortly")
        if not request.auto_renew:
            invisible_ms = milliseconds(request.invisible_duration)
            if not MIN_INVISIBLE_MS <= invisible_ms <= MAX_INVISIBLE_MS:
                wrong = "small" if invisible_ms < MIN_INVISIBLE_MS else "large"  # Apache's suite looks for these words
                raise FrontRefusal(
                    pb.ILLEGAL_INVISIBLE_TIME,
                    f"the invisibleTime is too {wrong}: use {MIN_INVISIBLE_MS // 1000} s to "
                    f"{MAX_INVISIBLE_MS // 3_600_000} h",
                )
        if request.batch_size < 1:
            raise FrontRefusal(pb.BAD_REQUEST, "the batch size of a receive is at least 1")
        if len(request.attempt_id) > MAX_ATTEMPT_ID_CHARACTERS:
            raise FrontRefusal(pb.BAD_REQUEST, "the attempt id is too long")
        await self._groups.require(group, clients.cluster, [topic])
        named = shard_of(request.message_queue, clients.cluster, topic)
        shards = list(dict.fromkeys(topic.shards))
        if named is not None and request.auto_renew:
            shards = [named]
        elif named is not None:  # the named one first
            shards = [named, *(shard for shard in shards if shard != named)]
        waits_ms = poll_ms(request, call.left_s * 1000)
        attempt = f"{group}/{topic.topic_id}/{request.attempt_id}"
        return _Wanted(
            group,
            topic,
            shards,
            min(request.batch_size, RECEIVE_BATCH),
            invisible_ms,
            waits_ms,
            round(max(0, min(MAX_PATIENCE_MS, call.left_s * 1000 - ANSWER_MS - waits_ms))),
            xxhash.xxh3_64_intdigest(attempt.encode()) if request.attempt_id else self._new_id(),
            bool(request.attempt_id),
            wanted_messages,
        )

    async def _member(
        self, call: FrontCall, session: FrontSession, clients: NativeClients, wanted: _Wanted
    ) -> FrontMember:
        """Return the member that the consumer is. A consumer that wants other messages than before, or proves itself
        with a new secret, is a new member, and the old one ends."""
        key = (call.caller.user, call.client_id, wanted.group, wanted.topic.topic_id)
        member = self._members.get(key)
        if member is None or member.cluster is not clients.cluster or member.wanted != wanted.filter:
            replaced = None if member is None else self._close_soon(member)
            name = _member_name(call.client_id)
            member = FrontMember(clients.cluster, name, wanted.group, wanted.topic, wanted.filter, replaced)
            self._members[key] = member
        member.session = session
        member.used_s = self._monotonic_s()
        await member.may_begin()
        return member

    async def _leased(self, member: FrontMember, wanted: _Wanted, clients: NativeClients) -> list[SharedMessage[bytes]]:
        """Do what `_lease` does. If the consumer has asked another node for other messages, return none, and close the
        member that it was here."""
        try:
            return await self._lease(member, wanted, clients)
        except ConsumerFencedError:
            self._forget(member)
            return []
        finally:
            member.used_s = self._monotonic_s()

    async def _lease(self, member: FrontMember, wanted: _Wanted, clients: NativeClients) -> list[SharedMessage[bytes]]:
        """Return leased messages, or none if the time is over. Raises FrontRefusal, LedgerError."""

        def begun(task: asyncio.Task[Any], ask: Ask) -> None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            member.asks[task] = ask
            task.add_done_callback(lambda done: member.asks.pop(done, None))

        def give_back(messages: Sequence[SharedMessage[bytes]]) -> None:
            for message in messages:
                self._leases.give_back(clients, wanted.group, message.lease)

        poll = Poll(
            wanted.shards,
            lambda shard, ask, wait_ms: self._ask(shard, ask, member, wanted, wait_ms),
            begun=begun,
            give_back=give_back,
            may_go_on=lambda: not member.is_closed,
        )
        return await poll.messages(wanted.poll_ms, wanted.patience_ms)

    async def _ask(
        self, shard: int, ask: Ask, member: FrontMember, wanted: _Wanted, wait_ms: int
    ) -> list[SharedMessage[bytes]] | None:
        """Ask one shard. Return None if no leader has answered before the ask was cancelled. A member that has ended
        gets no messages. Raises FrontRefusal, LedgerError."""
        if member.is_closed:
            return []
        if member.receives.get(shard, 0) >= MAX_RECEIVES:
            raise FrontRefusal(
                pb.TOO_MANY_REQUESTS, f"{MAX_RECEIVES} receives of this consumer wait, which is the limit"
            )
        receive = consumer_group_pb2.Receive(
            max_messages=wanted.messages,
            max_bytes=MAX_RECEIVED_BYTES,
            lease_ms=RENEWED_MS if wanted.invisible_ms is None else wanted.invisible_ms,
            max_wait_ms=wait_ms,
            attempt_id=wanted.attempt_id,
            repeated_attempt=wanted.is_repeatable,
        )
        member.receives[shard] = member.receives.get(shard, 0) + 1
        asked_s = asyncio.get_running_loop().time()
        try:
            received = await member.link(shard).receive(ask, receive)
        finally:
            member.receives[shard] -= 1
        if not received.ends_s:
            return None
        messages: list[SharedMessage[bytes]] = []
        for batch in received.batches:
            messages += leased_messages(shard, wanted.topic.name, batch, asked_s, received.ends_s, check_crc=True)
        return messages

    async def _hand_out(
        self,
        messages: Sequence[SharedMessage[bytes]],
        wanted: _Wanted,
        request: service_pb2.ReceiveMessageRequest,
        session: FrontSession,
        clients: NativeClients,
        context: Context,
    ) -> None:
        now_ms, now_s, steady_s = self._now_ms(), asyncio.get_running_loop().time(), self._monotonic_s()
        status = ok() if messages else pb.Status(code=pb.MESSAGE_NOT_FOUND, message="there is no message now")
        given = 0
        try:
            await context.write(service_pb2.ReceiveMessageResponse(status=status))
            for message in messages:
                left_ms = max(0, int((message.ends_s - now_s) * 1000))
                handle = ReceiptHandle.of(wanted.group, message.lease, in_time=wanted.invisible_ms is not None)
                delivery = FrontDelivery(
                    message.attempt, str(handle), left_ms, message.transaction, message.lease.topic_id
                )
                answer = incoming_message(message, request.message_queue.topic, delivery)
                await context.write(service_pb2.ReceiveMessageResponse(message=answer))
                given += 1
                if wanted.invisible_ms is None:
                    self._leases.renew(session, wanted.group, message.lease, steady_s + left_ms / 1000)
            end = service_pb2.ReceiveMessageResponse()
            end.delivery_timestamp.FromMilliseconds(now_ms)
            await context.write(end)
        finally:
            for message in messages[given:]:  # the client is gone
                self._leases.give_back(clients, wanted.group, message.lease)

    # -- upkeep

    def end(self, session: FrontSession) -> None:
        """Close the members of a client that has ended, or that seems to be gone: if it is not, its next receive makes
        new ones."""
        for key, member in list(self._members.items()):
            if key[:2] == (session.caller.user, session.client_id):
                del self._members[key]
                self._close_soon(member)

    async def run(self) -> None:
        """Close members that do not receive any more, until the task is cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self._close_idle()

    def _close_idle(self) -> None:
        """Close the members that have not received for long, and those of clients that are silent: the machine or the
        network of such a client may be lost, which does not close its connection."""
        now_s = self._monotonic_s()
        for key, member in list(self._members.items()):
            silent_s = 0.0 if member.session is None else now_s - member.session.seen_s
            is_idle = now_s - member.used_s > IDLE_S or silent_s > ALIVE_S
            if is_idle and not any(member.receives.values()):
                del self._members[key]
                self._close_soon(member)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        members, self._members = list(self._members.values()), {}
        await asyncio.gather(*self._tasks, *(each.close() for each in members), return_exceptions=True)

    def _forget(self, member: FrontMember) -> None:
        self._members = {key: each for key, each in self._members.items() if each is not member}
        self._close_soon(member)

    def _close_soon(self, member: FrontMember) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(member.end(), name="end of a RocketMQ consumer")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _member_name(client_id: str) -> str:
    """Return the name of the member that a consumer is. The name is the same at all nodes, so a leader knows the
    consumer again."""
    name = "".join(each if "!" <= each <= "~" else "_" for each in client_id)
    if name == client_id and len(name) <= MAX_MEMBER_LENGTH:
        return name
    digest = f"-{xxhash.xxh3_64_hexdigest(client_id.encode())}"
    return name[: MAX_MEMBER_LENGTH - len(digest)] + digest


def poll_ms(request: service_pb2.ReceiveMessageRequest, left_ms: float) -> int:
    """Return how long a receive waits for messages. `left_ms` is the time until the client gives up. Raises
    FrontRefusal if the time is too short to wait."""
    told = milliseconds(request.long_polling_timeout) if request.HasField("long_polling_timeout") else MAX_POLL_MS
    wanted = min(max(told, MIN_POLL_MS), MAX_POLL_MS)
    if wanted <= left_ms:
        return round(min(wanted, max(left_ms - ANSWER_MS, 0)))
    if left_ms < MIN_POLL_MS:
        raise FrontRefusal(
            pb.ILLEGAL_POLLING_TIME,
            f"the call has {left_ms / 1000:.1f} s left, and a receive needs {MIN_POLL_MS // 1000} s: raise the request "
            "timeout of the client",
        )
    return round(left_ms - ANSWER_MS)
