"""The transport of one shard over gRPC.

Votes and heartbeats use the control stream that all shards of the node share (control_streams.py). Byte ranges of the
log use a separate connection to each peer. In each call, the caller names the incarnation that its configuration has
for the peer. A node with a wiped disk has another incarnation, so it refuses the call. A node with a wiped disk can
neither vote nor acknowledge until an operator adds it again. A stream for byte ranges names cluster, shard, caller and
callee in its metadata when it opens. Messages that cannot be sent over gRPC are dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from grpc import aio

from raft.configuration_entry import ShardConfiguration
from raft.core import (
    Append,
    AppendResponse,
    HeartbeatResponse,
    InvalidMessage,
    RaftMessage,
    SnapshotChunk,
    SnapshotResponse,
    VoteResponse,
)
from raft.snapshot_piece import SnapshotPiece
from raft.transport.admission import Admission, CallerCheck, EverybodyAdmitted, refuse
from raft.transport.bulk import Bulk, parse, serialize
from raft.transport.control_streams import ControlStream, ControlStreams, caller
from raft.transport.node_proof import NodeProofs
from raft.transport.rare_log import RareLog
from raft.transport.streams import OutboundStream, SendQueue, accept
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

# The largest number of byte ranges that wait for one peer. The core allows half as many messages in flight, so the
# queue drops none of them.
APPEND_BOUND = 128

# Python refuses to read a number of thousands of digits.
_MOST_DIGITS = 10

_SERVICE = raft_pb2.DESCRIPTOR.services_by_name["Raft"].full_name
_REPLICATE = f"/{_SERVICE}/Replicate"
_NOT_SERVED = "this node does not serve this shard now; ask again"


@dataclass(frozen=True, slots=True)
class Identity:
    """`Identity` is the identity of this node in one shard."""

    cluster: str
    shard: int
    node: int
    incarnation: bytes


@dataclass(frozen=True, slots=True)
class Receiver:
    """The driver's methods for incoming messages."""

    message: Callable[[RaftMessage], None]
    append: Callable[[Append, Readable], None]
    snapshot: Callable[[SnapshotChunk, SnapshotPiece], None]
    unreachable: Callable[[int], None]


