"""Sends the messages of RocketMQ clients.

Messages that arrive in one turn share the batches of one producer. While many sends are under way, they wait a
millisecond for each other, because gRPC hands over requests one by one. A client that hears no answer in time sends its
message again with the same message id. While the first send is under way, the second one waits for its result; later,
the shard knows the id for five minutes, and any node answers with the first result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ledger.client.records import RecordMetadata
from ledger.client.transactions.half_selection import PlacedHalf
from ledger.errors import LedgerError, UnknownTransactionError
from ledger.rocketmq.handles import read_recall_handle, recall_handle
from ledger.rocketmq.names import producer_group_of
from ledger.rocketmq.native_clients import NativeClients
from ledger.rocketmq.outgoing_message import FrontLimits, FrontMessage, outgoing_message
from ledger.rocketmq.refusals import FrontRefusal, ok, refusal_of
from ledger.rocketmq.routing import routed_topic
from ledger.rocketmq.topic_types import check_type
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2
from ledger.timed import moment
from ledger.transactions import TransactionId

MAX_MESSAGES = 1_024
# Sends under way on this node.
MAX_PENDING = 50_000
# With more sends under way than these, a send waits so long for others that share its batch.
FEW = 3
GATHER_S = 0.001

Entry = service_pb2.SendResultEntry


class FrontSending:
    """Sends messages, ends transactions and recalls messages."""

    def __init__(self, limits: FrontLimits, now_ms: Callable[[], int]) -> None:
        self._limits = limits
        self._now_ms = now_ms
        # By caller, topic and message id: the sends under way.
        self._pending: dict[tuple[str, str, str], asyncio.Task[Entry]] = {}
        # Ends when the sends that gather now go on.
        self._gathering: asyncio.Future[None] | None = None

    async def send(
        self, request: service_pb2.SendMessageRequest, clients: NativeClients
    ) -> service_pb2.SendMessageResponse:
        """Raises FrontRefusal, LedgerError."""
        messages = request.messages
        if not 1 <= len(messages) <= MAX_MESSAGES:
            raise FrontRefusal(pb.MESSAGE_CORRUPTED, f"a request has 1 to {MAX_MESSAGES} messages, not {len(messages)}")
        if any(message.topic.name != messages[0].topic.name for message in messages):
            raise FrontRefusal(pb.MESSAGE_CORRUPTED, "the messages of one request must have one topic")
        topic = await routed_topic(clients.cluster, messages[0].topic)
        checked = [outgoing_message(each, topic.name, self._limits, self._now_ms()) for each in messages]
        for message in checked:
            check_type(topic, message.type)
        sends = [self._send_once(message, clients) for message in checked]
        entries = [await _entry_of(task, message) for task, message in zip(sends, checked, strict=True)]
        return service_pb2.SendMessageResponse(status=common_status([each.status for each in entries]), entries=entries)

    def _send_once(self, message: FrontMessage, clients: NativeClients) -> asyncio.Task[Entry]:
        """Begin to send a message, or return the send of the same message that is under way. Raises FrontRefusal."""
        key = (clients.caller.user, message.topic, message.message_id)
        task = self._pending.get(key)
        if task is None:
            if len(self._pending) >= MAX_PENDING:
                raise FrontRefusal(pb.TOO_MANY_REQUESTS, "this node has too many sends under way: try again shortly")
            task = self._pending[key] = asyncio.create_task(self._send(message, clients))
            task.add_done_callback(lambda done: self._ended(key, done))
        return task

    def _ended(self, key: tuple[str, str, str], done: asyncio.Task[Entry]) -> None:
        del self._pending[key]
        if not done.cancelled():
            done.exception()  # the client may be gone

    async def _send(self, message: FrontMessage, clients: NativeClients) -> Entry:
        given: dict[str, Any] = {
            "key": message.key,
            "tag": message.tag,
            "headers": message.headers,
            "timestamp_ms": message.timestamp_ms,
            "look_up_keys": message.look_up_keys,
            "message_id": message.message_id,
        }
        entry = Entry(status=ok(), message_id=message.message_id, transaction_id=message.message_id)
        if len(self._pending) > FEW:
            await self._gather()
        if message.type == pb.TRANSACTION:
            transaction = clients.producer.transaction(message.topic, group=producer_group_of(message.topic))
            await transaction.send(message.value, **given)
            entry.transaction_id = transaction.id or ""
            return entry
        if message.deliver_at_ms is not None:
            given["deliver_at"] = moment(message.deliver_at_ms)
        sent: RecordMetadata = await clients.producer.send(message.topic, message.value, **given)
        entry.offset = max(sent.offset, 0)
        if sent.handle:
            entry.recall_handle = recall_handle(sent.handle, message.message_id)
        return entry

    async def _gather(self) -> None:
        """Return when the other sends that arrive about now go on too."""
        if self._gathering is None:
            loop = asyncio.get_running_loop()
            self._gathering = loop.create_future()
            loop.call_later(GATHER_S, self._go_on)
        await asyncio.shield(self._gathering)

    def _go_on(self) -> None:
        gathering, self._gathering = self._gathering, None
        if gathering is not None and not gathering.done():
            gathering.set_result(None)

    async def end_transaction(
        self, request: service_pb2.EndTransactionRequest, clients: NativeClients
    ) -> service_pb2.EndTransactionResponse:
        """Raises FrontRefusal, LedgerError."""
        topic = await routed_topic(clients.cluster, request.topic)
        if request.resolution not in (pb.COMMIT, pb.ROLLBACK):
            raise FrontRefusal(pb.BAD_REQUEST, "the resolution of a transaction is COMMIT or ROLLBACK")
        try:
            found = TransactionId.parse(request.transaction_id)
        except LedgerError:
            found = None
        if found is None or found.topic_id != topic.topic_id:
            raise FrontRefusal(pb.INVALID_TRANSACTION_ID, "this is no id of a transaction of this topic")
        half = PlacedHalf(found.shard, found.number, found.topic_id, 0)
        try:
            await clients.ends.end(found, [half], commit=request.resolution == pb.COMMIT)
        except UnknownTransactionError as error:
            raise FrontRefusal(pb.INVALID_TRANSACTION_ID, str(error)) from error
        return service_pb2.EndTransactionResponse(status=ok())

    async def recall(
        self, request: service_pb2.RecallMessageRequest, clients: NativeClients
    ) -> service_pb2.RecallMessageResponse:
        """Raises FrontRefusal, LedgerError."""
        topic = await routed_topic(clients.cluster, request.topic)
        handle, message_id = read_recall_handle(request.recall_handle)
        if handle.topic_id != topic.topic_id:
            raise FrontRefusal(pb.INVALID_RECEIPT_HANDLE, "the recall handle is one of another topic")
        if not await clients.producer.cancel(str(handle)):
            raise FrontRefusal(
                pb.MESSAGE_NOT_FOUND,
                "no such message waits: it was delivered or recalled, or is being delivered",
            )
        return service_pb2.RecallMessageResponse(status=ok(), message_id=message_id)


async def _entry_of(task: Awaitable[Entry], message: FrontMessage) -> Entry:
    try:
        return await asyncio.shield(task)
    except LedgerError as error:
        return Entry(status=refusal_of(error).status, message_id=message.message_id)


def common_status(statuses: Sequence[pb.Status]) -> pb.Status:
    """Return the status of an answer with these entries: theirs, or MULTIPLE_RESULTS if they differ."""
    if len({status.code for status in statuses}) == 1:
        return statuses[0]
    return pb.Status(code=pb.MULTIPLE_RESULTS, message="the entries have different results")
