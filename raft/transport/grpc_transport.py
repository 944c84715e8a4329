"""The transport of one shard over gRPC.

Votes and heartbeats use the control stream that all shards of the node share (control_streams.py). Byte ranges of the
log use a separate connection to each peer. A caller names the incarnation that its configuration has for the peer. So a
node with a wiped disk is refused: it can neither vote nor acknowledge until it is added again. A stream for byte ranges
names cluster, shard, caller and callee in its metadata when it opens. Messages that cannot be sent are dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
from grpc import aio

from raft.configuration_entry import ShardConfiguration
from raft.core import Append, AppendResponse, HeartbeatResponse, Message, SnapshotChunk, SnapshotResponse, VoteResponse
from raft.snapshot_piece import Piece
from raft.transport.bulk import Bulk, parse, serialize
from raft.transport.control_streams import ControlLines, Line, caller
from raft.transport.streams import CHANNEL_OPTIONS, OutboundStream, SendQueue
from raft.transport.wire import (
    answer_from_wire,
    answer_to_wire,
    append_from_wire,
    ranges_to_wire,
    snapshot_from_wire,
    snapshot_to_wire,
)
from raft.v1 import raft_pb2, raft_pb2_grpc
from store import CorruptRangeError, ForkedError, Readable

log = logging.getLogger("ledgermq.raft.transport")

APPEND_BOUND = 128
"""Byte ranges that wait for one peer: twice the core's own bound of messages in flight, so none is dropped by it."""

_SERVICE = raft_pb2.DESCRIPTOR.services_by_name["Raft"].full_name
_REPLICATE = f"/{_SERVICE}/Replicate"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this node is, in one shard."""

    cluster: str
    shard: int
    node: int
    incarnation: bytes


@dataclass(frozen=True, slots=True)
class Receiver:
    """What the transport hands incoming messages to: the driver's events."""

    message: Callable[[Message], None]
    append: Callable[[Append, Readable], None]
    snapshot: Callable[[SnapshotChunk, Piece], None]
    unreachable: Callable[[int], None]


