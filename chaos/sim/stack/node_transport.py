"""Sends Raft's messages between simulated nodes as datagrams. A datagram can be lost, duplicated or delayed, or can
come from an earlier process of the sender.

Datagrams test more than the streams of gRPC, because a stream keeps the order of messages and reports a break. As in
production, a request names the incarnation that the sender's configuration has for the receiver. A node refuses a
request that names another incarnation.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace
from random import Random

from chaos.sim.engine.network import Network
from chaos.sim.engine.node_life import Life
from raft.configuration_entry import ShardConfiguration
from raft.core import (
    Append,
    AppendResponse,
    HeartbeatResponse,
    RaftMessage,
    SnapshotChunk,
    SnapshotResponse,
    VoteResponse,
)
from raft.snapshot_piece import SnapshotPiece
from raft.transport.bulk import parse, serialize
from raft.transport.grpc_transport import Identity, Receiver
from raft.transport.streams import RETRY_S
from raft.transport.wire import (
    answer_from_wire,
    answer_to_wire,
    append_from_wire,
    control_from_wire,
    control_to_wire,
    ranges_to_wire,
    snapshot_from_wire,
    snapshot_to_wire,
)
from raft.v1 import raft_pb2
from store import CorruptRangeError, ForkedError, Readable

_ANSWERS = (AppendResponse, SnapshotResponse, HeartbeatResponse, VoteResponse)


# (shard, node).
DoorKey = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Door:
    """Receives the messages of one shard at one node, while the node's process runs."""

    life: Life
    transport: SimTransport


class Transit:
    """Flips bits in some of the entries and snapshot pieces that one node sends, and loses some acknowledgements."""

    def __init__(self, random: Random) -> None:
        # Probability that a bit is flipped in a message.
        self.corrupts = 0.0
        # Number of corrupted messages.
        self.corrupted = 0
        # (shard, leader) to which this node's acknowledgements get lost.
        self.unheard: set[tuple[int, int]] = set()
        self._random = random

    def of(self, data: bytes) -> bytes:
        """Return the data as the receiver gets it. With probability `corrupts`, one bit of the data is flipped."""
        random = self._random
        if not self.corrupts or not data or random.random() >= self.corrupts:
            return data
        self.corrupted += 1
        spoiled = bytearray(data)
        spoiled[random.randrange(len(data))] ^= 1 << random.randrange(8)
        return bytes(spoiled)