class GrpcTransport:
    """`GrpcTransport` sends the messages of one shard, and receives the incoming messages of that shard from
    RaftService."""

    def __init__(
        self, identity: Identity, peers: Mapping[int, str], receiver: Receiver, control_streams: ControlStreams
    ) -> None:
        """`peers` maps node ids to addresses in this node's settings. `control_streams` are the control streams of
        this node."""
        self.identity = identity
        self.receiver = receiver
        # Why the other nodes refuse this node: they know it with another incarnation. Empty: no such reason is known.
        self.disowned = ""
        self._peers = peers
        self._control_streams = control_streams
        # The incarnations of the other members, and of removed nodes that the leader still sends to, by node.
        self._incarnations: dict[int, bytes] = {}
        self._links: dict[int, PeerLink] = {}
        # The links to removed members that are closing.
        self._closing: set[asyncio.Task[None]] = set()
        self._started = False
        # This node has no replica of the shard any more, or ends.
        self.is_stopped = False
        # By node: the answers to that node, on the stream that brought its last message.
        self._append_answers: dict[int, SendQueue] = {}

    def start(self) -> None:
        self._started = True
        self._control_streams.join(self.identity.shard, self)
        for link in self._links.values():
            link.start()

    async def stop(self) -> None:
        self.is_stopped = True
        self._control_streams.leave(self.identity.shard)
        await asyncio.gather(*(link.stop() for link in self._links.values()), *self._closing)

    def configured(self, configuration: ShardConfiguration, served: Container[int]) -> None:
        """Keep a link to each other member, and to the removed nodes in `served`, to which the leader still sends the
        log.

        An address in this node's settings overrides the address in the configuration, because a node may have moved."""
        members = {node: self._peers.get(node) or member.address for node, member in configuration.members.items()}
        known = {node: member.incarnation for node, member in configuration.members.items()}
        self._incarnations = {**{node: was for node, was in self._incarnations.items() if node in served}, **known}
        for node, link in list(self._links.items()):
            if members.get(node, link.address if node in served else "") != link.address:
                self._disconnect(node)
        for node, address in members.items():
            if node != self.identity.node and node not in self._links:
                self._connect(node, address)

    def _connect(self, node: int, address: str) -> None:
        link = self._links[node] = PeerLink(
            self.identity,
            node,
            address,
            self.receiver,
            self._control_streams,
            lambda: self._incarnations.get(node, b""),
        )
        if self._started:
            link.start()

    def _disconnect(self, node: int) -> None:
        closing = asyncio.create_task(self._links.pop(node).stop(), name=f"close the links to node {node}")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def receive(self, message: RaftMessage) -> None:
        """Handle a vote request, a heartbeat, or an answer to a vote request or heartbeat."""
        self.receiver.message(message)

    def refusal_for(self, incarnation: bytes) -> str:
        """Return the reason why a message for this incarnation of this node is refused, or "" if it is accepted. At
        most one refusal a minute is logged."""
        self.disowned = ""
        if incarnation != self.identity.incarnation:
            self.disowned = (
                f"node {self.identity.node} has another data directory than the cluster knows (a new or wiped disk): "
                "it takes no part until it is added again. Remove the node from the cluster, then add it again"
            )
            self._control_streams.disowned_log.error("%s", self.disowned)
        return self.disowned

    def send(self, message: RaftMessage) -> None:
        """Send a vote request, a heartbeat or an answer. An answer uses the stream on which its request arrived."""
        match message:
            case AppendResponse() | SnapshotResponse():
                answers = self._append_answers.get(message.receiver)
                if answers is not None:
                    answers.put(answer_to_wire(message))
            case VoteResponse() | HeartbeatResponse():
                self._control_streams.answer(self.identity.shard, message)
            case _:
                if (link := self._links.get(message.receiver)) is not None:
                    link.send(message)

    def replicate(self, ranges: Iterable[tuple[Append, Readable]]) -> None:
        """Send byte ranges, each over the bulk connection to its receiver."""
        for receiver, message in ranges_to_wire(ranges):
            if (link := self._links.get(receiver)) is not None:
                link.bulk.send(message)

    def send_snapshot(self, chunk: SnapshotChunk, piece: SnapshotPiece) -> None:
        """Send a piece of a snapshot over the bulk connection to its receiver."""
        if (link := self._links.get(chunk.receiver)) is not None:
            link.bulk.send(serialize(snapshot_to_wire(chunk, piece)))

    def reopen(self, peer: int) -> None:
        """Close the bulk connection to this peer, and open a new connection."""
        if (link := self._links.get(peer)) is not None:
            link.reopen()

    # -- the incoming stream, called by RaftService

    async def serve_replicate(self, sender: int, check: CallerCheck, context: aio.ServicerContext[Any, Any]) -> None:
        """Handle byte ranges from the leader `sender` until its stream ends, or until it is not a member any more.

        Answers to `sender` use the stream that brought the last message. So a second stream in the leader's name
        cannot take the answers to the messages of the first stream."""
        answers = SendQueue(APPEND_BOUND)
        async with answers.drained(context.write, f"append answers to node {sender}"):
            try:
                while (bulk := await context.read()) is not aio.EOF:
                    await check.end_if_removed(context)
                    if self.is_stopped:
                        await context.abort(grpc.StatusCode.UNAVAILABLE, _NOT_SERVED)
                    self._append_answers[sender] = answers
                    self._receive_bulk(bulk, sender)
            except InvalidMessage as error:
                self._control_streams.refused.add(error, f"replication stream of node {sender}")
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            except (CorruptRangeError, ForkedError) as error:
                self._control_streams.refused_ranges_log.warning("refused a byte range from node %d: %s", sender, error)
                await context.abort(grpc.StatusCode.DATA_LOSS, str(error))

    def _receive_bulk(self, bulk: Bulk, sender: int) -> None:
        if bulk.head.HasField("snapshot"):
            self.receiver.snapshot(*snapshot_from_wire(bulk.head, sender, self.identity.node))
        else:
            self.receiver.append(append_from_wire(bulk.head, sender, self.identity.node), bulk.entries)


