"""Control streams carry the votes and heartbeats of all shards of two nodes, on one stream in each direction.

    shard 0 ─┐                                                                        ┌─> shard 0
    shard 1 ─┼─> the messages to node 2 in one turn of the loop ══ one ControlBundle ═╪═> shard 1 ──> answers, on the
    shard 2 ─┘                                                                        └─> shard 2     same stream

All control messages that this node sends to one other node in the same turn of the event loop form one bundle. A
bundle is cheaper than single messages, because a write to a stream costs more than adding a message to a bundle. All
shards of a node tick in the same turn of the event loop, so their messages share bundles. Many idle shards cost little
more CPU time than one idle shard. The node checks the caller's identity when a stream opens. Each control message also
names the receiver's incarnation, because two shards may know different incarnations of one node. Control messages that
cannot be sent are dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import grpc
from grpc import aio

from raft.core import InvalidMessage, RaftMessage
from raft.transport.admission import CallerCheck
from raft.transport.dialing import Dialer, PlainDialer
from raft.transport.rare_log import RareLog
from raft.transport.refused_messages import RefusedMessages
from raft.transport.streams import OutboundStream, SendQueue
from raft.transport.wire import control_from_wire, control_to_wire
from raft.v1 import raft_pb2, raft_pb2_grpc

log = logging.getLogger("ledgermq.raft.transport")

# The largest number of bundles that wait for one peer. Further bundles are dropped.
CONTROL_BOUND = 256
# The largest number of messages in one bundle. The sender drops further messages of the same turn, and the receiver
# refuses a larger bundle, because it handles all messages of a bundle in one turn.
BUNDLE_BOUND = 1024


class ControlReceiver(Protocol):
    """The receiver of one shard's control messages on this node."""

    def refusal_for(self, incarnation: bytes) -> str:
        """Return the reason why a message for this incarnation of this node is refused, or "" if it is accepted."""

    def receive(self, message: RaftMessage) -> None:
        """Handle a vote request, a heartbeat, or an answer to a vote request or heartbeat."""


class Bundles:
    """`Bundles` collects the control messages to one node, and sends them together at the end of the event loop's
    turn."""

    def __init__(self, send: Callable[[raft_pb2.ControlBundle], None]) -> None:
        self._send = send
        self._messages: list[raft_pb2.ControlMessage] = []

    def add(self, message: raft_pb2.ControlMessage) -> None:
        if not self._messages:
            asyncio.get_running_loop().call_soon(self._end_turn)
        if len(self._messages) < BUNDLE_BOUND:
            self._messages.append(message)

    def _end_turn(self) -> None:
        messages, self._messages = self._messages, []
        self._send(raft_pb2.ControlBundle(messages=messages))


class ControlStream:
    """The control stream to one node at one address. All shards that have a replica on the other node share the
    control stream to it."""

    def __init__(
        self,
        me: int,
        node: int,
        address: str,
        cluster: str,
        hear: Callable[[int, Any], None],
        refused: RefusedMessages,
        dialer: Dialer,
    ) -> None:
        self.key = (node, address)
        # The number of shards that use this stream.
        self.users = 0
        self._channel = dialer.channel(node, address)
        stub = raft_pb2_grpc.RaftStub(self._channel)
        metadata = caller(cluster, me, node)

        async def open_call() -> Any:
            return stub.Control(metadata=(*metadata, *await dialer.prove(self._channel, node)))

        self._stream = OutboundStream(
            f"control stream to node {node} at {address}",
            open_call,
            bound=CONTROL_BOUND,
            on_answer=lambda bundle: hear(node, bundle),
            on_broken=lambda: None,
            refused=refused,
        )
        self._bundles = Bundles(self._stream.send)
        self._stream.start()

    def send(self, shard: int, incarnation: bytes, message: RaftMessage) -> None:
        """Send a message of `shard` without waiting. Drop the message while the stream is down."""
        wire = control_to_wire(message)
        wire.shard, wire.incarnation = shard, incarnation
        self._bundles.add(wire)

    async def stop(self) -> None:
        await self._stream.stop()
        await self._channel.close()


