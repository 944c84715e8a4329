"""Sends the messages of RocketMQ clients.

Sends that arrive at about the same time share the batches of one producer (gathering.py).

A client that hears no answer in time sends its message again with the same message id. While the first send is under
way, the second one waits for its result; later, the shard knows the id for five minutes, and any node answers with the
first result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ledger.broker.access.places import Places
from ledger.client.records import RecordMetadata
from ledger.client.transactions.half_selection import PlacedHalf
from ledger.errors import LedgerError, UnknownTransactionError
from ledger.hashing import queue_of
from ledger.rocketmq.calls import FrontCall
from ledger.rocketmq.gathering import Gathering
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
# Sends under way on this node, and those of one caller.
MAX_PENDING, MAX_PENDING_OF_A_CALLER = 50_000, 25_000
# Bytes of half messages under way on this node, and those of one caller.
MAX_HALF_BYTES, MAX_HALF_BYTES_OF_A_CALLER = 128 << 20, 64 << 20
# RocketMQ's clients count in the last characters of a message id. Ids that differ only in the last character choose the
# same queue, so messages that a client sends one after another share batches. Shorter ids may be no such count.
_COUNTED_ID_CHARACTERS = 32

Entry = service_pb2.SendResultEntry


class FrontSending:
    """Sends messages, ends transactions and recalls messages."""

    def __init__(self, limits: FrontLimits, now_ms: Callable[[], int]) -> None:
        self._limits = limits
        self._now_ms = now_ms
        # By caller, topic and message id: the sends under way.
        self._pending: dict[tuple[str, str, str], asyncio.Future[Entry]] = {}
        self._halves: set[asyncio.Task[str]] = set()
        self._sends = Places(MAX_PENDING, MAX_PENDING_OF_A_CALLER)
        self._half_bytes = Places(MAX_HALF_BYTES, MAX_HALF_BYTES_OF_A_CALLER)
        self._gathering = Gathering()

    async def send(
        self, request: service_pb2.SendMessageRequest, call: FrontCall, clients: NativeClients
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
        sends = [self._send_once(message, call, clients, len(topic.shards)) for message in checked]
        entries = [await _result(send, message) for send, message in zip(sends, checked, strict=True)]
        return service_pb2.SendMessageResponse(status=common_status([each.status for each in entries]), entries=entries)

    def _send_once(
        self, message: FrontMessage, call: FrontCall, clients: NativeClients, queues: int
    ) -> asyncio.Future[Entry]:
        """Begin to send a message to a topic with `queues` queues, or return the send of the same message that is under
        way. The send goes on if the client is gone. Raises FrontRefusal."""
        key = (clients.caller.user, message.topic, message.message_id)
        entry = self._pending.get(key)
        if entry is None:
            is_half = message.type == pb.TRANSACTION
            half_bytes = len(message.value) if is_half else 0
            self._take_places(call.holder, half_bytes)
            entry = self._pending[key] = asyncio.get_running_loop().create_future()
            entry.add_done_callback(partial(self._ended, key, call.holder, half_bytes))
            send = self._send_half if is_half else self._send
            self._gathering.add(partial(send, message, clients, queues, entry), len(self._pending))
        return entry

    def _take_places(self, holder: str, half_bytes: int) -> None:
        """Count a send until `_ended`. A producer lets the sends of transactions wait for room, so their bytes need a
        limit of their own. Raises FrontRefusal."""
        if refusal := self._sends.take(holder):
            raise FrontRefusal(pb.TOO_MANY_REQUESTS, f"too many sends are under way at this node: {refusal}")
        if refusal := self._half_bytes.take(holder, half_bytes):
            self._sends.give_back(holder)
            raise FrontRefusal(
                pb.TOO_MANY_REQUESTS, f"too many bytes of half messages are under way at this node: {refusal}"
            )

    def _ended(self, key: tuple[str, str, str], holder: str, half_bytes: int, entry: asyncio.Future[Entry]) -> None:
        del self._pending[key]
        self._sends.give_back(holder)
        self._half_bytes.give_back(holder, half_bytes)
        if not entry.cancelled():
            entry.exception()  # the client may be gone

    def _send(self, message: FrontMessage, clients: NativeClients, queues: int, entry: asyncio.Future[Entry]) -> None:
        given = _fields(message, queues)
        if message.deliver_at_ms is not None:
            given["deliver_at"] = moment(message.deliver_at_ms)
        try:
            sent = clients.producer.send_nowait(message.topic, message.value, **given)
        except Exception as error:  # also a defect: the client is told, and the other sends go on
            entry.set_exception(error)
        else:
            sent.add_done_callback(partial(_pass_on, _entry_of, message, entry))

    def _send_half(
        self, message: FrontMessage, clients: NativeClients, queues: int, entry: asyncio.Future[Entry]
    ) -> None:
        async def send() -> str:
            transaction = clients.producer.transaction(message.topic, group=producer_group_of(message.topic))
            await transaction.send(message.value, **_fields(message, queues))
            return transaction.id or ""

        sending = asyncio.get_running_loop().create_task(send(), name="half message of a RocketMQ client")
        self._halves.add(sending)
        sending.add_done_callback(self._halves.discard)
        sending.add_done_callback(partial(_pass_on, _entry_of_half, message, entry))

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


def queue_for(message: FrontMessage, queues: int) -> int | None:
    """Return the queue of a message in a topic with `queues` queues, or None if its key chooses. A message that is sent
    again gets the same queue, because this queue's shard knows its id."""
    if message.key is not None:
        return None
    message_id = message.message_id
    return queue_of((message_id[:-1] if len(message_id) >= _COUNTED_ID_CHARACTERS else message_id).encode(), queues)


def _fields(message: FrontMessage, queues: int) -> dict[str, Any]:
    """Return what a native producer takes beside topic and value."""
    return {
        "key": message.key,
        "queue": queue_for(message, queues),
        "tag": message.tag,
        "headers": message.headers,
        "timestamp_ms": message.timestamp_ms,
        "look_up_keys": message.look_up_keys,
        "message_id": message.message_id,
    }


def _entry_of(message: FrontMessage, sent: RecordMetadata) -> Entry:
    return Entry(
        status=ok(),
        message_id=message.message_id,
        transaction_id=message.message_id,
        offset=max(sent.offset, 0),
        recall_handle=recall_handle(sent.handle, message.message_id) if sent.handle else "",
    )


def _entry_of_half(message: FrontMessage, transaction_id: str) -> Entry:
    return Entry(status=ok(), message_id=message.message_id, transaction_id=transaction_id)


def _pass_on(
    make: Callable[[FrontMessage, Any], Entry],
    message: FrontMessage,
    entry: asyncio.Future[Entry],
    sent: asyncio.Future[Any],
) -> None:
    """Give the result of a native producer to those who wait for the entry."""
    if entry.done():
        return
    if sent.cancelled():
        entry.cancel()
    elif (error := sent.exception()) is not None:
        entry.set_exception(error)
    else:
        entry.set_result(make(message, sent.result()))


async def _result(entry: asyncio.Future[Entry], message: FrontMessage) -> Entry:
    try:
        return await asyncio.shield(entry)
    except LedgerError as error:
        return Entry(status=refusal_of(error).status, message_id=message.message_id)


def common_status(statuses: Sequence[pb.Status]) -> pb.Status:
    """Return the status of an answer with these entries: theirs, or MULTIPLE_RESULTS if they differ."""
    if len({status.code for status in statuses}) == 1:
        return statuses[0]
    return pb.Status(code=pb.MULTIPLE_RESULTS, message="the entries have different results")