class SimTransport:
    """Sends and receives the messages of one replica. `SimTransport` implements
    `cluster.node.runtime.PeerTransport`. `doors` has the receiver of messages (`Door`) of each shard at each
    running node."""

    def __init__(
        self,
        life: Life,
        network: Network,
        doors: dict[DoorKey, Door],
        identity: Identity,
        receiver: Receiver,
        transit: Transit,
        acknowledges: Callable[[int, int], None],
    ) -> None:
        """`acknowledges(shard, index)` is called when this replica tells a leader that it holds the entries up to
        `index`."""
        self.disowned = ""
        self._acknowledges = acknowledges
        self._life = life
        self._network = network
        self._doors = doors
        self._identity = identity
        self._receiver = receiver
        self._transit = transit
        # Peers with a pending attempt to connect again.
        self._retried: set[int] = set()
        # Incarnations of the other members, from the newest configuration in the log.
        self._incarnations: dict[int, bytes] = {}

    def start(self) -> None:
        me = self._identity.node
        for _, door in sorted((key, door) for key, door in self._doors.items() if key[0] == self._identity.shard):
            # Streams to this node's earlier process are broken, including idle ones.
            door.life.call_later(RETRY_S, door.transport._receiver.unreachable, me)
        self._doors[self._identity.shard, me] = Door(self._life, self)

    async def stop(self) -> None:
        self._doors.pop((self._identity.shard, self._identity.node), None)

    def configured(self, configuration: ShardConfiguration, served: Container[int]) -> None:
        self._incarnations = {
            node: member.incarnation for node, member in configuration.members.items() if node != self._identity.node
        }

    def send(self, message: RaftMessage) -> None:
        if isinstance(message, AppendResponse) and not message.rejected and not self._life.over:
            self._acknowledges(self._identity.shard, message.match)
        if isinstance(message, AppendResponse) and (self._identity.shard, message.receiver) in self._transit.unheard:
            return
        if isinstance(message, AppendResponse | SnapshotResponse):
            answer = raft_pb2.AppendResponse.FromString(answer_to_wire(message).SerializeToString())
            arrives: RaftMessage | None = answer_from_wire(answer, message.sender, message.receiver)
        else:
            control = raft_pb2.ControlMessage.FromString(control_to_wire(message).SerializeToString())
            arrives = control_from_wire(control, message.sender, message.receiver)
        assert arrives is not None
        self._carry(message, lambda receiver: receiver.message(arrives))

    def replicate(self, ranges: Iterable[tuple[Append, Readable]]) -> None:
        for peer, message in ranges_to_wire(ranges):
            self._replicate(peer, message)

    def _replicate(self, peer: int, message: bytes) -> None:
        bulk = parse(message)
        arrives = append_from_wire(bulk.head, self._identity.node, peer)
        sent = bytes(bulk.entries)
        self._carry(arrives, lambda receiver: receiver.append(arrives, memoryview(self._transit.of(sent))))

    def send_snapshot(self, chunk: SnapshotChunk, piece: SnapshotPiece) -> None:
        bulk = parse(serialize(snapshot_to_wire(chunk, piece)))
        arrives, whole = snapshot_from_wire(bulk.head, chunk.sender, chunk.receiver)
        self._carry(
            chunk, lambda receiver: receiver.snapshot(arrives, replace(whole, data=self._transit.of(whole.data)))
        )

    def reopen(self, peer: int) -> None:
        """Notify this replica a little later that the stream to the peer was broken off, as gRPC does."""
        self._life.call_later(RETRY_S, self._receiver.unreachable, peer)

    def _carry(self, message: RaftMessage, hand_over: Callable[[Receiver], None]) -> None:
        if self._life.over:
            return
        me, peer, meant = self._identity.node, message.receiver, b""
        if not isinstance(message, _ANSWERS):
            if peer not in self._incarnations:
                return
            meant = self._incarnations[peer]
        self._network.send(me, peer, lambda: self._arrive(me, peer, meant, hand_over))
        if isinstance(message, Append) and self._network.is_down(peer) and peer not in self._retried:
            self._retried.add(peer)
            self._life.call_later(RETRY_S, self._refused, peer)

    def _refused(self, peer: int) -> None:
        """Notify the sending replica that the peer is unreachable, because the peer has no running process."""
        self._retried.discard(peer)
        self._receiver.unreachable(peer)

    def _arrive(self, sender: int, peer: int, meant: bytes, hand_over: Callable[[Receiver], None]) -> None:
        door = self._doors.get((self._identity.shard, peer))
        if door is not None:
            door.life.deliver(door.transport.take_in, sender, meant, hand_over)

    def take_in(self, sender: int, meant: bytes, hand_over: Callable[[Receiver], None]) -> None:
        """Handle a message that has arrived. `meant` is the incarnation of the node to which the message was sent.
        For a response, `meant` is empty."""
        if meant:
            self.disowned = "" if meant == self._identity.incarnation else "the configuration names another incarnation"
            if self.disowned:
                return
        try:
            hand_over(self._receiver)
        except (CorruptRangeError, ForkedError):
            # The stream of a corrupt message is broken off, and the leader is notified.
            me = self._identity.node
            self._network.send(me, sender, lambda: self._broken(sender, me))

    def _broken(self, leader: int, peer: int) -> None:
        door = self._doors.get((self._identity.shard, leader))
        if door is not None:
            door.life.deliver(door.transport._receiver.unreachable, peer)