class GrpcTransport:
    """The outgoing half, and the answers of the incoming one."""

    def __init__(self, identity: Identity, peers: Mapping[int, str], receiver: Receiver, lines: ControlLines) -> None:
        """`lines`: of this node."""
        self.identity = identity
        self.receiver = receiver
        self.disowned = ""
        """Why no peer lets this node take part, as it found at its door; empty while there is no such reason."""
        self._peers = peers
        self._lines = lines
        self._incarnations: dict[int, bytes] = {}
        """Of the other members, and of those that are served still, as the configurations knew them."""
        self._links: dict[int, PeerLink] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        """Links to members that are gone, while they close."""
        self._started = False
        self._append_answers: dict[int, SendQueue] = {}

    def start(self) -> None:
        self._started = True
        self._lines.join(self.identity.shard, self)
        for link in self._links.values():
            link.start()

    async def stop(self) -> None:
        self._lines.leave(self.identity.shard)
        await asyncio.gather(*(link.stop() for link in self._links.values()), *self._leaving)

    def configured(self, configuration: ShardConfiguration, served: Container[int]) -> None:
        """Links to all other members, and to nobody else but who is served still. An address among the node's own
        settings goes before the one in the configuration: a node may have moved."""
        members = {node: self._peers.get(node) or member.address for node, member in configuration.members.items()}
        known = {node: member.incarnation for node, member in configuration.members.items()}
        self._incarnations = {**{node: was for node, was in self._incarnations.items() if node in served}, **known}
        for node, link in list(self._links.items()):
            if members.get(node, link.address if node in served else "") != link.address:
                self._part_from(node)
        for node, address in members.items():
            if node != self.identity.node and node not in self._links:
                self._meet(node, address)

    def _meet(self, node: int, address: str) -> None:
        link = self._links[node] = PeerLink(
            self.identity, node, address, self.receiver, self._lines, lambda: self._incarnations.get(node, b"")
        )
        if self._started:
            link.start()

    def _part_from(self, node: int) -> None:
        closing = asyncio.create_task(self._links.pop(node).stop(), name=f"close the links to node {node}")
        self._leaving.add(closing)
        closing.add_done_callback(self._leaving.discard)

    def hear(self, message: Message) -> None:
        """A vote or a heartbeat, or the answer to one, has come in."""
        self.receiver.message(message)

    def admit_to(self, incarnation: bytes) -> str:
        """Why a peer that means this incarnation of this node is not let in; empty when it is. Says so once."""
        was, self.disowned = self.disowned, ""
        if incarnation != self.identity.incarnation:
            self.disowned = (
                f"node {self.identity.node} has another data directory than the one that the cluster knows "
                "(a new or wiped disk): it takes no part until it is added again"
            )
            if not was:
                log.error("%s", self.disowned)
        return self.disowned

    def send(self, message: Message) -> None:
        """Votes, heartbeats, and answers: an answer goes back on the stream that brought the question."""
        match message:
            case AppendResponse() | SnapshotResponse():
                answers = self._append_answers.get(message.receiver)
                if answers is not None:
                    answers.put(answer_to_wire(message))
            case VoteResponse() | HeartbeatResponse():
                self._lines.answer(self.identity.shard, message)
            case _:
                if (link := self._links.get(message.receiver)) is not None:
                    link.send(message)

    def replicate(self, ranges: Iterable[tuple[Append, Readable]]) -> None:
        """Byte ranges, each by its peer's bulk connection."""
        for receiver, message in ranges_to_wire(ranges):
            if (link := self._links.get(receiver)) is not None:
                link.bulk.send(message)

    def send_snapshot(self, chunk: SnapshotChunk, piece: Piece) -> None:
        if (link := self._links.get(chunk.receiver)) is not None:
            link.bulk.send(serialize(snapshot_to_wire(chunk, piece)))

    # -- the incoming stream, called by RaftService

    async def serve_replicate(self, sender: int, context: aio.ServicerContext[Any, Any]) -> None:
        """Byte ranges of one leader, until its stream ends."""
        answers = self._append_answers[sender] = SendQueue(APPEND_BOUND)
        async with answers.drained(context.write, f"append answers to node {sender}"):
            try:
                while (bulk := await context.read()) is not aio.EOF:
                    self._receive_bulk(bulk, sender)
            except (CorruptRangeError, ForkedError) as error:
                log.warning("a byte range of node %d is refused: %s", sender, error)
                await context.abort(grpc.StatusCode.DATA_LOSS, str(error))

    def _receive_bulk(self, bulk: Bulk, sender: int) -> None:
        if bulk.head.HasField("snapshot"):
            self.receiver.snapshot(*snapshot_from_wire(bulk.head, sender, self.identity.node))
        else:
            self.receiver.append(append_from_wire(bulk.head, sender, self.identity.node), bulk.entries)


