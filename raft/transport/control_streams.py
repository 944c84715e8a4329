"""Control streams: one stream each way between two nodes carries the votes and heartbeats of all their shards.

    shard 0 ─┐                                                                        ┌─> shard 0
    shard 1 ─┼─> what is said to node 2 in one turn of the loop ══ one ControlBundle ═╪═> shard 1 ──> answers, by the
    shard 2 ─┘                                                                        └─> shard 2     same stream

A message costs what its stream costs, so those of one turn go together; shards tick in the same turn, and
idle shards cost hardly more than one shard. The caller's identity is checked when a stream opens. Each message also
names the receiver's incarnation, because each shard may know a different one. Messages that cannot be sent are dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from grpc import aio

from raft.core import Message
from raft.transport.streams import CHANNEL_OPTIONS, OutboundStream, SendQueue
from raft.transport.wire import control_from_wire, control_to_wire
from raft.v1 import raft_pb2, raft_pb2_grpc

CONTROL_BOUND = 256
"""Bundles that wait for one peer; more are dropped."""
BUNDLE_BOUND = 1024
"""Messages of one bundle; more of one turn are dropped."""


class Speaker(Protocol):
    """One shard on this node."""

    def admit_to(self, incarnation: bytes) -> str:
        """Why a peer that means this incarnation of this node is not let in; empty when it is."""

    def hear(self, message: Message) -> None: ...


class Bundles:
    """What is said to one node: the messages of one turn go out together."""

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


class Line:
    """To one node at one address, for as many shards as `holders` says."""

    def __init__(self, me: int, node: int, address: str, cluster: str, hear: Callable[[int, Any], None]) -> None:
        self.key = (node, address)
        self.holders = 0
        self._channel = aio.insecure_channel(address, options=CHANNEL_OPTIONS)
        stub = raft_pb2_grpc.RaftStub(self._channel)
        metadata = caller(cluster, me, node)
        self._stream = OutboundStream(
            f"control stream to node {node} at {address}",
            lambda: stub.Control(metadata=metadata),
            bound=CONTROL_BOUND,
            on_answer=lambda bundle: hear(node, bundle),
            on_broken=lambda: None,
        )
        self._bundles = Bundles(self._stream.send)
        self._stream.start()

    def send(self, shard: int, incarnation: bytes, message: Message) -> None:
        """Never waits; dropped while the stream is down."""
        wire = control_to_wire(message)
        wire.shard, wire.incarnation = shard, incarnation
        self._bundles.add(wire)

    async def stop(self) -> None:
        await self._stream.stop()
        await self._channel.close()


class ControlLines:
    """Of one node. A shard joins before it speaks."""

    def __init__(self, cluster: str, node: int) -> None:
        self.cluster = cluster
        self.node = node
        self._shards: dict[int, Speaker] = {}
        self._lines: dict[tuple[int, str], Line] = {}
        self._answers: dict[int, Bundles] = {}
        """By node, on the stream that it opened last."""

    def join(self, shard: int, speaker: Speaker) -> None:
        self._shards[shard] = speaker

    def leave(self, shard: int) -> None:
        self._shards.pop(shard, None)

    def meet(self, node: int, address: str) -> Line:
        """The line to that node, shared by all who meet it there. Give it back by `part`."""
        line = self._lines.get((node, address))
        if line is None:
            line = self._lines[node, address] = Line(self.node, node, address, self.cluster, self._hear_answers)
        line.holders += 1
        return line

    async def part(self, line: Line) -> None:
        line.holders -= 1
        if line.holders == 0:
            del self._lines[line.key]
            await line.stop()

    def answer(self, shard: int, message: Message) -> None:
        """By the stream that brought the question."""
        bundles = self._answers.get(message.receiver)
        if bundles is not None:
            wire = control_to_wire(message)
            wire.shard = shard
            bundles.add(wire)

    async def serve(self, sender: int, context: aio.ServicerContext[Any, Any]) -> None:
        """What one other node says, until its stream ends."""
        queue = SendQueue(CONTROL_BOUND)
        self._answers[sender] = Bundles(queue.put)
        async with queue.drained(context.write, f"control answers to node {sender}"):
            while (bundle := await context.read()) is not aio.EOF:
                for wire in bundle.messages:
                    speaker = self._shards.get(wire.shard)
                    if speaker is not None and not speaker.admit_to(wire.incarnation):
                        self._hear(speaker, sender, wire)

    def _hear_answers(self, sender: int, bundle: raft_pb2.ControlBundle) -> None:
        for wire in bundle.messages:
            if (speaker := self._shards.get(wire.shard)) is not None:
                self._hear(speaker, sender, wire)

    def _hear(self, speaker: Speaker, sender: int, wire: raft_pb2.ControlMessage) -> None:
        message = control_from_wire(wire, sender, self.node)
        if message is not None:
            speaker.hear(message)


def caller(cluster: str, sender: int, receiver: int) -> tuple[tuple[str, str], ...]:
    """The metadata of a stream: who calls, and whom it means to call."""
    return (
        ("ledgermq-cluster", cluster),
        ("ledgermq-sender", str(sender)),
        ("ledgermq-receiver", str(receiver)),
    )