class PeerLink:
    """The connections of one shard to one peer: a connection for byte ranges, and the control stream that all
    shards share."""

    def __init__(
        self,
        identity: Identity,
        node: int,
        address: str,
        receiver: Receiver,
        control_streams: ControlStreams,
        incarnation: Callable[[], bytes],
    ) -> None:
        """`incarnation()` returns the peer's incarnation in the newest configuration, or empty bytes if it is not
        known."""
        self.address = address
        self._identity = identity
        self._node = node
        self._incarnation = incarnation
        self._control_streams = control_streams
        self._control: ControlStream | None = None
        self._channel = control_streams.dialer.channel(node, address)
        # Whether the next call needs a new connection, because the present one swallows what it should carry.
        self._must_reconnect = False
        me = identity.node
        self.bulk = OutboundStream(
            f"replication stream of shard {identity.shard} to node {node} at {address}",
            self._open,
            bound=APPEND_BOUND,
            on_answer=lambda wire: receiver.message(answer_from_wire(wire, node, me)),
            on_broken=lambda: receiver.unreachable(node),
            refused=control_streams.refused,
        )

    def start(self) -> None:
        self._control = self._control_streams.acquire(self._node, self.address)
        self.bulk.start()

    async def stop(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            await self._control_streams.release(control)
        await self.bulk.stop()
        await self._channel.close()

    def reopen(self) -> None:
        """Close the bulk connection, and open a new connection soon."""
        self._must_reconnect = True
        self.bulk.reopen()

    def send(self, message: RaftMessage) -> None:
        """Send a vote request or a heartbeat. Drop the message if the peer's incarnation is not known."""
        if self._control is not None and (incarnation := self._incarnation()):
            self._control.send(self._identity.shard, incarnation, message)

    async def _open(self) -> Any:
        """Open a call to the peer, which names the peer's incarnation. Return None if the peer's incarnation is not
        known."""
        incarnation = self._incarnation()
        if not incarnation:
            return None
        if self._must_reconnect:
            old, self._channel = self._channel, self._control_streams.dialer.channel(self._node, self.address)
            self._must_reconnect = False
            await old.close()
        identity = self._identity
        who = caller(identity.cluster, identity.node, self._node)
        meant = (("ledgermq-shard", str(identity.shard)), ("ledgermq-incarnation", incarnation.hex()))
        proof = await self._control_streams.dialer.prove(self._channel, self._node)
        # The messages are encoded already, because several peers may get the same bytes. So there is no serializer.
        replicate: Callable[..., Any] = self._channel.stream_stream(
            _REPLICATE, response_deserializer=raft_pb2.AppendResponse.FromString
        )
        return replicate(metadata=(*who, *meant, *proof))


# Returns None if this node cannot answer yet.
Introduce = Callable[[raft_pb2.IntroduceRequest], raft_pb2.IntroduceResponse | None]
ReadEntries = Callable[[raft_pb2.ReadEntriesRequest], raft_pb2.ReadEntriesResponse]
GetConfiguration = Callable[[raft_pb2.GetConfigurationRequest], raft_pb2.GetConfigurationResponse]


class RaftService(raft_pb2_grpc.RaftServicer):
    """The gRPC service of one node for other nodes, for all its shards. Each shard is added to the service after the
    shard has started."""

    def __init__(
        self,
        introduce: Introduce,
        read_entries: ReadEntries,
        get_configuration: GetConfiguration,
        control_streams: ControlStreams,
        proofs: NodeProofs | None = None,
        admission: Admission | None = None,
    ) -> None:
        """`proofs` judges whether callers are the nodes that they claim to be; None believes them. `admission` judges
        whether they are members; None admits all of them."""
        self._proofs = proofs or NodeProofs(control_streams.cluster, control_streams.node, None)
        self._admission = admission or EverybodyAdmitted()
        self._refused_log = RareLog(log)
        self._introduce = introduce
        self._read_entries = read_entries
        self._get_configuration = get_configuration
        self._control_streams = control_streams
        self._shards: dict[int, GrpcTransport] = {}

    def add_shard(self, transport: GrpcTransport) -> None:
        """Serve the streams of this shard from now on."""
        self._shards[transport.identity.shard] = transport

    async def Introduce(  # noqa: N802 (gRPC names)
        self, request: raft_pb2.IntroduceRequest, context: aio.ServicerContext[Any, Any]
    ) -> raft_pb2.IntroduceResponse:
        await self._check_proof(request.sender, context)
        await self._member(request.sender, None, "introduction of").end_if_removed(context)
        answer = self._introduce(request)
        if answer is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this node does not know this shard yet; ask again")
        return answer

    async def ReadEntries(  # noqa: N802
        self, request: raft_pb2.ReadEntriesRequest, context: aio.ServicerContext[Any, Any]
    ) -> raft_pb2.ReadEntriesResponse:
        await self._check_proof(request.sender, context)
        return self._read_entries(request)

    async def GetConfiguration(  # noqa: N802
        self, request: raft_pb2.GetConfigurationRequest, context: aio.ServicerContext[Any, Any]
    ) -> raft_pb2.GetConfigurationResponse:
        await self._check_proof(request.sender, context)
        return self._get_configuration(request)

    async def Control(self, request_iterator: Any, context: aio.ServicerContext[Any, Any]) -> None:  # noqa: N802
        sender = await self._admit(metadata_of(context), context)
        check = self._member(sender, None, "control stream of")
        await check.end_if_removed(context)
        await accept(context)
        await self._control_streams.serve(sender, check, context)

    async def Replicate(self, request_iterator: Any, context: aio.ServicerContext[Any, Any]) -> None:  # noqa: N802
        metadata = metadata_of(context)
        transport = self._shards.get(number(metadata.get("ledgermq-shard", "")))
        if transport is None or transport.is_stopped:
            await context.abort(grpc.StatusCode.UNAVAILABLE, _NOT_SERVED)
            raise AssertionError("abort always raises")
        sender = await self._admit(metadata, context)
        check = self._member(sender, transport.identity.shard, "replication stream of")
        await check.end_if_removed(context)
        if reason := transport.refusal_for(in_hex(metadata.get("ledgermq-incarnation", ""))):
            await refuse(context, reason)
        await accept(context)
        await transport.serve_replicate(sender, check, context)

    def _member(self, sender: int, shard: int | None, what: str) -> CallerCheck:
        return CallerCheck(self._admission, self._control_streams.refused, sender, shard, f"{what} node {sender}")

    async def _admit(self, metadata: Mapping[str, str], context: aio.ServicerContext[Any, Any]) -> int:
        """Return the id of the calling node. End the call if its metadata names another cluster or another node."""
        cluster, me = self._control_streams.cluster, self._control_streams.node
        if metadata.get("ledgermq-cluster") != cluster:
            await refuse(context, f"this node is of cluster {cluster!r}, not {metadata.get('ledgermq-cluster')!r}")
        if metadata.get("ledgermq-receiver") != str(me):
            await refuse(context, f"this is node {me}, not node {metadata.get('ledgermq-receiver')}")
        sender = number(metadata.get("ledgermq-sender", ""))
        if sender < 1 or sender == me:
            await refuse(context, f"no other node has the number {metadata.get('ledgermq-sender')!r}")
        await self._check_proof(sender, context)
        return sender

    async def _check_proof(self, sender: int, context: aio.ServicerContext[Any, Any]) -> None:
        """End the call if the caller has not proven that it is the node `sender`."""
        if reason := self._proofs.refusal(context, sender):
            self._refused_log.warning("refused a call from %s: %s", context.peer(), reason)
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, reason)


def add_raft(service: RaftService, server: aio.Server) -> None:
    """Add the Raft service to a gRPC server. The module bulk.py decodes the messages of Replicate, instead of
    generated code."""
    raft_pb2_grpc.add_RaftServicer_to_server(service, server)
    replicate = grpc.stream_stream_rpc_method_handler(
        service.Replicate, request_deserializer=parse, response_serializer=raft_pb2.AppendResponse.SerializeToString
    )
    server.add_registered_method_handlers(_SERVICE, {"Replicate": replicate})


def metadata_of(context: aio.ServicerContext[Any, Any]) -> dict[str, str]:
    """Return the metadata that the caller sent."""
    return {key: str(value) for key, value in (context.invocation_metadata() or ())}


def in_hex(text: str) -> bytes:
    """Return the bytes of a hexadecimal metadata value. A value that is not hexadecimal gives empty bytes, which
    are no valid incarnation."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def number(text: str) -> int:
    """Return the number in a metadata value. A value that is not the number of a node or shard gives -1."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else -1