class PeerLink:
    """To one peer: the connection for byte ranges, and the line that other shards use too."""

    def __init__(
        self,
        identity: Identity,
        node: int,
        address: str,
        receiver: Receiver,
        lines: ControlLines,
        incarnation: Callable[[], bytes],
    ) -> None:
        """`incarnation()`: by which the configuration knows the peer; empty where it does not."""
        self.address = address
        self._identity = identity
        self._node = node
        self._incarnation = incarnation
        self._lines = lines
        self._line: Line | None = None
        self._channel = aio.insecure_channel(address, options=CHANNEL_OPTIONS)
        me = identity.node
        # What is sent are bytes already, the same for several peers.
        replicate: Callable[..., Any] = self._channel.stream_stream(
            _REPLICATE, response_deserializer=raft_pb2.AppendResponse.FromString
        )
        self.bulk = OutboundStream(
            f"replication stream of shard {identity.shard} to node {node} at {address}",
            lambda: self._open(replicate),
            bound=APPEND_BOUND,
            on_answer=lambda wire: receiver.message(answer_from_wire(wire, node, me)),
            on_broken=lambda: receiver.unreachable(node),
        )

    def start(self) -> None:
        self._line = self._lines.meet(self._node, self.address)
        self.bulk.start()

    async def stop(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            await self._lines.part(line)
        await self.bulk.stop()
        await self._channel.close()

    def send(self, message: Message) -> None:
        """A vote or a heartbeat, to whom the configuration knows."""
        if self._line is not None and (incarnation := self._incarnation()):
            self._line.send(self._identity.shard, incarnation, message)

    def _open(self, method: Callable[..., Any]) -> Any:
        """A call to the peer, by the incarnation that the configuration knows; None where it knows none."""
        incarnation = self._incarnation()
        if not incarnation:
            return None
        identity = self._identity
        who = caller(identity.cluster, identity.node, self._node)
        meant = (("ledgermq-shard", str(identity.shard)), ("ledgermq-incarnation", incarnation.hex()))
        return method(metadata=(*who, *meant))


Introduce = Callable[[raft_pb2.IntroduceRequest], raft_pb2.IntroduceResponse | None]
"""None: this node cannot tell yet."""
ReadEntries = Callable[[raft_pb2.ReadEntriesRequest], raft_pb2.ReadEntriesResponse]


class RaftService(raft_pb2_grpc.RaftServicer):
    """The incoming half: one for a node. Shards are added once they have started."""

    def __init__(self, introduce: Introduce, read_entries: ReadEntries, lines: ControlLines) -> None:
        self._introduce = introduce
        self._read_entries = read_entries
        self._lines = lines
        self._shards: dict[int, GrpcTransport] = {}

    def add_shard(self, transport: GrpcTransport) -> None:
        self._shards[transport.identity.shard] = transport

    async def Introduce(  # noqa: N802 (gRPC names)
        self, request: raft_pb2.IntroduceRequest, context: aio.ServicerContext[Any, Any]
    ) -> raft_pb2.IntroduceResponse:
        answer = self._introduce(request)
        if answer is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this node does not know of that shard (yet)")
        return answer

    async def ReadEntries(  # noqa: N802
        self, request: raft_pb2.ReadEntriesRequest, context: aio.ServicerContext[Any, Any]
    ) -> raft_pb2.ReadEntriesResponse:
        return self._read_entries(request)

    async def Control(self, request_iterator: Any, context: aio.ServicerContext[Any, Any]) -> None:  # noqa: N802
        await self._lines.serve(await self._admit(metadata_of(context), context), context)

    async def Replicate(self, request_iterator: Any, context: aio.ServicerContext[Any, Any]) -> None:  # noqa: N802
        metadata = metadata_of(context)
        transport = self._shards.get(number(metadata.get("ledgermq-shard", "")))
        if transport is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this node does not serve that shard (yet)")
            raise AssertionError("abort always raises")
        sender = await self._admit(metadata, context)
        # Who knows this incarnation is or was a member. The leader may be one that this node has not heard of yet.
        if reason := transport.admit_to(in_hex(metadata.get("ledgermq-incarnation", ""))):
            await refuse(context, reason)
        await transport.serve_replicate(sender, context)

    async def _admit(self, metadata: Mapping[str, str], context: aio.ServicerContext[Any, Any]) -> int:
        """Who calls, if it means this very node; ends the call otherwise."""
        cluster, me = self._lines.cluster, self._lines.node
        if metadata.get("ledgermq-cluster") != cluster:
            await refuse(context, f"this node is of cluster {cluster!r}, not {metadata.get('ledgermq-cluster')!r}")
        if metadata.get("ledgermq-receiver") != str(me):
            await refuse(context, f"this is node {me}, not node {metadata.get('ledgermq-receiver')}")
        sender = number(metadata.get("ledgermq-sender", ""))
        if sender < 1 or sender == me:
            await refuse(context, f"no other node is called {metadata.get('ledgermq-sender')!r}")
        return sender


def add_raft(service: RaftService, server: aio.Server) -> None:
    """As the generated code does it, but for byte ranges, whose messages are read here."""
    raft_pb2_grpc.add_RaftServicer_to_server(service, server)
    replicate = grpc.stream_stream_rpc_method_handler(
        service.Replicate, request_deserializer=parse, response_serializer=raft_pb2.AppendResponse.SerializeToString
    )
    server.add_registered_method_handlers(_SERVICE, {"Replicate": replicate})


def metadata_of(context: aio.ServicerContext[Any, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in (context.invocation_metadata() or ())}


async def refuse(context: aio.ServicerContext[Any, Any], reason: str) -> NoReturn:
    """Ends the call for a reason that time alone does not heal."""
    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, reason)
    raise AssertionError("abort always raises")


def in_hex(text: str) -> bytes:
    """The bytes in a metadata value; empty, which nothing is known by, where it is not of that form."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def number(text: str) -> int:
    """The number in a metadata value, or -1, which no node or shard has."""
    return int(text) if text.isdecimal() else -1