class ControlStreams:
    """Holds the control streams of one node, one to each other node. A shard must call `join` before it uses a
    control stream."""

    def __init__(self, cluster: str, node: int, dialer: Dialer | None = None) -> None:
        """`dialer` opens the channels of all streams to other nodes; by default they have no TLS."""
        self.cluster = cluster
        self.node = node
        self.dialer = dialer or PlainDialer()
        # The refused messages of other nodes, on the streams of all shards of this node.
        self.refused = RefusedMessages()
        # Callers can cause these two lines without end: messages that mean another data directory of this node, and
        # byte ranges that are refused.
        self.disowned_log = RareLog(log)
        self.refused_ranges_log = RareLog(log)
        self._shards: dict[int, ControlReceiver] = {}
        self._streams: dict[tuple[int, str], ControlStream] = {}
        # By node: the answers to that node, on the stream that brought its last messages.
        self._answers: dict[int, Bundles] = {}

    def join(self, shard: int, receiver: ControlReceiver) -> None:
        self._shards[shard] = receiver

    def leave(self, shard: int) -> None:
        self._shards.pop(shard, None)

    def acquire(self, node: int, address: str) -> ControlStream:
        """Return the control stream to this node and address, which several shards share. The caller of `acquire`
        must call `release` later."""
        stream = self._streams.get((node, address))
        if stream is None:
            stream = ControlStream(
                self.node, node, address, self.cluster, self._receive_answers, self.refused, self.dialer
            )
            self._streams[node, address] = stream
        stream.users += 1
        return stream

    async def release(self, stream: ControlStream) -> None:
        """Release a control stream that one shard used. When no shard uses the control stream any more, it is
        closed."""
        stream.users -= 1
        if stream.users == 0:
            del self._streams[stream.key]
            await stream.stop()

    def answer(self, shard: int, message: RaftMessage) -> None:
        """Send an answer on the stream that brought the last messages of the answer's receiver. Drop the answer if
        there is no such stream."""
        bundles = self._answers.get(message.receiver)
        if bundles is not None:
            wire = control_to_wire(message)
            wire.shard = shard
            bundles.add(wire)

    async def serve(self, sender: int, check: CallerCheck, context: aio.ServicerContext[Any, Any]) -> None:
        """Handle the messages of node `sender`, and write the answers to its stream, until the stream ends. After an
        invalid message, end the stream with INVALID_ARGUMENT. When the sender is not a member any more, end it with
        FAILED_PRECONDITION."""
        queue = SendQueue(CONTROL_BOUND)
        answers = Bundles(queue.put)
        async with queue.drained(context.write, f"control answers to node {sender}"):
            try:
                while (bundle := await context.read()) is not aio.EOF:
                    await check.end_if_removed(context)
                    self._answers[sender] = answers
                    for wire in messages_of(bundle, sender):
                        receiver = self._shards.get(wire.shard)
                        if receiver is not None and not receiver.refusal_for(wire.incarnation):
                            self._receive(receiver, sender, wire)
            except InvalidMessage as error:
                self.refused.add(error, f"control stream of node {sender}")
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

    def _receive_answers(self, sender: int, bundle: raft_pb2.ControlBundle) -> None:
        for wire in messages_of(bundle, sender):
            if (receiver := self._shards.get(wire.shard)) is not None:
                self._receive(receiver, sender, wire)

    def _receive(self, receiver: ControlReceiver, sender: int, wire: raft_pb2.ControlMessage) -> None:
        message = control_from_wire(wire, sender, self.node)
        if message is not None:
            receiver.receive(message)


def messages_of(bundle: raft_pb2.ControlBundle, sender: int) -> Sequence[raft_pb2.ControlMessage]:
    """Return the messages of a received bundle. Raises InvalidMessage if there are too many."""
    messages: Sequence[raft_pb2.ControlMessage] = bundle.messages
    if len(messages) > BUNDLE_BOUND:
        raise InvalidMessage(sender, f"a bundle of {len(messages)} control messages, and at most {BUNDLE_BOUND} may be")
    return messages


def caller(cluster: str, sender: int, receiver: int) -> tuple[tuple[str, str], ...]:
    """Return the metadata that identifies a stream: the cluster, the calling node and the called node."""
    return (
        ("ledgermq-cluster", cluster),
        ("ledgermq-sender", str(sender)),
        ("ledgermq-receiver", str(receiver)),
    )
