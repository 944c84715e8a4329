"""Control messages of several shards share one stream. All messages of one turn are sent in one bounded bundle."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from grpc import aio

from raft.core import InvalidMessage, RaftMessage
from raft.transport.admission import CallerCheck, EverybodyAdmitted
from raft.transport.control_streams import BUNDLE_BOUND, Bundles, ControlStreams
from raft.v1 import raft_pb2


async def turn() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_what_is_said_in_one_turn_is_one_message() -> None:
    sent: list[raft_pb2.ControlBundle] = []
    bundles = Bundles(sent.append)
    for shard in range(3):
        bundles.add(raft_pb2.ControlMessage(shard=shard))
    assert sent == []
    await turn()
    bundles.add(raft_pb2.ControlMessage(shard=9))
    await turn()
    assert [[message.shard for message in bundle.messages] for bundle in sent] == [[0, 1, 2], [9]]
    await turn()
    assert len(sent) == 2


async def test_more_than_a_bundle_may_have_is_dropped() -> None:
    sent: list[raft_pb2.ControlBundle] = []
    bundles = Bundles(sent.append)
    for shard in range(BUNDLE_BOUND + 5):
        bundles.add(raft_pb2.ControlMessage(shard=shard))
    await turn()
    (bundle,) = sent
    assert [message.shard for message in bundle.messages] == [*range(BUNDLE_BOUND)]


class Heard:
    """Implements `ControlReceiver`."""

    def __init__(self) -> None:
        self.messages: list[RaftMessage] = []

    def refusal_for(self, incarnation: bytes) -> str:
        return ""

    def receive(self, message: RaftMessage) -> None:
        self.messages.append(message)


class Call:
    """The call of a node that sends one bundle and ends, as far as `ControlStreams.serve` uses a call."""

    def __init__(self, bundle: raft_pb2.ControlBundle) -> None:
        self._bundles: list[Any] = [bundle, aio.EOF]
        self.aborted: grpc.StatusCode | None = None

    async def read(self) -> Any:
        return self._bundles.pop(0)

    async def write(self, message: Any) -> None:
        """Take an answer."""

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        self.aborted = code


def bundle_of(count: int) -> raft_pb2.ControlBundle:
    heartbeat = raft_pb2.ControlMessage(shard=0, heartbeat=raft_pb2.Heartbeat(term=1))
    return raft_pb2.ControlBundle(messages=[heartbeat] * count)


@pytest.mark.parametrize("count", [BUNDLE_BOUND, BUNDLE_BOUND + 1])
async def test_a_larger_bundle_than_a_node_sends_is_refused_as_a_whole(count: int) -> None:
    """All messages of a bundle are handled in one turn, so millions of them would stop the node."""
    streams, heard, call = ControlStreams("test", 1), Heard(), Call(bundle_of(count))
    streams.join(0, heard)
    context: Any = call
    await streams.serve(2, CallerCheck(EverybodyAdmitted(), streams.refused, 2, None, "stream"), context)
    is_refused = count > BUNDLE_BOUND
    assert call.aborted is (grpc.StatusCode.INVALID_ARGUMENT if is_refused else None)
    assert (len(heard.messages), streams.refused.count) == ((0, 1) if is_refused else (count, 0))


async def test_a_larger_bundle_of_answers_is_refused_too() -> None:
    streams, heard = ControlStreams("test", 1), Heard()
    streams.join(0, heard)
    with pytest.raises(InvalidMessage, match=f"a bundle of {BUNDLE_BOUND + 1} control messages"):
        streams._receive_answers(2, bundle_of(BUNDLE_BOUND + 1))
    assert heard.messages == []
